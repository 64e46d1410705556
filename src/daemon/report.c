#include "daemon/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS_SHOWN_MAX = 500, PREFIXES_SHOWN_MAX = 200 };

/* JSON has no NaN; a number that is none is null. */
static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *time_of(uint64_t unix_us) {
  return unix_us == 0 ? json_null() : json_real((double)unix_us / 1e6);
}

static char *text_of(json_t *root) {
  char *text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
  json_decref(root);
  return text;
}

static const char *tenant_name(const struct tenant_names *names, uint32_t tenant) {
  return tenant < names->count ? names->name(names->ctx, tenant) : "";
}

static json_t *totals_json(const struct totals *totals) {
  json_t *object = json_object();
  size_t n;
  const struct totals_field *fields = totals_fields(&n);
  for (size_t i = 0; i < n; i++) {
    double value;
    memcpy(&value, (const char *)totals + fields[i].offset, sizeof value);
    json_object_set_new(object, fields[i].name, number(value));
  }
  return object;
}

static json_t *axis_json(const struct plan *plan, enum account_axis axis, uint32_t index) {
  struct totals totals;
  plan_totals(plan, axis, index, &totals);
  return totals_json(&totals);
}

char *report_ledger(const struct plan *plan, const struct tenant_names *names, uint32_t tenant) {
  json_t *root = json_object();
  bool sees_all = tenant == UINT32_MAX;
  json_object_set_new(root, "totals",
                      sees_all ? axis_json(plan, ACCOUNT_ALL, 0) : axis_json(plan, ACCOUNT_TENANT, tenant));
  if (!sees_all) return text_of(root);
  json_t *kinds = json_object(), *layers = json_object(), *tenants = json_object();
  for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
    json_object_set_new(kinds, kind_name((enum kind)kind), axis_json(plan, ACCOUNT_KIND, kind));
  for (uint32_t layer = 0; layer < LAYER_COUNT; layer++)
    json_object_set_new(layers, layer_name((enum layer)layer), axis_json(plan, ACCOUNT_LAYER, layer));
  for (uint32_t i = 0; i < names->count; i++)
    json_object_set_new(tenants, tenant_name(names, i), axis_json(plan, ACCOUNT_TENANT, i));
  json_object_set_new(root, "kinds", kinds);
  json_object_set_new(root, "layers", layers);
  json_object_set_new(root, "tenants", tenants);
  struct plan_status status;
  plan_status(plan, &status);
  json_object_set_new(root, "holdout",
                      json_pack("{s:I, s:o, s:o, s:o}", "units", (json_int_t)status.holdout_units, "effect_seconds",
                                number(status.holdout_effect_seconds), "lower_seconds",
                                number(status.holdout_lower_seconds), "upper_seconds",
                                number(status.holdout_upper_seconds)));
  return text_of(root);
}

static json_t *task_json(const struct task *task, const struct tenant_names *names) {
  json_t *object = json_pack(
      "{s:I, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:b, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "id", (json_int_t)task->id,
      "state", task_state_name(task->state), "kind", kind_name(task->kind), "tokens", (int)task->tokens, "tokens_done",
      (int)task->tokens_done, "tier", tier_name(task->tier), "reason", task->reason, "tenant",
      tenant_name(names, task->tenant), "is_order", task->is_order, "tokens_computed", (int)task->tokens_computed,
      "tokens_used", (int)task->tokens_used, "probability", number(task->probability), "predicted_seconds",
      number(task->predicted_seconds), "cost_seconds", number(task->cost_seconds), "spent_seconds",
      number(task->spent_seconds), "realized_seconds", number(task->realized_seconds));
  if (object == NULL) return NULL;
  json_object_set_new(object, "created", time_of(task->created_us));
  json_object_set_new(object, "ready", time_of(task->ready_us));
  json_object_set_new(object, "ended", time_of(task->ended_us));
  json_object_set_new(object, "deadline", time_of(task->deadline_us));
  return object;
}

char *report_tasks(const struct plan *plan, const struct tenant_names *names, uint32_t tenant) {
  struct task *tasks = malloc(TASKS_SHOWN_MAX * sizeof *tasks);
  if (tasks == NULL) return NULL;
  size_t n = plan_tasks(plan, tenant, tasks, TASKS_SHOWN_MAX);
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(list, task_json(&tasks[i], names));
  free(tasks);
  return text_of(json_pack("{s:o}", "tasks", list));
}

