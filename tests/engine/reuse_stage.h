/* Model, engine, depot and reuse put together for tests, and a witness for each request. Header only: one test program
 * each, which includes cmocka before it. FORELAY_PROMPTS sets how many prompts the exactness test takes. */
#ifndef FORELAY_TESTS_ENGINE_REUSE_STAGE_H
#define FORELAY_TESTS_ENGINE_REUSE_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/embedded.h"
#include "engine/model.h"
#include "engine/pump.h"
#include "engine/reuse.h"
#include "engine/sample_text.h"
#include "os/clock.h"
#include "store/depot.h"

enum { CONTEXT = 4608, SEQUENCES = 3, SLOTS = 2, QUEUE = 2, ANSWER = 16, TEXT_MAX = 1024, TENANTS = 2 };

static struct model *model;
static struct pump pump;
static struct engine *engine;
static struct depot *depot;
static struct reuse *reuse;
static char folder[64];
static const uint8_t salts[TENANTS][32] = {{1}, {2}};

/* ── listener ── */

static bool refuses_room;
static uint32_t rooms_asked, residences_told;
static double seconds_restored;

static inline void on_residence(void *ctx, const struct reuse_residence *residence) {
  (void)ctx;
  assert_true(residence->seq < SEQUENCES && residence->canonical_tokens <= residence->n_tokens);
  residences_told++;
}

static inline void on_make_room(void *ctx, uint64_t ticket, uint64_t bytes, uint32_t tenant, uint64_t task) {
  (void)ctx;
  (void)task;
  assert_true(bytes > 0 && tenant < TENANTS);
  rooms_asked++;
  reuse_room_made(reuse, ticket, refuses_room ? STATUS_FULL : STATUS_OK);
}

static inline void on_restore_sample(void *ctx, enum tier tier, uint64_t bytes, double seconds) {
  (void)ctx;
  assert_true((tier == TIER_RAM || tier == TIER_SSD) && bytes > 0);
  seconds_restored += seconds;
}

/* ── what one request told ── */

struct witness {
  bool is_over, is_prefilled, is_taken_over;
  uint32_t ends, starts;
  enum status status;
  struct reuse_prefill prefill;
  struct reuse_result result;
  int32_t output[ANSWER];
  char text[TEXT_MAX];
  size_t text_size;
  float *logits;
  uint64_t prefilled_us, submitted_us;
  struct reuse_job *job;
};

static inline void on_started(void *ctx, uint32_t cached_tokens, enum tier tier) {
  struct witness *witness = ctx;

  assert_true((cached_tokens > 0) == (tier != TIER_NONE));
  witness->starts++;
}

static inline void on_prefilled(void *ctx, const struct reuse_prefill *prefill) {
  struct witness *witness = ctx;
  uint32_t sum = 0;

  for (int tier = 0; tier < TIER_COUNT; tier++) {
    sum += prefill->hit_tokens[tier];
  }
  assert_int_equal(sum, prefill->cached_tokens);
  assert_int_equal(witness->starts, 1);
  witness->is_prefilled = true;
  witness->prefill = *prefill;
  witness->prefilled_us = clock_monotonic_us();
}

static inline void on_logits(void *ctx, const float *logits, uint32_t n) {
  struct witness *witness = ctx;

  witness->logits = malloc(n * sizeof(*logits));
  assert_non_null(witness->logits);
  memcpy(witness->logits, logits, n * sizeof(*logits));
}

static inline void on_token(void *ctx, const struct engine_token *token) {
  struct witness *witness = ctx;

  assert_true(witness->text_size + token->text_size < TEXT_MAX);
  memcpy(witness->text + witness->text_size, token->text, token->text_size);
  witness->text_size += token->text_size;
}

static inline void on_end(struct witness *witness, enum status status, const struct reuse_result *result) {
  witness->ends++;
  witness->is_over = true;
  witness->status = status;
  witness->result = *result;
  for (uint32_t i = 0; i < result->output_tokens; i++) {
    witness->output[i] = result->output[i];
  }
}

static inline void on_done(void *ctx, const struct reuse_result *result) {
  on_end(ctx, STATUS_OK, result);
}

static inline void on_failed(void *ctx, enum status status, const struct error *error, bool is_retry_safe,
                             bool is_taken_over, const struct reuse_result *result) {
  struct witness *witness = ctx;

  assert_true(error->text[0] != 0);
  assert_int_equal(is_retry_safe, result->output_tokens == 0);
  witness->is_taken_over = is_taken_over;
  on_end(witness, status, result);
}

static const struct reuse_sink sink = {.started = on_started,
                                       .prefilled = on_prefilled,
                                       .first_logits = on_logits,
                                       .token = on_token,
                                       .done = on_done,
                                       .failed = on_failed};

static inline struct reuse_request ask(uint32_t tenant, const int32_t *tokens, uint32_t n) {
  struct reuse_request request = {.lane = LANE_REAL,
                                  .id = 1,
                                  .tenant = tenant,
                                  .tokens = tokens,
                                  .n_tokens = n,
                                  .mode = REUSE_EXACT,
                                  .output_tokens_max = ANSWER,
                                  .wants_store = true,
                                  .wants_logits = true};

  memcpy(request.salt, salts[tenant], sizeof(request.salt));
  return request;
}

static inline struct reuse_request preparation(uint32_t tenant, const int32_t *tokens, uint32_t n, uint64_t task) {
  struct reuse_request request = ask(tenant, tokens, n);

  request.lane = LANE_SPECULATIVE;
  request.output_tokens_max = 0;
  request.wants_logits = false;
  request.task = task;
  return request;
}

