#include "ledger/accounts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/number.h"

enum { SLOT_NONE = UINT32_MAX };
enum {
  FIXED_ALL = 0,
  FIXED_KINDS = 1,
  FIXED_LAYERS = FIXED_KINDS + KIND_COUNT,
  FIXED_COUNT = FIXED_LAYERS + LAYER_COUNT
};

/* A request between arrival and end. */
struct open_request {
  uint64_t id; /* 0: the place is free */
  uint32_t tenant;
  enum kind kind;
  uint32_t prompt_tokens;
  uint32_t shadow_hit_tokens, retention_hit_tokens; /* of S0 and S1; set where it is closed */
  uint32_t n_blocks;
  block_key *keys; /* [n_blocks], owned; NULL for none */
};

/* A preparation with tokens whose fate is open. */
struct open_task {
  uint64_t id; /* 0: the place is free */
  enum kind kind;
  uint32_t tenant;
  uint32_t next_free;              /* chains free places */
  uint64_t computed, used, wasted; /* tokens; used + wasted ≤ computed */
  uint32_t blocks;                 /* of it in the map of blocks */
  bool is_order;
  bool is_closed;
  uint32_t request_used;  /* scratch of one accounts_finish */
  double request_seconds; /* likewise */
  bool is_listed;         /* likewise: stands in credited[] */
};

struct accounts {
  struct accounts_config config;
  struct accounts_rates rates;
  struct map *request_index;     /* id → place in requests */
  struct open_request *requests; /* [requests_max], a ring: the next arrival takes the place of the oldest */
  uint32_t next_request;
  struct map *task_index;  /* id → place in tasks */
  struct open_task *tasks; /* [tasks_max] */
  uint32_t free_task;
  struct map *blocks;               /* key → place of its task, and BLOCK_ASKED */
  uint32_t unproven;                /* entries of blocks without BLOCK_ASKED whose task is no order */
  uint32_t *credited;               /* [tasks_max]: places with a share in the request being closed */
  struct totals fixed[FIXED_COUNT]; /* ACCOUNT_ALL, then kinds, then layers */
  struct totals *tenants;           /* [n_tenants] */
  uint32_t n_tenants;
  double hits[TIER_COUNT];
};

#define BLOCK_ASKED ((uint64_t)1 << 32)

enum status accounts_create(const struct accounts_config *config, struct accounts **ret_accounts) {
  if (!config->block_tokens || !config->requests_max || !config->blocks_max || !config->tasks_max ||
      !config->tenants_max) {
    return STATUS_INVALID;
  }
  struct accounts *accounts = calloc(1, sizeof *accounts);
  if (!accounts) return STATUS_NO_MEMORY;
  accounts->config = *config;
  accounts->requests = calloc(config->requests_max, sizeof *accounts->requests);
  accounts->tasks = calloc(config->tasks_max, sizeof *accounts->tasks);
  accounts->credited = calloc(config->tasks_max, sizeof *accounts->credited);
  enum status status = STATUS_NO_MEMORY;
  if (!accounts->requests || !accounts->tasks || !accounts->credited) goto out;
  if ((status = map_create(config->requests_max, &accounts->request_index)) != STATUS_OK) goto out;
  if ((status = map_create(config->tasks_max, &accounts->task_index)) != STATUS_OK) goto out;
  if ((status = map_create(config->blocks_max, &accounts->blocks)) != STATUS_OK) goto out;
  for (uint32_t i = 0; i < config->tasks_max; i++) {
    accounts->tasks[i].next_free = i + 1 < config->tasks_max ? i + 1 : SLOT_NONE;
  }
  *ret_accounts = accounts;
  return STATUS_OK;
out:
  accounts_destroy(&accounts);
  return status;
}

void accounts_destroy(struct accounts **accounts) {
  if (!*accounts) return;
  struct accounts *gone = *accounts;
  if (gone->requests) {
    for (uint32_t i = 0; i < gone->config.requests_max; i++) free(gone->requests[i].keys);
  }
  if (gone->request_index) map_destroy(&gone->request_index);
  if (gone->task_index) map_destroy(&gone->task_index);
  if (gone->blocks) map_destroy(&gone->blocks);
  free(gone->requests);
  free(gone->tasks);
  free(gone->credited);
  free(gone->tenants);
  free(gone);
  *accounts = NULL;
}