char *report_task(const struct plan *plan, const struct tenant_names *names, uint64_t id, uint32_t tenant,
                  enum status *ret_status) {
  struct task task;
  *ret_status = plan_task(plan, id, &task);
  if (*ret_status == STATUS_OK && tenant != UINT32_MAX && task.tenant != tenant) *ret_status = STATUS_NOT_FOUND;
  if (*ret_status != STATUS_OK) return NULL;
  char *text = text_of(task_json(&task, names));
  if (text == NULL) *ret_status = STATUS_NO_MEMORY;
  return text;
}

char *report_prefixes(const struct plan *plan, const struct tenant_names *names, uint32_t tenant, uint64_t now_us) {
  struct plan_prefix *prefixes = malloc(PREFIXES_SHOWN_MAX * sizeof *prefixes);
  if (prefixes == NULL) return NULL;
  size_t n = plan_prefixes(plan, tenant, now_us, prefixes, PREFIXES_SHOWN_MAX);
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) {
    const struct plan_prefix *prefix = &prefixes[i];
    json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:s}", "kind", kind_name(prefix->kind),
                                          "tenant", tenant_name(names, prefix->tenant), "from_tokens",
                                          (int)prefix->from_tokens, "tokens", (int)prefix->tokens, "asks",
                                          number(prefix->asks), "probability", number(prefix->probability), "last",
                                          time_of(prefix->last_us), "tier", tier_name(prefix->tier)));
  }
  free(prefixes);
  return text_of(json_pack("{s:o}", "prefixes", list));
}

/* ── budget ── */

struct budget_field {
  const char *name;
  size_t offset;
  bool is_bytes; /* uint64_t, else double */
  double max;
};

static const struct budget_field budget_fields[] = {
    {"device_bytes", offsetof(struct budget, device_bytes), true, 1e15},
    {"ram_bytes", offsetof(struct budget, ram_bytes), true, 1e15},
    {"ssd_bytes", offsetof(struct budget, ssd_bytes), true, 1e15},
    {"ssd_writes_bytes_per_day", offsetof(struct budget, ssd_writes_bytes_per_day), true, 1e15},
    {"idle_fraction_max", offsetof(struct budget, idle_fraction_max), false, 1},
    {"money_usd_per_day", offsetof(struct budget, money_usd_per_day), false, 1e9},
    {"joules_per_day", offsetof(struct budget, joules_per_day), false, 1e15},
};
enum { BUDGET_FIELDS = sizeof budget_fields / sizeof *budget_fields };

char *report_budget(const struct plan *plan) {
  struct budget budget;
  struct plan_status status;
  plan_budget(plan, &budget);
  plan_status(plan, &status);
  json_t *root = json_object();
  for (size_t i = 0; i < BUDGET_FIELDS; i++) {
    const char *at = (const char *)&budget + budget_fields[i].offset;
    if (budget_fields[i].is_bytes) {
      uint64_t bytes;
      memcpy(&bytes, at, sizeof bytes);
      json_object_set_new(root, budget_fields[i].name, json_integer((json_int_t)bytes));
    } else {
      double value;
      memcpy(&value, at, sizeof value);
      json_object_set_new(root, budget_fields[i].name, number(value));
    }
  }
  json_object_set_new(
      root, "account",
      json_pack("{s:o, s:o}", "balance_usd", number(status.account_usd), "cap_usd", number(status.account_cap_usd)));
  json_object_set_new(root, "marginal_value",
                      json_pack("{s:o, s:o, s:o}", "usd_per_speculative_second", number(status.multipliers[TIER_NONE]),
                                "usd_per_ram_byte_hour", number(status.multipliers[TIER_RAM]), "usd_per_ssd_byte_hour",
                                number(status.multipliers[TIER_SSD])));
  return text_of(root);
}

static const struct budget_field *budget_field_of(const char *name) {
  for (size_t i = 0; i < BUDGET_FIELDS; i++)
    if (strcmp(budget_fields[i].name, name) == 0) return &budget_fields[i];
  return NULL;
}