static inline enum status try_submit(const struct reuse_request *request, struct witness *witness) {
  struct error error = {{0}};
  enum status status;

  memset(witness, 0, sizeof(*witness));
  witness->submitted_us = clock_monotonic_us();
  status = reuse_submit(reuse, request, &sink, witness, &witness->job, &error);
  assert_true(status == STATUS_OK || error.text[0] != 0);
  assert_int_equal(witness->ends, 0);
  return status;
}

static inline void submit(const struct reuse_request *request, struct witness *witness) {
  assert_int_equal(try_submit(request, witness), STATUS_OK);
}

static inline void finish(struct witness *witness) {
  pump_until(&pump, &witness->is_over);
  assert_int_equal(witness->ends, 1);
}

static inline void run(const struct reuse_request *request, struct witness *witness) {
  submit(request, witness);
  finish(witness);
  assert_int_equal(witness->status, STATUS_OK);
  if (request->output_tokens_max > 0) {
    assert_int_equal(witness->prefill.cached_tokens + witness->prefill.computed_tokens, request->n_tokens);
  }
}

static inline void drop_witness(struct witness *witness) {
  free(witness->logits);
  witness->logits = NULL;
}

static inline void assert_same_answer(const struct witness *a, const struct witness *b) {
  assert_non_null(a->logits);
  assert_non_null(b->logits);
  assert_memory_equal(a->logits, b->logits, model_facts(model)->n_vocab * sizeof(float));
  assert_int_equal(a->result.output_tokens, b->result.output_tokens);
  assert_memory_equal(a->output, b->output, a->result.output_tokens * sizeof(*a->output));
  assert_int_equal(a->text_size, b->text_size);
  assert_memory_equal(a->text, b->text, a->text_size);
}

/* Until nothing runs and nothing is being saved. */
static inline void settle(void) {
  struct reuse_load load;

  for (;;) {
    reuse_load(reuse, &load);
    if (load.running == 0 && load.waiting == 0 && !load.is_speculating && load.saving == 0) {
      return;
    }
    assert_true(pump_run(&pump, 120000));
  }
}

static inline uint32_t missing_in_ram(uint32_t tenant, const int32_t *tokens, uint32_t n) {
  struct index_range ranges[CONTEXT / SEGMENT_TOKENS];

  return depot_missing(depot, tenant, tokens, n, 0, ranges, CONTEXT / SEGMENT_TOKENS);
}

static inline uint32_t prompts_count(void) {
  const char *text = getenv("FORELAY_PROMPTS");

  return text != NULL ? (uint32_t)atoi(text) : 2;
}

/* ── opening ── */

static inline void open_stack(uint64_t ram_bytes) {
  const struct model_facts *facts = model_facts(model);
  struct depot_config store = {.folder = folder,
                               .ram_bytes = ram_bytes,
                               .ssd_bytes = 1 << 30,
                               .ssd_writes_bytes_per_day = 1ULL << 34,
                               .bytes_per_token = facts->bytes_per_token,
                               .salts = salts,
                               .n_tenants = TENANTS,
                               .post = pump_post,
                               .post_ctx = &pump};
  struct embedded_options embedded = {.model = model, .post = pump_post, .post_ctx = &pump};
  struct reuse_options options = {
      .slots = SLOTS,
      .queue_max = QUEUE,
      .saves_near = true,
      .listener = {.residence = on_residence, .make_room = on_make_room, .restore_sample = on_restore_sample}};
  struct error error = {{0}};

  refuses_room = false;
  rooms_asked = residences_told = 0;
  memset(store.fingerprint.compat, 7, sizeof(store.fingerprint.compat));
  memset(store.fingerprint.exact, 8, sizeof(store.fingerprint.exact));
  memset(options.compat, 7, sizeof(options.compat));
  assert_int_equal(depot_open(&store, &depot, &error), STATUS_OK);
  assert_int_equal(embedded_open(&embedded, &engine, &error), STATUS_OK);
  options.engine = engine;
  options.depot = depot;
  assert_int_equal(reuse_open(&options, &reuse, &error), STATUS_OK);
}

static inline void close_stack(void) {
  reuse_close(&reuse);
  engine_close(&engine);
  depot_close(&depot);
  while (pump_run(&pump, 0)) {
  }
}

static inline int open_test(void **state) {
  char command[96];

  (void)state;
  snprintf(command, sizeof(command), "rm -rf %s/states", folder);
  if (system(command) != 0) {
    return -1;
  }
  open_stack(512 << 20);
  return 0;
}

static inline int close_test(void **state) {
  (void)state;
  close_stack();
  return 0;
}

static inline int open_model(void **state) {
  const char *path = getenv("FORELAY_MODEL"), *threads = getenv("FORELAY_THREADS");
  struct model_config config = {.path = path != NULL ? path
                                                     : FORELAY_SOURCE_DIR "/build/deps/SmolLM2-135M-Instruct.Q4_1.gguf",
                                .context_tokens = CONTEXT,
                                .sequences = SEQUENCES,
                                .threads = threads != NULL ? (uint32_t)atoi(threads) : 2};
  struct error error;

  (void)state;
  pump_init(&pump);
  snprintf(folder, sizeof(folder), "/tmp/forelay-reuse-XXXXXX");
  if (mkdtemp(folder) == NULL || model_open(&config, &model, &error) != STATUS_OK) {
    return -1;
  }
  return 0;
}

static inline int close_model(void **state) {
  char command[96];

  (void)state;
  model_close(&model);
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

#endif