void accounts_set_rates(struct accounts *accounts, const struct accounts_rates *rates) {
  accounts->rates = (struct accounts_rates){
      .prefill_s_per_token = number_clamp(rates->prefill_s_per_token, 0, 1e6, 0),
      .prefill_s_per_token2 = number_clamp(rates->prefill_s_per_token2, 0, 1e6, 0),
      .saved_second_usd = number_clamp(rates->saved_second_usd, 0, 1e9, 0),
      .speculative_second_usd = number_clamp(rates->speculative_second_usd, 0, 1e9, 0),
      .watts = number_clamp(rates->watts, 0, 1e9, 0),
  };
}

double accounts_prefill_seconds(const struct accounts *accounts, uint32_t from, uint32_t to) {
  double a = from, b = to;
  return accounts->rates.prefill_s_per_token * (b - a) + accounts->rates.prefill_s_per_token2 * (b * b - a * a) / 2;
}

/* ── totals ── */

/* Makes the account of a tenant exist; false: out of memory, nothing changed. */
static bool tenant_reserve(struct accounts *accounts, uint32_t tenant) {
  uint32_t index = tenant < accounts->config.tenants_max ? tenant : accounts->config.tenants_max - 1;
  if (index < accounts->n_tenants) return true;
  struct totals *tenants = realloc(accounts->tenants, ((size_t)index + 1) * sizeof *tenants);
  if (!tenants) return false;
  memset(tenants + accounts->n_tenants, 0, ((size_t)index + 1 - accounts->n_tenants) * sizeof *tenants);
  accounts->tenants = tenants;
  accounts->n_tenants = index + 1;
  return true;
}

static struct totals *tenant_totals(struct accounts *accounts, uint32_t tenant) {
  uint32_t index = tenant < accounts->config.tenants_max ? tenant : accounts->config.tenants_max - 1;
  assert(index < accounts->n_tenants);
  return &accounts->tenants[index];
}

/* The one place where totals grow. Fills in what follows from the rest: net and money. */
static void totals_book(struct accounts *accounts, enum kind kind, enum layer layer, uint32_t tenant,
                        struct totals delta) {
  delta.net_seconds = delta.realized_seconds - delta.speculative_seconds;
  delta.spent_usd = delta.speculative_seconds * accounts->rates.speculative_second_usd;
  delta.realized_usd = delta.realized_seconds * accounts->rates.saved_second_usd;
  delta.net_usd = delta.realized_usd - delta.spent_usd;
  delta.joules = delta.speculative_seconds * accounts->rates.watts;
  totals_add(&accounts->fixed[FIXED_ALL], &delta);
  totals_add(&accounts->fixed[FIXED_KINDS + (uint32_t)kind], &delta);
  totals_add(&accounts->fixed[FIXED_LAYERS + (uint32_t)layer], &delta);
  totals_add(tenant_totals(accounts, tenant), &delta);
}

/* ── requests ── */

static void request_drop(struct accounts *accounts, struct open_request *request) {
  if (!request->id) return;
  map_remove(accounts->request_index, map_key_of(request->id), NULL);
  free(request->keys);
  *request = (struct open_request){0};
}

enum status accounts_arrive(struct accounts *accounts, const struct accounts_arrival *arrival) {
  block_key *keys = NULL;
  if (!tenant_reserve(accounts, arrival->tenant)) return STATUS_NO_MEMORY;
  if (arrival->n_blocks) {
    keys = malloc((size_t)arrival->n_blocks * sizeof *keys);
    if (!keys) return STATUS_NO_MEMORY;
    memcpy(keys, arrival->keys, (size_t)arrival->n_blocks * sizeof *keys);
  }
  uint64_t place;
  if (map_get(accounts->request_index, map_key_of(arrival->request), &place)) {
    request_drop(accounts, &accounts->requests[place]);
  }
  uint32_t ring = accounts->next_request;
  request_drop(accounts, &accounts->requests[ring]);
  enum status status = map_set(accounts->request_index, map_key_of(arrival->request), ring);
  if (status != STATUS_OK) {
    free(keys);
    return status;
  }
  accounts->next_request = (ring + 1) % accounts->config.requests_max;
  accounts->requests[ring] = (struct open_request){
      .id = arrival->request,
      .tenant = arrival->tenant,
      .kind = arrival->kind,
      .prompt_tokens = arrival->prompt_tokens,
      .n_blocks = arrival->n_blocks,
      .keys = keys,
  };
  return STATUS_OK;
}

const block_key *accounts_request_keys(const struct accounts *accounts, uint64_t request, uint32_t *ret_n) {
  uint64_t place;
  *ret_n = 0;
  if (!map_get(accounts->request_index, map_key_of(request), &place)) return NULL;
  *ret_n = accounts->requests[place].n_blocks;
  return accounts->requests[place].keys;
}

