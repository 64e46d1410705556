#include "history/history.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum row_kind { ROW_ASK, ROW_OUTCOME, ROW_TASK, ROW_SNAPSHOT };

enum { COMMIT_ROWS = 1000, COMMIT_MS = 100, ROWS_MAX_DEFAULT = 1000000, QUEUE_MAX_DEFAULT = 8192, PRUNE_EVERY = 4096 };

/* One waiting row; what follows the struct belongs to it. */
struct row {
  struct row *next;
  enum row_kind kind;
  union {
    struct ask ask;         /* keys point behind the struct */
    struct outcome outcome; /* next_keys unused */
    struct task task;
    struct {
      char **texts; /* [n], each owned */
      size_t n;
    } snapshot;
  } of;
};

struct history {
  sqlite3 *database;                         /* the writer's after open */
  sqlite3_stmt *ask, *outcome, *task, *plan; /* prepared inserts */
  pthread_t writer;
  pthread_mutex_t mutex; /* guards everything below */
  pthread_cond_t more;
  struct row *first, *last;
  size_t queued, queue_max, rows_max;
  bool is_closing;
  struct history_stats stats;
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS asks(request INTEGER, at_us INTEGER, tenant INTEGER, session INTEGER, turn INTEGER,"
    " prompt_tokens INTEGER, head_tokens INTEGER, document_tokens INTEGER, may_prepare INTEGER, keys BLOB);"
    "CREATE INDEX IF NOT EXISTS asks_at ON asks(at_us);"
    "CREATE TABLE IF NOT EXISTS outcomes(request INTEGER, at_us INTEGER, stop INTEGER, hit_device INTEGER, hit_ram "
    "INTEGER,"
    " hit_ssd INTEGER, hit_remote INTEGER, computed_tokens INTEGER, output_tokens INTEGER, queue_us INTEGER,"
    " restore_us INTEGER, prefill_us INTEGER, decode_us INTEGER, ttft_us INTEGER);"
    "CREATE TABLE IF NOT EXISTS tasks(id INTEGER PRIMARY KEY, state TEXT, kind TEXT, tenant INTEGER, is_order INTEGER,"
    " tokens INTEGER, tokens_computed INTEGER, tokens_used INTEGER, probability REAL, predicted_seconds REAL,"
    " cost_seconds REAL, spent_seconds REAL, realized_seconds REAL, created_us INTEGER, ready_us INTEGER, ended_us "
    "INTEGER,"
    " reason TEXT);"
    "CREATE TABLE IF NOT EXISTS plan(number INTEGER PRIMARY KEY, text TEXT NOT NULL);";

static void row_free(struct row *row) {
  if (row->kind == ROW_SNAPSHOT) {
    for (size_t i = 0; i < row->of.snapshot.n; i++) free(row->of.snapshot.texts[i]);
    free(row->of.snapshot.texts);
  }
  free(row);
}

/* ── writer ── */

/* A connection that refuses is said once, in stats; rows then count as dropped. */
static void note_failure(struct history *history) {
  pthread_mutex_lock(&history->mutex);
  if (!history->stats.is_degraded) {
    history->stats.is_degraded = true;
    snprintf(history->stats.reason, sizeof history->stats.reason, "history database: %s",
             sqlite3_errmsg(history->database));
  }
  pthread_mutex_unlock(&history->mutex);
}

static void bind_numbers(sqlite3_stmt *statement, const int64_t *numbers, int n) {
  for (int i = 0; i < n; i++) sqlite3_bind_int64(statement, i + 1, numbers[i]);
}

static int write_ask(struct history *history, const struct ask *ask) {
  const int64_t numbers[] = {
      (int64_t)ask->request, (int64_t)ask->at_us, ask->tenant,          (int64_t)ask->session, ask->turn,
      ask->prompt_tokens,    ask->head_tokens,    ask->document_tokens, ask->may_prepare};
  bind_numbers(history->ask, numbers, 9);
  sqlite3_bind_blob64(history->ask, 10, ask->keys, (sqlite3_uint64)ask->n_blocks * sizeof *ask->keys, SQLITE_STATIC);
  return sqlite3_step(history->ask);
}

static int write_outcome(struct history *history, const struct outcome *outcome) {
  const int64_t numbers[] = {
      (int64_t)outcome->request,        (int64_t)outcome->at_us,       outcome->stop,
      outcome->hit_tokens[TIER_DEVICE], outcome->hit_tokens[TIER_RAM], outcome->hit_tokens[TIER_SSD],
      outcome->hit_tokens[TIER_REMOTE], outcome->computed_tokens,      outcome->output_tokens,
      (int64_t)outcome->queue_us,       (int64_t)outcome->restore_us,  (int64_t)outcome->prefill_us,
      (int64_t)outcome->decode_us,      (int64_t)outcome->ttft_us};
  bind_numbers(history->outcome, numbers, 14);
  return sqlite3_step(history->outcome);
}

static int write_task(struct history *history, const struct task *task) {
  sqlite3_stmt *statement = history->task;
  sqlite3_bind_int64(statement, 1, (int64_t)task->id);
  sqlite3_bind_text(statement, 2, task_state_name(task->state), -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 3, kind_name(task->kind), -1, SQLITE_STATIC);
  const int64_t counts[] = {task->tenant, task->is_order, task->tokens, task->tokens_computed, task->tokens_used};
  for (int i = 0; i < 5; i++) sqlite3_bind_int64(statement, 4 + i, counts[i]);
  const double amounts[] = {task->probability, task->predicted_seconds, task->cost_seconds, task->spent_seconds,
                            task->realized_seconds};
  for (int i = 0; i < 5; i++) sqlite3_bind_double(statement, 9 + i, amounts[i]);
  sqlite3_bind_int64(statement, 14, (int64_t)task->created_us);
  sqlite3_bind_int64(statement, 15, (int64_t)task->ready_us);
  sqlite3_bind_int64(statement, 16, (int64_t)task->ended_us);
  sqlite3_bind_text(statement, 17, task->reason, -1, SQLITE_STATIC);
  return sqlite3_step(statement);
}

/* Inside its own savepoint, so that a failure half-way leaves the old rows. */
static int write_snapshot(struct history *history, const struct row *row) {
  int code = sqlite3_exec(history->database, "SAVEPOINT snapshot; DELETE FROM plan", NULL, NULL, NULL);
  for (size_t i = 0; code == SQLITE_OK && i < row->of.snapshot.n; i++) {
    sqlite3_bind_int64(history->plan, 1, (int64_t)i);
    sqlite3_bind_text(history->plan, 2, row->of.snapshot.texts[i], -1, SQLITE_STATIC);
    code = sqlite3_step(history->plan) == SQLITE_DONE ? SQLITE_OK : SQLITE_ERROR;
    sqlite3_reset(history->plan);
  }
  if (code != SQLITE_OK) sqlite3_exec(history->database, "ROLLBACK TO snapshot", NULL, NULL, NULL);
  sqlite3_exec(history->database, "RELEASE snapshot", NULL, NULL, NULL);
  return code == SQLITE_OK ? SQLITE_DONE : code;
}

static int write_row(struct history *history, struct row *row) {
  int code = SQLITE_DONE;
  switch (row->kind) {
  case ROW_ASK:
    code = write_ask(history, &row->of.ask);
    break;
  case ROW_OUTCOME:
    code = write_outcome(history, &row->of.outcome);
    break;
  case ROW_TASK:
    code = write_task(history, &row->of.task);
    break;
  case ROW_SNAPSHOT:
    code = write_snapshot(history, row);
    break;
  }
  sqlite3_reset(history->ask);
  sqlite3_reset(history->outcome);
  sqlite3_reset(history->task);
  return code;
}

/* Keeps the newest rows_max asks and outcomes. */
static void prune(struct history *history) {
  char text[256];
  snprintf(text, sizeof text,
           "DELETE FROM asks WHERE rowid <= (SELECT max(rowid) FROM asks) - %zu;"
           "DELETE FROM outcomes WHERE rowid <= (SELECT max(rowid) FROM outcomes) - %zu;"
           "DELETE FROM tasks WHERE id <= (SELECT max(id) FROM tasks) - %zu;",
           history->rows_max, history->rows_max, history->rows_max);
  sqlite3_exec(history->database, text, NULL, NULL, NULL);
}

static void write_batch(struct history *history, struct row *batch) {
  uint64_t written = 0, dropped = 0;
  bool is_open = sqlite3_exec(history->database, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
  if (!is_open) note_failure(history);
  for (struct row *row = batch, *next; row != NULL; row = next) {
    next = row->next;
    if (is_open && write_row(history, row) == SQLITE_DONE) {
      written++;
    } else {
      if (is_open) note_failure(history);
      dropped++;
    }
    row_free(row);
  }
  uint64_t before = history->stats.written; /* only this thread writes it */
  if (is_open && (before + written) / PRUNE_EVERY != before / PRUNE_EVERY) prune(history);
  if (is_open && sqlite3_exec(history->database, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
    note_failure(history);
    sqlite3_exec(history->database, "ROLLBACK", NULL, NULL, NULL);
    dropped += written;
    written = 0;
  }
  pthread_mutex_lock(&history->mutex);
  history->stats.written += written;
  history->stats.dropped += dropped;
  pthread_mutex_unlock(&history->mutex);
}

static struct row *take_batch(struct history *history) {
  struct row *batch = history->first, *row = batch;
  size_t n = 1;
  while (row != NULL && row->next != NULL && n < COMMIT_ROWS) row = row->next, n++;
  if (row != NULL) {
    history->first = row->next;
    if (history->first == NULL) history->last = NULL;
    row->next = NULL;
    history->queued -= n;
  }
  return batch;
}

static void *writer_run(void *argument) {
  struct history *history = argument;
  pthread_mutex_lock(&history->mutex);
  for (;;) {
    while (history->first == NULL && !history->is_closing) pthread_cond_wait(&history->more, &history->mutex);
    if (history->first == NULL) break;
    /* Gather for a moment, so that a busy second costs ten commits. */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += COMMIT_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
    while (!history->is_closing && history->queued < COMMIT_ROWS &&
           pthread_cond_timedwait(&history->more, &history->mutex, &until) == 0) {
    }
    struct row *batch = take_batch(history);
    pthread_mutex_unlock(&history->mutex);
    write_batch(history, batch);
    pthread_mutex_lock(&history->mutex);
  }
  pthread_mutex_unlock(&history->mutex);
  return NULL;
}

/* ── callers ── */

/* Takes the row, also when the queue is full. */
static void enqueue(struct history *history, struct row *row) {
  pthread_mutex_lock(&history->mutex);
  bool fits = row->kind == ROW_SNAPSHOT || history->queued < history->queue_max;
  if (fits) {
    row->next = NULL;
    *(history->last != NULL ? &history->last->next : &history->first) = row;
    history->last = row;
    history->queued++;
    pthread_cond_signal(&history->more);
  } else {
    history->stats.dropped++;
  }
  pthread_mutex_unlock(&history->mutex);
  if (!fits) row_free(row);
}

static void count_dropped(struct history *history) {
  pthread_mutex_lock(&history->mutex);
  history->stats.dropped++;
  pthread_mutex_unlock(&history->mutex);
}

void history_ask(struct history *history, const struct ask *ask) {
  size_t keys_bytes = (size_t)ask->n_blocks * sizeof *ask->keys;
  struct row *row = malloc(sizeof *row + keys_bytes);
  if (row == NULL) {
    count_dropped(history);
    return;
  }
  *row = (struct row){.kind = ROW_ASK, .of.ask = *ask};
  if (keys_bytes > 0) memcpy(row + 1, ask->keys, keys_bytes);
  row->of.ask.keys = (const block_key *)(const void *)(row + 1);
  enqueue(history, row);
}

void history_outcome(struct history *history, const struct outcome *outcome) {
  struct row *row = malloc(sizeof *row);
  if (row == NULL) {
    count_dropped(history);
    return;
  }
  *row = (struct row){.kind = ROW_OUTCOME, .of.outcome = *outcome};
  row->of.outcome.next_keys = NULL;
  enqueue(history, row);
}

void history_task(struct history *history, const struct task *task) {
  struct row *row = malloc(sizeof *row);
  if (row == NULL) {
    count_dropped(history);
    return;
  }
  *row = (struct row){.kind = ROW_TASK, .of.task = *task};
  enqueue(history, row);
}

void history_snapshot(struct history *history, const char *const *rows, size_t n) {
  struct row *row = malloc(sizeof *row);
  char **texts = calloc(n > 0 ? n : 1, sizeof *texts);
  size_t copied = 0;
  while (row != NULL && texts != NULL && copied < n && (texts[copied] = strdup(rows[copied])) != NULL) copied++;
  if (row == NULL || texts == NULL || copied < n) {
    for (size_t i = 0; texts != NULL && i < copied; i++) free(texts[i]);
    free(texts);
    free(row);
    count_dropped(history);
    return;
  }
  *row = (struct row){.kind = ROW_SNAPSHOT, .of.snapshot = {texts, n}};
  enqueue(history, row);
}

void history_stats(struct history *history, struct history_stats *ret_stats) {
  pthread_mutex_lock(&history->mutex);
  *ret_stats = history->stats;
  pthread_mutex_unlock(&history->mutex);
}

/* ── opening ── */

static enum status check_version(sqlite3 *database, const char *path, struct error *error) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK ||
      sqlite3_step(statement) != SQLITE_ROW) {
    sqlite3_finalize(statement);
    return error_set(error, STATUS_CORRUPT, "%s is not a history database of forelay (%s): move it away", path,
                     sqlite3_errmsg(database));
  }
  int version = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  if (version > HISTORY_VERSION)
    return error_set(error, STATUS_INCOMPATIBLE,
                     "%s has version %d, this forelay knows %d: use the newer forelay or move it away", path, version,
                     HISTORY_VERSION);
  return STATUS_OK;
}

static enum status prepare(struct history *history, const char *path, struct error *error) {
  sqlite3 *database = history->database;
  enum status status = check_version(database, path, error);
  if (status != STATUS_OK) return status;
  char version[64];
  snprintf(version, sizeof version, "PRAGMA user_version=%d", HISTORY_VERSION);
  const struct {
    sqlite3_stmt **into;
    const char *text;
  } inserts[] = {
      {&history->ask, "INSERT INTO asks VALUES(?,?,?,?,?,?,?,?,?,?)"},
      {&history->outcome, "INSERT INTO outcomes VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
      {&history->task, "INSERT OR REPLACE INTO tasks VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
      {&history->plan, "INSERT INTO plan VALUES(?,?)"},
  };
  bool is_ready =
      sqlite3_exec(database, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", NULL, NULL, NULL) == SQLITE_OK &&
      sqlite3_exec(database, schema, NULL, NULL, NULL) == SQLITE_OK &&
      sqlite3_exec(database, version, NULL, NULL, NULL) == SQLITE_OK;
  for (size_t i = 0; is_ready && i < sizeof inserts / sizeof *inserts; i++)
    is_ready = sqlite3_prepare_v2(database, inserts[i].text, -1, inserts[i].into, NULL) == SQLITE_OK;
  if (is_ready) return STATUS_OK;
  enum status code = sqlite3_errcode(database) == SQLITE_NOTADB ? STATUS_CORRUPT : STATUS_IO;
  return error_set(error, code, "%s: %s: move it away or make its folder writable", path, sqlite3_errmsg(database));
}

static void close_database(struct history *history) {
  sqlite3_finalize(history->ask);
  sqlite3_finalize(history->outcome);
  sqlite3_finalize(history->task);
  sqlite3_finalize(history->plan);
  sqlite3_close(history->database);
}

enum status history_open(const struct history_config *config, struct history **ret_history, struct error *error) {
  struct history *history = calloc(1, sizeof *history);
  if (history == NULL) return STATUS_NO_MEMORY;
  history->rows_max = config->rows_max > 0 ? config->rows_max : ROWS_MAX_DEFAULT;
  history->queue_max = config->queue_max > 0 ? config->queue_max : QUEUE_MAX_DEFAULT;
  enum status status;
  mode_t mask = umask(0077);
  int code = sqlite3_open_v2(config->path, &history->database,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  umask(mask);
  if (code != SQLITE_OK)
    status = error_set(error, STATUS_IO, "%s: %s: make its folder writable", config->path,
                       sqlite3_errmsg(history->database));
  else
    status = prepare(history, config->path, error);
  if (status == STATUS_OK) {
    pthread_mutex_init(&history->mutex, NULL);
    pthread_cond_init(&history->more, NULL);
    if (pthread_create(&history->writer, NULL, writer_run, history) != 0)
      status = error_set(error, STATUS_NO_MEMORY, "the history's writer thread could not be started");
  }
  if (status != STATUS_OK) {
    close_database(history);
    free(history);
    return status;
  }
  *ret_history = history;
  return STATUS_OK;
}

void history_close(struct history **reference) {
  struct history *history = *reference;
  if (history == NULL) return;
  pthread_mutex_lock(&history->mutex);
  history->is_closing = true;
  pthread_cond_signal(&history->more);
  pthread_mutex_unlock(&history->mutex);
  pthread_join(history->writer, NULL);
  close_database(history);
  pthread_cond_destroy(&history->more);
  pthread_mutex_destroy(&history->mutex);
  free(history);
  *reference = NULL;
}

enum status history_rows(struct history *history, bool (*row)(void *ctx, const char *text), void *ctx) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(history->database, "SELECT text FROM plan ORDER BY number", -1, &statement, NULL) != SQLITE_OK)
    return STATUS_IO;
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW)
    if (!row(ctx, (const char *)sqlite3_column_text(statement, 0))) break;
  sqlite3_finalize(statement);
  return code == SQLITE_DONE || code == SQLITE_ROW ? STATUS_OK : STATUS_IO;
}

uint64_t history_task_max(struct history *history) {
  sqlite3_stmt *statement = NULL;
  uint64_t largest = 0;
  if (sqlite3_prepare_v2(history->database, "SELECT max(id) FROM tasks", -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    largest = (uint64_t)sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return largest;
}
