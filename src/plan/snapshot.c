/* Memory across restarts: one row a thing, each begins with a word that names version and kind. Numbers are written as
 * prefix/row.h does, so that every bit comes back. */
#include <stdio.h>
#include <string.h>

#include "plan/board.h"
#include "prefix/row.h"

static const char word_totals[] = "p1.totals", word_hits[] = "p1.hits", word_account[] = "p1.account",
                  word_cost[] = "p1.cost", word_day[] = "p1.day", word_task[] = "p1.task", word_yield[] = "p1.yield";
static const char forest_mark[] = "p1.forest ", demand_mark[] = "p1.demand ";

struct saving {
  bool (*row)(void *ctx, const char *text);
  void *ctx;
  const char *mark; /* put before rows of other rooms */
  bool is_stopped;
};

static void put(struct saving *saving, const struct row *row) {
  if (!saving->is_stopped) saving->is_stopped = !saving->row(saving->ctx, row->text);
}

static void save_totals(const struct plan *plan, struct saving *saving) {
  const uint32_t counts[ACCOUNT_AXIS_COUNT] = {1, KIND_COUNT, LAYER_COUNT, accounts_tenants(plan->accounts)};
  size_t n;
  const struct totals_field *fields = totals_fields(&n);
  for (int axis = 0; axis < ACCOUNT_AXIS_COUNT; axis++) {
    for (uint32_t i = 0; i < counts[axis]; i++) {
      struct totals totals;
      struct row row;
      accounts_totals(plan->accounts, (enum account_axis)axis, i, &totals);
      row_begin(&row, word_totals);
      row_put(&row, (uint64_t)axis);
      row_put(&row, i);
      for (size_t f = 0; f < n; f++) {
        double value;
        memcpy(&value, (const char *)&totals + fields[f].offset, sizeof value);
        row_put_double(&row, value);
      }
      put(saving, &row);
    }
  }
}

static void save_numbers(const struct plan *plan, struct saving *saving) {
  struct row row;
  double hits[TIER_COUNT];
  accounts_hits(plan->accounts, hits);
  row_begin(&row, word_hits);
  for (int tier = 0; tier < TIER_COUNT; tier++) row_put_double(&row, hits[tier]);
  put(saving, &row);
  row_begin(&row, word_account);
  row_put_double(&row, plan->spending.balance);
  put(saving, &row);
  row_begin(&row, word_day);
  row_put(&row, plan->demotion_day);
  row_put(&row, plan->demoted_bytes);
  row_put(&row, plan->spent_day);
  row_put_double(&row, plan->spent_day_seconds);
  put(saving, &row);
  for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
    row_begin(&row, word_yield);
    row_put(&row, kind);
    row_put(&row, plan->yields[kind].at_us);
    row_put_double(&row, plan->yields[kind].predicted_s);
    row_put_double(&row, plan->yields[kind].realized_s);
    put(saving, &row);
  }
  row_begin(&row, word_task);
  row_put(&row, taskbook_next_id(plan->taskbook));
  put(saving, &row);
}

static void save_cost(const struct plan *plan, struct saving *saving) {
  if (cost_prefill_estimate(plan->cost, 1, 0).is_default) return;
  struct plan_status status;
  plan_status(plan, &status);
  struct row row;
  row_begin(&row, word_cost);
  row_put_double(&row, status.prefill_alpha_s);
  row_put_double(&row, status.prefill_beta_s);
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    row_put_double(&row, cost_restore_base_seconds(plan->cost, (enum tier)tier));
    row_put_double(&row, status.restore_bytes_per_s[tier]);
  }
  put(saving, &row);
}

static bool save_marked(void *ctx, const char *text) {
  struct saving *saving = ctx;
  char row[PLAN_ROW_SIZE];
  int size = snprintf(row, sizeof row, "%s%s", saving->mark, text);
  if (size < 0 || (size_t)size >= sizeof row) return true; /* cannot be: other rooms' rows are shorter */
  saving->is_stopped = !saving->row(saving->ctx, row);
  return !saving->is_stopped;
}

void plan_save(const struct plan *plan, bool (*row)(void *ctx, const char *text), void *ctx) {
  struct saving saving = {.row = row, .ctx = ctx};
  save_totals(plan, &saving);
  save_numbers(plan, &saving);
  save_cost(plan, &saving);
  saving.mark = forest_mark;
  if (!saving.is_stopped) forest_save(plan->forest, save_marked, &saving);
  saving.mark = demand_mark;
  if (!saving.is_stopped) demand_save(plan->demand, plan->forest, save_marked, &saving);
}