enum status report_parse_budget(const char *body, size_t size, struct budget *budget, struct error *error) {
  json_error_t where;
  json_t *root = json_loadb(body, size, JSON_REJECT_DUPLICATES, &where);
  if (root == NULL)
    return error_set(error, STATUS_INVALID, "the body is not JSON: line %d: %s", where.line, where.text);
  struct budget changed = *budget;
  enum status status = STATUS_OK;
  if (!json_is_object(root)) status = error_set(error, STATUS_INVALID, "the body must be an object of budget fields");
  const char *name;
  json_t *value;
  json_object_foreach(root, name, value) {
    const struct budget_field *field = budget_field_of(name);
    double amount = json_number_value(value);
    if (field == NULL) {
      status = error_set(error, STATUS_INVALID, "there is no budget named '%.64s'", name);
    } else if (!json_is_number(value) || !(amount >= 0 && amount <= field->max)) {
      status = error_set(error, STATUS_INVALID, "'%s' must be a number from 0 to %g", name, field->max);
    } else if (field->is_bytes) {
      uint64_t bytes = (uint64_t)amount;
      memcpy((char *)&changed + field->offset, &bytes, sizeof bytes);
    } else {
      memcpy((char *)&changed + field->offset, &amount, sizeof amount);
    }
    if (status != STATUS_OK) break;
  }
  json_decref(root);
  if (status == STATUS_OK) *budget = changed;
  return status;
}

/* ── status ── */

static json_t *tiers_json(const struct machine *machine) {
  json_t *tiers = json_object();
  for (int tier = TIER_DEVICE; tier <= TIER_SSD; tier++) {
    json_t *object = json_pack(
        "{s:I, s:I, s:I, s:I, s:b}", "limit_bytes", (json_int_t)machine->tier[tier].limit_bytes, "used_bytes",
        (json_int_t)machine->tier[tier].used_bytes, "reserved_bytes", (json_int_t)machine->tier[tier].reserved_bytes,
        "segments", (json_int_t)machine->tier[tier].segments, "is_degraded", machine->tier[tier].is_degraded);
    if (machine->tier[tier].condition[0] != '\0')
      json_object_set_new(object, "condition", json_string(machine->tier[tier].condition));
    json_object_set_new(tiers, tier_name((enum tier)tier), object);
  }
  return tiers;
}

static json_t *learned_json(const struct plan_status *status) {
  return json_pack("{s:o, s:o, s:b, s:o, s:o, s:I}", "prefill_seconds_per_token", number(status->prefill_alpha_s),
                   "prefill_seconds_per_token_squared", number(status->prefill_beta_s), "is_default",
                   status->cost_is_default, "calibration_error", number(status->calibration_error), "brier",
                   number(status->brier), "forecasts_scored", (json_int_t)status->forecasts_scored);
}

char *report_status(const struct plan *plan, const struct machine *machine, uint32_t tenant) {
  json_t *root = json_pack("{s:s, s:s, s:s, s:o, s:i, s:i, s:i, s:i, s:b, s:b, s:s, s:s}", "version", machine->version,
                           "model", machine->model, "engine", machine->engine, "uptime_seconds",
                           number((double)(machine->now_us - machine->started_us) / 1e6), "context_tokens",
                           (int)machine->context_tokens, "slots", (int)machine->slots, "running", (int)machine->running,
                           "waiting", (int)machine->waiting, "is_preparing", machine->is_preparing, "prepare",
                           machine->prepares, "policy", machine->policy, "reuse", machine->reuse);
  if (root == NULL || tenant != UINT32_MAX) return text_of(root); /* the machine is the operator's to see */
  struct plan_status status;
  plan_status(plan, &status);
  if (machine->note[0] != '\0') json_object_set_new(root, "note", json_string(machine->note));
  json_object_set_new(root, "tiers", tiers_json(machine));
  json_object_set_new(root, "ssd_writes",
                      json_pack("{s:I, s:I}", "today_bytes", (json_int_t)machine->ssd_written_today_bytes,
                                "limit_bytes", (json_int_t)machine->ssd_writes_limit_bytes));
  json_object_set_new(root, "states",
                      json_pack("{s:I, s:I, s:I}", "adopted", (json_int_t)machine->states_adopted, "removed",
                                (json_int_t)machine->states_removed, "rejected", (json_int_t)machine->states_rejected));
  json_object_set_new(root, "engine_seconds",
                      json_pack("{s:o, s:o, s:o}", "foreground", number(machine->foreground_seconds), "speculative",
                                number(machine->speculative_seconds), "save", number(machine->save_seconds)));
  json_object_set_new(root, "plan",
                      json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "asks", (json_int_t)status.asks, "ticks",
                                (json_int_t)status.ticks, "actions", (json_int_t)status.actions, "prefixes",
                                (json_int_t)status.nodes, "segments", (json_int_t)status.segments, "guard_credit",
                                number(status.guard_credit)));
  json_object_set_new(root, "learned", learned_json(&status));
  json_t *dropped = json_pack("{s:I, s:I}", "observations", (json_int_t)machine->observations_dropped, "history_rows",
                              (json_int_t)machine->history_dropped);
  if (machine->history_condition[0] != '\0')
    json_object_set_new(dropped, "history_condition", json_string(machine->history_condition));
  json_object_set_new(root, "dropped", dropped);
  return text_of(root);
}

