// rooms: plan
/* Rows of the planner's memory: any lines are taken or refused, the planner goes on working, and what it then saves it
 * takes back. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double draw_half(void *ctx, uint64_t unit, uint32_t day) {
  (void)ctx;
  return (double)((unit ^ day) & 1) / 2;
}

static struct plan *plan_new(void) {
  struct plan_config config = {.policy = POLICY_FORELAY,
                               .prepare = true,
                               .holdout = .1,
                               .draw = draw_half,
                               .block_tokens = 16,
                               .bytes_per_token = 1000,
                               .sequences = 2,
                               .nodes_max = 64,
                               .tasks_max = 16,
                               .horizons_s = {60, 600, 3600},
                               .first_task = 1};
  config.budget = (struct budget){.ram_bytes = 4000000, .ssd_bytes = 4000000, .idle_fraction_max = 1};
  price_init(&config.price, PRICE_OWNED);
  struct plan *plan;
  if (plan_create(&config, &plan, NULL) != STATUS_OK) return NULL;
  return plan;
}

static bool row_check(void *ctx, const char *text) {
  struct plan *into = ctx;
  assert(strlen(text) < PLAN_ROW_SIZE && strchr(text, '\n') == NULL);
  enum status status = plan_load(into, text);
  assert(status == STATUS_OK || status == STATUS_FULL);
  return true;
}

static void plan_use(struct plan *plan) {
  static const block_key keys[3] = {{1, 2}, {3, 4}, {5, 6}};
  struct ask ask = {.request = 1,
                    .at_us = UINT64_C(1764547200000000),
                    .prompt_tokens = 50,
                    .n_blocks = 3,
                    .keys = keys,
                    .material = 1,
                    .may_learn = true,
                    .may_prepare = true};
  struct action actions[8];
  struct load load = {.idle_share = 1};
  struct plan_prefix prefixes[4];
  struct plan_status status;
  size_t n;
  if (plan_ask(plan, &ask) == STATUS_OK) {
    struct outcome outcome = {.request = 1, .at_us = ask.at_us + 1, .computed_tokens = 50, .prefill_us = 1000};
    plan_outcome(plan, &outcome);
  }
  assert(plan_tick(plan, &load, ask.at_us + 1000000, actions, 8, &n) == STATUS_OK && n <= 8);
  assert(plan_prefixes(plan, UINT32_MAX, ask.at_us, prefixes, 4) <= 4);
  plan_status(plan, &status);
  assert(status.prefill_alpha_s >= 0 && status.account_usd >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct plan *plan = plan_new(), *second = plan_new();
  const uint8_t *at = data, *end = data + size;
  while (plan && second && at < end) {
    const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((newline ? newline : end) - at);
    char row[PLAN_ROW_SIZE + 64];
    if (length < sizeof row) {
      memcpy(row, at, length);
      row[length] = '\0';
      (void)!plan_load(plan, row);
    }
    at += length + 1;
    if (!newline) break;
  }
  if (plan && second) {
    plan_use(plan);
    plan_save(plan, row_check, second);
    plan_use(second);
  }
  if (plan) plan_destroy(&plan);
  if (second) plan_destroy(&second);
  return 0;
}