/* Of tokens whose fate is being decided, at most as many as the task still has open. */
static uint32_t task_take(struct open_task *task, uint32_t tokens, uint64_t *count) {
  uint64_t open = task->computed - task->used - task->wasted;
  uint32_t taken = open < tokens ? (uint32_t)open : tokens;
  *count += taken;
  return taken;
}

/* Finds the preparations that computed blocks of the hit, marks first asks, and lists each task once. Returns how many
 * are listed. */
static uint32_t request_credit(struct accounts *accounts, const struct open_request *request, uint32_t hit_tokens,
                               double restore_per_token) {
  uint32_t n_credited = 0, size = accounts->config.block_tokens;
  for (uint32_t i = 0; i < request->n_blocks && (uint64_t)(i + 1) * size <= hit_tokens; i++) {
    uint64_t value;
    if (!map_get(accounts->blocks, request->keys[i], &value)) continue;
    uint32_t place = (uint32_t)value;
    struct open_task *task = &accounts->tasks[place];
    if (!task->is_listed) {
      task->is_listed = true;
      task->request_used = 0;
      task->request_seconds = 0;
      accounts->credited[n_credited++] = place;
    }
    if (!(value & BLOCK_ASKED)) {
      task->request_used += task_take(task, size, &task->used);
      accounts->unproven -= !task->is_order;
      enum status status = map_set(accounts->blocks, request->keys[i], value | BLOCK_ASKED);
      assert(status == STATUS_OK); /* the key is there already */
      (void)status;
    }
    uint32_t from = i * size, to = from + size;
    if (from < request->shadow_hit_tokens) from = request->shadow_hit_tokens;
    if (from < to) {
      task->request_seconds += accounts_prefill_seconds(accounts, from, to) - restore_per_token * (double)(to - from);
    }
  }
  return n_credited;
}

static void request_book(struct accounts *accounts, const struct open_request *request, const struct outcome *outcome,
                         uint32_t hit_tokens, accounts_credit *credit, void *credit_ctx,
                         struct accounts_result *result) {
  uint32_t prompt = hit_tokens + outcome->computed_tokens;
  uint32_t shadow_hit = request->shadow_hit_tokens < prompt ? request->shadow_hit_tokens : prompt;
  uint32_t retention_hit = request->retention_hit_tokens < prompt ? request->retention_hit_tokens : prompt;
  double restore_s = (double)outcome->restore_us / 1e6;
  double restore_per_token = hit_tokens ? restore_s / hit_tokens : 0;
  result->is_booked = true;
  result->hit_tokens = hit_tokens;
  result->shadow_hit_tokens = shadow_hit;
  result->foreground_seconds = restore_s + (double)outcome->prefill_us / 1e6 + (double)outcome->decode_us / 1e6;
  result->reuse_seconds = accounts_prefill_seconds(accounts, 0, hit_tokens) - restore_s;
  if (result->reuse_seconds < 0) result->reuse_seconds = 0;
  result->realized_seconds = accounts_prefill_seconds(accounts, shadow_hit, hit_tokens) -
                             restore_per_token * ((double)hit_tokens - (double)shadow_hit);
  double retention_s = accounts_prefill_seconds(accounts, shadow_hit, retention_hit) -
                       restore_per_token * ((double)retention_hit - (double)shadow_hit);
  double preparation_s = result->realized_seconds - retention_s;
  uint32_t n = request_credit(accounts, request, hit_tokens, restore_per_token);
  for (uint32_t i = 0; i < n; i++) {
    struct open_task *task = &accounts->tasks[accounts->credited[i]];
    task->is_listed = false;
    /* A prefix may be public: who prepared it need not be who asked. */
    totals_book(accounts, task->kind, LAYER_PREPARATION, task->tenant,
                (struct totals){.used_tokens = task->request_used});
    totals_book(accounts, task->kind, LAYER_PREPARATION, request->tenant,
                (struct totals){.realized_seconds = task->request_seconds});
    preparation_s -= task->request_seconds;
    if (credit) credit(credit_ctx, task->id, task->request_used, task->request_seconds);
  }
  totals_book(accounts, request->kind, LAYER_PREPARATION, request->tenant,
              (struct totals){.realized_seconds = preparation_s});
  totals_book(accounts, request->kind, LAYER_RETENTION, request->tenant,
              (struct totals){.requests = 1,
                              .prompt_tokens = prompt,
                              .hit_tokens = hit_tokens,
                              .shadow_hit_tokens = shadow_hit,
                              .computed_tokens = outcome->computed_tokens,
                              .foreground_seconds = result->foreground_seconds,
                              .realized_seconds = retention_s});
}