static enum status load_totals(struct plan *plan, const char *text) {
  uint64_t axis;
  uint32_t index;
  struct totals totals = {0};
  size_t n;
  const struct totals_field *fields = totals_fields(&n);
  if (!row_take(&text, ACCOUNT_AXIS_COUNT - 1, &axis) || !row_take_u32(&text, &index)) return STATUS_INVALID;
  for (size_t f = 0; f < n; f++) {
    double value;
    if (!row_take_double(&text, &value)) return STATUS_INVALID;
    memcpy((char *)&totals + fields[f].offset, &value, sizeof value);
  }
  return row_is_over(text) ? accounts_restore(plan->accounts, (enum account_axis)axis, index, &totals) : STATUS_INVALID;
}

static enum status load_hits(struct plan *plan, const char *text) {
  double hits[TIER_COUNT];
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    if (!row_take_double(&text, &hits[tier])) return STATUS_INVALID;
  }
  return row_is_over(text) ? accounts_restore_hits(plan->accounts, hits) : STATUS_INVALID;
}

static enum status load_account(struct plan *plan, const char *text) {
  double balance;
  if (!row_take_double(&text, &balance) || balance < 0 || !row_is_over(text)) return STATUS_INVALID;
  spending_restore(&plan->spending, balance);
  return STATUS_OK;
}

static enum status load_day(struct plan *plan, const char *text) {
  uint32_t demotion_day, spent_day;
  uint64_t demoted_bytes;
  double spent_s;
  bool is_read = row_take_u32(&text, &demotion_day) && row_take(&text, UINT64_MAX / 2, &demoted_bytes) &&
                 row_take_u32(&text, &spent_day) && row_take_double(&text, &spent_s) && row_is_over(text);
  if (!is_read || spent_s < 0) return STATUS_INVALID;
  plan->demotion_day = demotion_day;
  plan->demoted_bytes = demoted_bytes;
  plan->spent_day = spent_day;
  plan->spent_day_seconds = spent_s;
  return STATUS_OK;
}

static enum status load_task(struct plan *plan, const char *text) {
  uint64_t next;
  if (!row_take(&text, UINT64_MAX / 2, &next) || !row_is_over(text)) return STATUS_INVALID;
  taskbook_skip(plan->taskbook, next);
  return STATUS_OK;
}

static enum status load_yield(struct plan *plan, const char *text) {
  uint64_t kind;
  struct yield yield;
  bool is_read = row_take(&text, KIND_COUNT - 1, &kind) && row_take(&text, UINT64_MAX / 2, &yield.at_us) &&
                 row_take_double(&text, &yield.predicted_s) && row_take_double(&text, &yield.realized_s);
  if (!is_read || !row_is_over(text) || yield.predicted_s < 0) return STATUS_INVALID;
  board_advance(plan, yield.at_us);
  plan->yields[kind] = yield;
  return STATUS_OK;
}

/* What was fitted becomes the default that the next fit starts from. */
static enum status load_cost(struct plan *plan, const char *text) {
  struct cost_defaults defaults;
  cost_defaults_embedded(&defaults);
  bool is_read =
      row_take_double(&text, &defaults.prefill_s_per_token) && row_take_double(&text, &defaults.prefill_s_per_token2);
  for (int tier = TIER_DEVICE; is_read && tier < TIER_COUNT; tier++) {
    is_read = row_take_double(&text, &defaults.restore_base_s[tier]) &&
              row_take_double(&text, &defaults.restore_bytes_per_s[tier]);
  }
  if (!is_read || !row_is_over(text)) return STATUS_INVALID;
  struct cost *cost;
  enum status status = cost_create(&defaults, NULL, &cost);
  if (status != STATUS_OK) return status;
  cost_destroy(&plan->cost);
  plan->cost = cost;
  board_update_rates(plan);
  return STATUS_OK;
}

enum status plan_load(struct plan *plan, const char *text) {
  static const struct {
    const char *word;
    enum status (*load)(struct plan *plan, const char *text);
  } rows[] = {{word_totals, load_totals}, {word_hits, load_hits}, {word_account, load_account}, {word_cost, load_cost},
              {word_day, load_day},       {word_task, load_task}, {word_yield, load_yield}};
  if (strlen(text) >= PLAN_ROW_SIZE) return STATUS_INVALID;
  if (strncmp(text, forest_mark, sizeof forest_mark - 1) == 0) {
    return forest_load(plan->forest, text + sizeof forest_mark - 1);
  }
  if (strncmp(text, demand_mark, sizeof demand_mark - 1) == 0) {
    return demand_load(plan->demand, plan->forest, text + sizeof demand_mark - 1);
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *rest = text;
    if (row_take_word(&rest, rows[i].word)) return rows[i].load(plan, rest);
  }
  return STATUS_INVALID;
}