/* ── metrics ── */

/* suffix: "_total" for counters, as Prometheus wants it. */
static enum status metric(struct buffer *text, const char *name, const char *suffix, const char *type,
                          const char *help) {
  return buffer_append_format(text, "# HELP forelay_%s%s %s\n# TYPE forelay_%s%s %s\n", name, suffix, help, name,
                              suffix, type);
}

/* One metric for each field of the totals but those that have a labelled form of their own below. What can fall is a
 * gauge. */
static enum status totals_metrics(const struct totals *totals, struct buffer *text) {
  size_t n;
  const struct totals_field *fields = totals_fields(&n);
  for (size_t i = 0; i < n; i++) {
    const char *name = fields[i].name;
    if (strcmp(name, "prompt_tokens") == 0 || strcmp(name, "requests") == 0) continue;
    bool is_signed = strstr(name, "realized") != NULL || strstr(name, "net") != NULL;
    const char *suffix = is_signed ? "" : "_total";
    double value;
    memcpy(&value, (const char *)totals + fields[i].offset, sizeof value);
    enum status status = metric(text, name, suffix, is_signed ? "gauge" : "counter", fields[i].help);
    if (status == STATUS_OK) status = buffer_append_format(text, "forelay_%s%s %.15g\n", name, suffix, value);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

/* Prompt tokens by where they came from; the sources sum up to the ledger's prompt_tokens. */
static enum status source_metrics(const struct plan *plan, const struct totals *totals, struct buffer *text) {
  double hits[TIER_COUNT];
  plan_hits(plan, hits);
  double computed = totals->prompt_tokens;
  enum status status =
      metric(text, "prompt_tokens", "_total", "counter", "prompt tokens of requests by where their state came from");
  for (int tier = TIER_DEVICE; status == STATUS_OK && tier < TIER_COUNT; tier++) {
    computed -= hits[tier];
    status = buffer_append_format(text, "forelay_prompt_tokens_total{source=\"%s\"} %.15g\n",
                                  tier_name((enum tier)tier), hits[tier]);
  }
  if (status == STATUS_OK)
    status = buffer_append_format(text, "forelay_prompt_tokens_total{source=\"compute\"} %.15g\n", computed);
  return status;
}

static enum status machine_metrics(const struct machine *machine, struct buffer *text) {
  static const char *const parts[] = {"limit", "used", "reserved"};
  enum status status = metric(text, "tier_bytes", "", "gauge", "bytes of a tier");
  for (int tier = TIER_DEVICE; status == STATUS_OK && tier <= TIER_SSD; tier++) {
    const uint64_t values[] = {machine->tier[tier].limit_bytes, machine->tier[tier].used_bytes,
                               machine->tier[tier].reserved_bytes};
    for (int i = 0; status == STATUS_OK && i < 3; i++)
      status = buffer_append_format(text, "forelay_tier_bytes{tier=\"%s\",part=\"%s\"} %llu\n",
                                    tier_name((enum tier)tier), parts[i], (unsigned long long)values[i]);
  }
  const struct {
    const char *name, *type, *help;
    double value;
  } rows[] = {
      {"requests_running", "gauge", "real requests in the engine", machine->running},
      {"requests_waiting", "gauge", "real requests in the queue", machine->waiting},
      {"states_rejected_total", "counter", "stored segments that failed a check and were removed",
       (double)machine->states_rejected},
      {"ssd_written_today_bytes", "gauge", "bytes written to the state folder since midnight UTC",
       (double)machine->ssd_written_today_bytes},
      {"observations_dropped_total", "counter", "events the planner could not take",
       (double)machine->observations_dropped},
      {"history_dropped_total", "counter", "rows the history could not take", (double)machine->history_dropped},
  };
  for (size_t i = 0; status == STATUS_OK && i < sizeof rows / sizeof *rows; i++) {
    status = metric(text, rows[i].name, "", rows[i].type, rows[i].help);
    if (status == STATUS_OK) status = buffer_append_format(text, "forelay_%s %.15g\n", rows[i].name, rows[i].value);
  }
  return status;
}

enum status report_metrics(const struct plan *plan, const struct machine *machine, struct buffer *text) {
  struct totals totals;
  plan_totals(plan, ACCOUNT_ALL, 0, &totals);
  enum status status = source_metrics(plan, &totals, text);
  if (status == STATUS_OK) status = totals_metrics(&totals, text);
  if (status == STATUS_OK) status = machine_metrics(machine, text);
  return status;
}