void accounts_finish(struct accounts *accounts, const struct outcome *outcome, const struct accounts_shadows *shadows,
                     accounts_credit *credit, void *credit_ctx, struct accounts_result *ret_result) {
  *ret_result = (struct accounts_result){0};
  uint64_t place;
  if (!map_get(accounts->request_index, map_key_of(outcome->request), &place)) return;
  struct open_request *request = &accounts->requests[place];
  ret_result->tenant = request->tenant;
  ret_result->kind = request->kind;
  uint32_t most = request->prompt_tokens ? request->prompt_tokens - 1 : 0;
  request->shadow_hit_tokens = shadows->reactive_hit_tokens < most ? shadows->reactive_hit_tokens : most;
  request->retention_hit_tokens = shadows->retention_hit_tokens < most ? shadows->retention_hit_tokens : most;
  uint64_t reported = 0;
  for (int tier = 0; tier < TIER_COUNT; tier++) reported += outcome->hit_tokens[tier];
  uint32_t hit_tokens = reported < request->prompt_tokens ? (uint32_t)reported : request->prompt_tokens;
  struct outcome bounded = *outcome;
  if (bounded.computed_tokens > request->prompt_tokens - hit_tokens) {
    bounded.computed_tokens = request->prompt_tokens - hit_tokens;
  }
  if (hit_tokens + bounded.computed_tokens > 0) {
    uint32_t left = hit_tokens;
    for (int tier = 0; tier < TIER_COUNT; tier++) {
      uint32_t tokens = outcome->hit_tokens[tier] < left ? outcome->hit_tokens[tier] : left;
      accounts->hits[tier] += tokens;
      left -= tokens;
    }
    request_book(accounts, request, &bounded, hit_tokens, credit, credit_ctx, ret_result);
  }
  request_drop(accounts, request);
}

/* ── preparations ── */

static struct open_task *task_find(const struct accounts *accounts, uint64_t id) {
  uint64_t place;
  if (!id || !map_get(accounts->task_index, map_key_of(id), &place)) return NULL;
  return &accounts->tasks[place];
}

enum status accounts_task_open(struct accounts *accounts, uint64_t task, enum kind kind, uint32_t tenant,
                               bool is_order) {
  if (!task || kind >= KIND_COUNT || task_find(accounts, task)) return STATUS_INVALID;
  if (accounts->free_task == SLOT_NONE) return STATUS_FULL;
  if (!tenant_reserve(accounts, tenant)) return STATUS_NO_MEMORY;
  uint32_t place = accounts->free_task;
  enum status status = map_set(accounts->task_index, map_key_of(task), place);
  if (status != STATUS_OK) return status;
  accounts->free_task = accounts->tasks[place].next_free;
  accounts->tasks[place] = (struct open_task){.id = task, .kind = kind, .tenant = tenant, .is_order = is_order};
  return STATUS_OK;
}

void accounts_task_spend(struct accounts *accounts, uint64_t task, uint32_t tokens, double seconds, uint64_t bytes) {
  struct open_task *open = task_find(accounts, task);
  if (!open && !tenant_reserve(accounts, 0)) return;
  seconds = number_clamp(seconds, 0, 1e9, 0);
  totals_book(accounts, open ? open->kind : KIND_COMPLETE, LAYER_PREPARATION, open ? open->tenant : 0,
              (struct totals){.prepared_tokens = tokens, .speculative_seconds = seconds, .bytes_moved = (double)bytes});
  if (open) open->computed += tokens;
}

void accounts_task_ready(struct accounts *accounts, uint64_t task, double predicted_seconds) {
  struct open_task *open = task_find(accounts, task);
  if (!open) return;
  totals_book(accounts, open->kind, LAYER_PREPARATION, open->tenant,
              (struct totals){.predicted_seconds = number_clamp(predicted_seconds, -1e9, 1e9, 0)});
}

/* Drops a closed record without blocks. Tokens that were never whole blocks share the fate of the rest. */
static void task_settle(struct accounts *accounts, struct open_task *task) {
  if (!task->is_closed || task->blocks) return;
  if (!task->used) {
    uint64_t open = task->computed - task->wasted;
    totals_book(accounts, task->kind, LAYER_PREPARATION, task->tenant, (struct totals){.wasted_tokens = (double)open});
  }
  map_remove(accounts->task_index, map_key_of(task->id), NULL);
  uint32_t place = (uint32_t)(task - accounts->tasks);
  *task = (struct open_task){.next_free = accounts->free_task};
  accounts->free_task = place;
}

