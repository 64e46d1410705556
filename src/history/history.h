/* What happened, kept in SQLite (`history.sqlite`): asks, outcomes, tasks, and the planner's own rows for the next
 * start. Never waits for the disk on the caller's thread: one writer thread owns the connection, commits every 100 ms
 * or 1,000 rows. A full queue drops rows and counts them; observation never delays an answer. Prompts and tokens are
 * never stored, only block keys. */
#ifndef FORELAY_HISTORY_HISTORY_H
#define FORELAY_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "domain/task.h"

struct history;

enum { HISTORY_VERSION = 1 };

struct history_config {
  const char *path; /* of the database file; created 0600 */
  size_t rows_max;  /* of asks kept, oldest dropped first; 0: 1,000,000 */
  size_t queue_max; /* rows waiting for the writer; 0: 8192 */
};

struct history_stats {
  uint64_t written, dropped; /* rows since open */
  bool is_degraded;          /* the database refuses writes; said once by the caller */
  char reason[160];          /* why */
};

/* Opens or creates the file and starts the writer. STATUS_INCOMPATIBLE: made by a newer forelay; STATUS_CORRUPT: not a
 * database of ours; STATUS_IO. Nothing is changed then. Blocks on the disk. */
MUST_USE enum status history_open(const struct history_config *config, struct history **ret_history,
                                  struct error *error);
/* Writes what is queued, joins the writer; NULL is accepted, nulls the pointer. Blocks. */
void history_close(struct history **history);

/* Any thread; copies; never blocks on the disk. */
void history_ask(struct history *history, const struct ask *ask);
void history_outcome(struct history *history, const struct outcome *outcome);
void history_task(struct history *history, const struct task *task);
/* Replaces the planner's rows by these, in one transaction. rows[n] are texts without newline. */
void history_snapshot(struct history *history, const char *const *rows, size_t n);

/* Calls row() for each of the planner's rows in their order, on this thread; stops when it returns false. Use before
 * anything is queued. Blocks. */
MUST_USE enum status history_rows(struct history *history, bool (*row)(void *ctx, const char *text), void *ctx);
/* The largest task id ever stored, 0 for none. Use before anything is queued. Blocks. */
uint64_t history_task_max(struct history *history);
void history_stats(struct history *history, struct history_stats *ret_stats);

#endif