void accounts_task_close(struct accounts *accounts, uint64_t task) {
  struct open_task *open = task_find(accounts, task);
  if (!open) return;
  open->is_closed = true;
  task_settle(accounts, open);
}

enum status accounts_block_prepared(struct accounts *accounts, uint64_t task, block_key key) {
  uint64_t place;
  if (!map_get(accounts->task_index, map_key_of(task), &place)) return STATUS_NOT_FOUND;
  if (map_get(accounts->blocks, key, NULL)) return STATUS_OK;
  enum status status = map_set(accounts->blocks, key, place);
  if (status != STATUS_OK) return status;
  accounts->tasks[place].blocks++;
  accounts->unproven += !accounts->tasks[place].is_order;
  return STATUS_OK;
}

void accounts_block_gone(struct accounts *accounts, block_key key) {
  uint64_t value;
  if (!map_remove(accounts->blocks, key, &value)) return;
  struct open_task *task = &accounts->tasks[(uint32_t)value];
  if (!(value & BLOCK_ASKED)) {
    accounts->unproven -= !task->is_order;
    uint32_t tokens = task_take(task, accounts->config.block_tokens, &task->wasted);
    totals_book(accounts, task->kind, LAYER_PREPARATION, task->tenant, (struct totals){.wasted_tokens = tokens});
  }
  task->blocks--;
  task_settle(accounts, task);
}

uint64_t accounts_block_task(const struct accounts *accounts, block_key key) {
  uint64_t value;
  return map_get(accounts->blocks, key, &value) ? accounts->tasks[(uint32_t)value].id : 0;
}

uint32_t accounts_unproven_blocks(const struct accounts *accounts) {
  return accounts->unproven;
}

/* ── reading and restoring ── */

/* Place of an account in fixed[], FIXED_COUNT for none. */
static uint32_t fixed_place(enum account_axis axis, uint32_t index) {
  if (axis == ACCOUNT_ALL && index == 0) return FIXED_ALL;
  if (axis == ACCOUNT_KIND && index < KIND_COUNT) return FIXED_KINDS + index;
  if (axis == ACCOUNT_LAYER && index < LAYER_COUNT) return FIXED_LAYERS + index;
  return FIXED_COUNT;
}

void accounts_totals(const struct accounts *accounts, enum account_axis axis, uint32_t index,
                     struct totals *ret_totals) {
  *ret_totals = (struct totals){0};
  uint32_t place = fixed_place(axis, index);
  if (place < FIXED_COUNT) *ret_totals = accounts->fixed[place];
  if (axis == ACCOUNT_TENANT && index < accounts->n_tenants) *ret_totals = accounts->tenants[index];
}

enum status accounts_restore(struct accounts *accounts, enum account_axis axis, uint32_t index,
                             const struct totals *totals) {
  size_t n;
  const struct totals_field *fields = totals_fields(&n);
  for (size_t i = 0; i < n; i++) {
    double value;
    memcpy(&value, (const char *)totals + fields[i].offset, sizeof value);
    if (!number_is_finite(value)) return STATUS_INVALID;
  }
  if (axis == ACCOUNT_TENANT) {
    if (index >= accounts->config.tenants_max) return STATUS_INVALID;
    if (!tenant_reserve(accounts, index)) return STATUS_NO_MEMORY;
    totals_add(&accounts->tenants[index], totals);
    return STATUS_OK;
  }
  uint32_t place = fixed_place(axis, index);
  if (place == FIXED_COUNT) return STATUS_INVALID;
  totals_add(&accounts->fixed[place], totals);
  return STATUS_OK;
}

void accounts_hits(const struct accounts *accounts, double ret_hit_tokens[TIER_COUNT]) {
  memcpy(ret_hit_tokens, accounts->hits, sizeof accounts->hits);
}

enum status accounts_restore_hits(struct accounts *accounts, const double hit_tokens[TIER_COUNT]) {
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    if (!number_is_finite(hit_tokens[tier]) || hit_tokens[tier] < 0) return STATUS_INVALID;
  }
  for (int tier = 0; tier < TIER_COUNT; tier++) accounts->hits[tier] += hit_tokens[tier];
  return STATUS_OK;
}

uint32_t accounts_tenants(const struct accounts *accounts) {
  return accounts->n_tenants;
}
