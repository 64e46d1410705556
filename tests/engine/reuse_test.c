/* Reuse on the real model: what is taken from where, that it changes nothing in the answer, who may see it, and that
 * every request ends exactly once. FORELAY_PROMPTS sets how many prompts the exactness test takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/embedded.h"
#include "engine/model.h"
#include "engine/pump.h"
#include "engine/reuse.h"
#include "engine/sample_text.h"
#include "os/clock.h"
#include "store/depot.h"

enum { CONTEXT = 4608, SEQUENCES = 3, SLOTS = 2, QUEUE = 2, ANSWER = 4, TEXT_MAX = 1024, TENANTS = 2 };

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

static void on_residence(void *ctx, const struct reuse_residence *residence) {
  (void)ctx;
  assert_true(residence->seq < SEQUENCES && residence->canonical_tokens <= residence->n_tokens);
  residences_told++;
}

static void on_make_room(void *ctx, uint64_t ticket, uint64_t bytes, uint32_t tenant, uint64_t task) {
  (void)ctx;
  (void)task;
  assert_true(bytes > 0 && tenant < TENANTS);
  rooms_asked++;
  reuse_room_made(reuse, ticket, refuses_room ? STATUS_FULL : STATUS_OK);
}

static void on_restore_sample(void *ctx, enum tier tier, uint64_t bytes, double seconds) {
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

static void on_started(void *ctx, uint32_t cached_tokens, enum tier tier) {
  struct witness *witness = ctx;

  assert_true((cached_tokens > 0) == (tier != TIER_NONE));
  witness->starts++;
}

static void on_prefilled(void *ctx, const struct reuse_prefill *prefill) {
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

static void on_logits(void *ctx, const float *logits, uint32_t n) {
  struct witness *witness = ctx;

  witness->logits = malloc(n * sizeof(*logits));
  assert_non_null(witness->logits);
  memcpy(witness->logits, logits, n * sizeof(*logits));
}

static void on_token(void *ctx, const struct engine_token *token) {
  struct witness *witness = ctx;

  assert_true(witness->text_size + token->text_size < TEXT_MAX);
  memcpy(witness->text + witness->text_size, token->text, token->text_size);
  witness->text_size += token->text_size;
}

static void on_end(struct witness *witness, enum status status, const struct reuse_result *result) {
  witness->ends++;
  witness->is_over = true;
  witness->status = status;
  witness->result = *result;
  for (uint32_t i = 0; i < result->output_tokens; i++) {
    witness->output[i] = result->output[i];
  }
}

static void on_done(void *ctx, const struct reuse_result *result) {
  on_end(ctx, STATUS_OK, result);
}

static void on_failed(void *ctx, enum status status, const struct error *error, bool is_retry_safe, bool is_taken_over,
                      const struct reuse_result *result) {
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

static struct reuse_request ask(uint32_t tenant, const int32_t *tokens, uint32_t n) {
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

static struct reuse_request preparation(uint32_t tenant, const int32_t *tokens, uint32_t n, uint64_t task) {
  struct reuse_request request = ask(tenant, tokens, n);

  request.lane = LANE_SPECULATIVE;
  request.output_tokens_max = 0;
  request.wants_logits = false;
  request.task = task;
  return request;
}

static enum status try_submit(const struct reuse_request *request, struct witness *witness) {
  struct error error = {{0}};
  enum status status;

  memset(witness, 0, sizeof(*witness));
  witness->submitted_us = clock_monotonic_us();
  status = reuse_submit(reuse, request, &sink, witness, &witness->job, &error);
  assert_true(status == STATUS_OK || error.text[0] != 0);
  assert_int_equal(witness->ends, 0);
  return status;
}

static void submit(const struct reuse_request *request, struct witness *witness) {
  assert_int_equal(try_submit(request, witness), STATUS_OK);
}

static void finish(struct witness *witness) {
  pump_until(&pump, &witness->is_over);
  assert_int_equal(witness->ends, 1);
}

static void run(const struct reuse_request *request, struct witness *witness) {
  submit(request, witness);
  finish(witness);
  assert_int_equal(witness->status, STATUS_OK);
  if (request->output_tokens_max > 0) {
    assert_int_equal(witness->prefill.cached_tokens + witness->prefill.computed_tokens, request->n_tokens);
  }
}

static void drop_witness(struct witness *witness) {
  free(witness->logits);
  witness->logits = NULL;
}

static void assert_same_answer(const struct witness *a, const struct witness *b) {
  assert_non_null(a->logits);
  assert_non_null(b->logits);
  assert_memory_equal(a->logits, b->logits, model_facts(model)->n_vocab * sizeof(float));
  assert_int_equal(a->result.output_tokens, b->result.output_tokens);
  assert_memory_equal(a->output, b->output, a->result.output_tokens * sizeof(*a->output));
  assert_int_equal(a->text_size, b->text_size);
  assert_memory_equal(a->text, b->text, a->text_size);
}

/* Until nothing runs and nothing is being saved. */
static void settle(void) {
  struct reuse_load load;

  for (;;) {
    reuse_load(reuse, &load);
    if (load.running == 0 && load.waiting == 0 && !load.is_speculating && load.saving == 0) {
      return;
    }
    assert_true(pump_run(&pump, 120000));
  }
}

static uint32_t missing_in_ram(uint32_t tenant, const int32_t *tokens, uint32_t n) {
  struct index_range ranges[CONTEXT / SEGMENT_TOKENS];

  return depot_missing(depot, tenant, tokens, n, ranges, CONTEXT / SEGMENT_TOKENS);
}

static uint32_t prompts_count(void) {
  const char *text = getenv("FORELAY_PROMPTS");

  return text != NULL ? (uint32_t)atoi(text) : 2;
}

/* ── opening ── */

static void open_stack(uint64_t ram_bytes) {
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

static void close_stack(void) {
  reuse_close(&reuse);
  engine_close(&engine);
  depot_close(&depot);
  while (pump_run(&pump, 0)) {
  }
}

static int open_test(void **state) {
  char command[96];

  (void)state;
  snprintf(command, sizeof(command), "rm -rf %s/states", folder);
  if (system(command) != 0) {
    return -1;
  }
  open_stack(512 << 20);
  return 0;
}

static int close_test(void **state) {
  (void)state;
  close_stack();
  return 0;
}

static int open_model(void **state) {
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

static int close_model(void **state) {
  char command[96];

  (void)state;
  model_close(&model);
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

/* ── tests ── */

struct demotions {
  uint32_t asked, present;
};

static void demote(void *ctx, const struct index_entry *entry) {
  struct demotions *demotions = ctx;

  demotions->asked++;
  demotions->present += entry->bytes[TIER_SSD] > 0;
}

struct segments {
  uint64_t ids[256];
  uint32_t n;
};

static void collect(void *ctx, const struct index_entry *entry) {
  struct segments *segments = ctx;

  segments->ids[segments->n++] = entry->id;
}

/* All segments to the disk, parents first, and everything but that forgotten. */
static void move_to_ssd_and_reopen(void) {
  struct segments segments = {.n = 0};
  struct demotions demotions = {0};

  settle();
  depot_each(depot, UINT32_MAX, collect, &segments);
  assert_true(segments.n > 0);
  assert_int_equal(depot_flush(depot, segments.ids, segments.n, clock_monotonic_us() + 60000000), segments.n);
  depot_each(depot, UINT32_MAX, demote, &demotions);
  assert_int_equal(demotions.present, demotions.asked);
  close_stack();
  open_stack(512 << 20);
}

/* The same bits from a cold run, the device, RAM, SSD after a restart, and as shorter prefix of a longer state. */
static void test_exact_from_every_tier(void **state) {
  uint32_t n_prompts = prompts_count();
  struct witness *colds = calloc(n_prompts, sizeof(*colds));
  struct witness *other_colds = calloc(n_prompts, sizeof(*other_colds));
  int32_t **prompts = calloc(n_prompts, sizeof(*prompts)), **others = calloc(n_prompts, sizeof(*others));
  struct witness warm;

  (void)state;
  assert_true(colds != NULL && other_colds != NULL && prompts != NULL && others != NULL);
  for (uint32_t i = 0; i < n_prompts; i++) {
    uint32_t n = 150 + i * 41 % 150;
    struct reuse_request request;

    prompts[i] = sample_tokens(model, 1000 + i, n);
    others[i] = sample_tokens(model, 2000 + i, n);
    memcpy(others[i], prompts[i], 75 * sizeof(*prompts[i])); /* shares a beginning */
    request = ask(0, others[i], n);
    request.wants_store = false;
    run(&request, &other_colds[i]);
    assert_int_equal(other_colds[i].prefill.cached_tokens, 0);
    request = ask(0, prompts[i], n);
    run(&request, &colds[i]);
    assert_int_equal(colds[i].prefill.cached_tokens, 0);
    run(&request, &warm);
    assert_int_equal(warm.prefill.hit_tokens[TIER_DEVICE], n - 1);
    assert_same_answer(&colds[i], &warm);
    drop_witness(&warm);
  }
  for (int round = 0; round < 2; round++) {
    enum tier tier = round == 0 ? TIER_RAM : TIER_SSD;

    for (uint32_t i = 0; i < n_prompts; i++) {
      uint32_t n = 150 + i * 41 % 150;
      struct reuse_request request = ask(0, prompts[i], n);

      settle();
      reuse_forget(reuse, NULL);
      run(&request, &warm);
      assert_int_equal(warm.prefill.hit_tokens[tier], n - 1);
      assert_int_equal(warm.prefill.tier, tier);
      assert_same_answer(&colds[i], &warm);
      drop_witness(&warm);
      settle();
      reuse_forget(reuse, NULL);
      request = ask(0, others[i], n);
      request.wants_store = false;
      run(&request, &warm);
      assert_in_range(warm.prefill.cached_tokens, 75, n - 65);
      assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], warm.prefill.cached_tokens);
      assert_same_answer(&other_colds[i], &warm);
      drop_witness(&warm);
    }
    if (round == 0) {
      move_to_ssd_and_reopen();
    }
  }
  for (uint32_t i = 0; i < n_prompts; i++) {
    drop_witness(&colds[i]);
    drop_witness(&other_colds[i]);
    free(prompts[i]);
    free(others[i]);
  }
  free(prompts);
  free(others);
  free(colds);
  free(other_colds);
}

static void test_tenants_never_share(void **state) {
  int32_t *tokens = sample_tokens(model, 1, 150);
  struct reuse_request mine = ask(0, tokens, 150), theirs = ask(1, tokens, 150);
  struct witness first, second, third;

  (void)state;
  run(&mine, &first);
  settle();
  assert_int_equal(missing_in_ram(0, tokens, 149), 0);
  run(&theirs, &second);
  assert_int_equal(second.prefill.cached_tokens, 0);
  assert_int_equal(reuse_device_tokens(reuse, salts[1], tokens, 150), 150);
  assert_same_answer(&first, &second);
  settle();
  reuse_forget(reuse, salts[0]);
  assert_int_equal(reuse_device_tokens(reuse, salts[0], tokens, 150), 0);
  assert_true(reuse_device_tokens(reuse, salts[1], tokens, 150) > 0);
  run(&mine, &third);
  assert_int_equal(third.prefill.hit_tokens[TIER_RAM], 149);
  drop_witness(&first);
  drop_witness(&second);
  drop_witness(&third);
  free(tokens);
}

static void test_unwanted_storage_leaves_nothing(void **state) {
  int32_t *tokens = sample_tokens(model, 2, 150);
  struct reuse_request request = ask(0, tokens, 150);
  struct reuse_load load;
  struct depot_stats stats;
  struct witness first, second;

  (void)state;
  request.wants_store = false;
  run(&request, &first);
  assert_int_equal(first.result.ready_tokens, 0);
  settle();
  reuse_load(reuse, &load);
  depot_stats(depot, &stats);
  assert_int_equal(load.device_tokens, 0);
  assert_int_equal(stats.tier[TIER_RAM].segments, 0);
  assert_int_equal(stats.tier[TIER_SSD].segments, 0);
  run(&request, &second);
  assert_int_equal(second.prefill.cached_tokens, 0);
  drop_witness(&first);
  drop_witness(&second);
  free(tokens);
}

static void test_near_takes_what_was_generated(void **state) {
  int32_t *tokens = sample_tokens(model, 3, 260);
  struct reuse_request first_turn = ask(0, tokens, 140), next_turn;
  struct witness first, exact, near;
  uint32_t generated;

  (void)state;
  run(&first_turn, &first);
  generated = first.result.output_tokens - 1; /* the last token sampled lies nowhere */
  memcpy(tokens + 140, first.output, first.result.output_tokens * sizeof(*tokens));
  next_turn = ask(0, tokens, 260);
  next_turn.mode = REUSE_NEAR;
  next_turn.wants_store = false;
  settle();
  run(&next_turn, &near);
  assert_int_equal(near.prefill.cached_tokens, 140 + generated);
  next_turn.mode = REUSE_EXACT;
  settle();
  run(&next_turn, &exact);
  assert_int_equal(exact.prefill.cached_tokens, 139);
  next_turn.mode = REUSE_OFF;
  drop_witness(&near);
  run(&next_turn, &near);
  assert_int_equal(near.prefill.cached_tokens, 0);
  assert_same_answer(&exact, &near);
  drop_witness(&first);
  drop_witness(&exact);
  drop_witness(&near);
  free(tokens);
}

static void test_queue_is_bounded_and_in_order(void **state) {
  int32_t *tokens = sample_tokens(model, 4, 400);
  struct reuse_request requests[6];
  struct witness witnesses[6];
  struct reuse_load load;

  (void)state;
  for (uint32_t i = 0; i < 6; i++) {
    requests[i] = ask(i % 2, tokens + i, 200);
    requests[i].output_tokens_max = 1;
  }
  for (uint32_t i = 0; i < 4; i++) {
    submit(&requests[i], &witnesses[i]);
  }
  reuse_load(reuse, &load);
  assert_int_equal(load.running, SLOTS);
  assert_int_equal(load.waiting, QUEUE);
  assert_int_equal(load.idle_since_us, 0);
  assert_int_equal(try_submit(&requests[4], &witnesses[4]), STATUS_FULL);
  /* One that leaves the queue makes place for another. */
  reuse_cancel(reuse, witnesses[2].job);
  finish(&witnesses[2]);
  assert_int_equal(witnesses[2].status, STATUS_CANCELLED);
  assert_int_equal(witnesses[2].starts, 0);
  submit(&requests[5], &witnesses[5]);
  finish(&witnesses[3]);
  assert_true(witnesses[0].is_over || witnesses[1].is_over);
  finish(&witnesses[0]);
  finish(&witnesses[1]);
  finish(&witnesses[5]);
  assert_true(witnesses[5].prefill.queue_us >= witnesses[3].prefill.queue_us / 2);
  reuse_load(reuse, &load);
  assert_true(load.idle_since_us > 0);
  assert_true(load.foreground_seconds > 0);
  for (uint32_t i = 0; i < 6; i++) {
    if (i != 4) {
      drop_witness(&witnesses[i]);
    }
  }
  free(tokens);
}

static void test_deadline_of_waiting(void **state) {
  int32_t *tokens = sample_tokens(model, 5, 400);
  struct reuse_request requests[3];
  struct witness witnesses[3];

  (void)state;
  for (uint32_t i = 0; i < 3; i++) {
    requests[i] = ask(0, tokens + i, 200);
    requests[i].output_tokens_max = 1;
  }
  requests[2].deadline_us = 1;
  for (uint32_t i = 0; i < 3; i++) {
    submit(&requests[i], &witnesses[i]);
  }
  finish(&witnesses[2]);
  assert_int_equal(witnesses[2].status, STATUS_TIMEOUT);
  for (uint32_t i = 0; i < 2; i++) {
    finish(&witnesses[i]);
    drop_witness(&witnesses[i]);
  }
  free(tokens);
}

struct save {
  bool is_over;
  enum status status;
  uint32_t ram_tokens;
};

static void on_saved(void *ctx, enum status status, uint32_t ram_tokens) {
  struct save *save = ctx;

  assert_false(save->is_over);
  save->is_over = true;
  save->status = status;
  save->ram_tokens = ram_tokens;
}

static void test_preparation_serves_from_ram(void **state) {
  int32_t *tokens = sample_tokens(model, 6, 300);
  struct reuse_request prepare = preparation(0, tokens, 200, 77), again = preparation(0, tokens, 220, 78);
  struct reuse_request request = ask(0, tokens, 300), cold_request = request;
  struct witness prepared, extended, warm, cold, busy;
  struct save save = {0}, none = {0};

  (void)state;
  cold_request.wants_store = false;
  run(&cold_request, &cold);
  submit(&prepare, &prepared);
  assert_int_equal(try_submit(&again, &busy), STATUS_BUSY); /* one at a time */
  finish(&prepared);
  assert_int_equal(prepared.status, STATUS_OK);
  assert_int_equal(prepared.result.ready_tokens, 200);
  assert_int_equal(prepared.result.prefill.computed_tokens, 200);
  /* 20 tokens more: as many are computed again as keep the micro-batches long. */
  settle();
  run(&again, &extended);
  assert_int_equal(extended.result.ready_tokens, 220);
  assert_int_equal(extended.result.prefill.computed_tokens, 64);
  assert_int_equal(reuse_save(reuse, salts[0], 0, tokens, 220, 78, on_saved, &save), STATUS_OK);
  assert_false(save.is_over);
  pump_until(&pump, &save.is_over);
  assert_int_equal(save.status, STATUS_OK);
  assert_int_equal(save.ram_tokens, 220);
  assert_true(rooms_asked == 0); /* there is plenty */
  assert_int_equal(reuse_save(reuse, salts[1], 1, tokens, 220, 78, on_saved, &none), STATUS_NOT_FOUND);
  settle();
  reuse_forget(reuse, NULL);
  run(&request, &warm);
  assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], 220);
  assert_true(warm.prefill.task == 77 || warm.prefill.task == 78);
  assert_same_answer(&cold, &warm);
  assert_true(seconds_restored > 0);
  drop_witness(&cold);
  drop_witness(&warm);
  free(tokens);
}

static double memcpy_seconds(uint64_t bytes) {
  void *from = malloc(bytes), *to = malloc(bytes);
  uint64_t best_us = UINT64_MAX;

  assert_true(from != NULL && to != NULL);
  memset(from, 1, bytes);
  memset(to, 2, bytes);
  for (int i = 0; i < 5; i++) {
    uint64_t begin_us = clock_monotonic_us(), us;

    memcpy(to, from, bytes);
    us = clock_monotonic_us() - begin_us;
    best_us = us < best_us ? us : best_us;
  }
  free(from);
  free(to);
  return (double)best_us / 1e6;
}

/* A prepared prompt comes from RAM in a small part of the time of a cold one. FORELAY_LONG tokens, at most 4,500. */
static void test_prepared_prompt_is_quick(void **state) {
  const char *text = getenv("FORELAY_LONG");
  uint32_t n = text != NULL ? (uint32_t)atoi(text) : 500;
  int32_t *tokens = sample_tokens(model, 70, n);
  struct reuse_request prepare = preparation(0, tokens, n, 4), request = ask(0, tokens, n);
  struct witness prepared, warm, step;
  uint64_t cold_us, warm_us, best_us = UINT64_MAX;
  double limit_s;

  (void)state;
  request.output_tokens_max = 1;
  run(&prepare, &prepared);
  cold_us = prepared.result.prefill.prefill_us;
  settle();
  limit_s = memcpy_seconds((uint64_t)n * model_facts(model)->bytes_per_token);
  for (int i = 0; i < 5; i++) {
    reuse_forget(reuse, NULL);
    run(&request, &warm);
    assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], n - 1);
    warm_us = warm.prefilled_us - warm.submitted_us;
    best_us = warm_us < best_us ? warm_us : best_us;
    drop_witness(&warm);
    settle();
  }
  run(&request, &step); /* from the device: one decode */
  print_message("  %u prepared tokens: %.1f ms from RAM, cold %.0f ms; memcpy %.1f ms, device %.1f ms\n", (unsigned)n,
                (double)best_us / 1e3, (double)cold_us / 1e3, limit_s * 1e3,
                (double)(step.prefilled_us - step.submitted_us) / 1e3);
  assert_true(best_us * 3 < cold_us);
  drop_witness(&step);
  free(tokens);
}

static void test_request_takes_over_a_preparation(void **state) {
  int32_t *tokens = sample_tokens(model, 7, 700);
  struct reuse_request prepare = preparation(0, tokens, 699, 5), request = ask(0, tokens, 700), cold_request = request;
  struct witness prepared, taken, cold;

  (void)state;
  cold_request.wants_store = false;
  run(&cold_request, &cold);
  submit(&prepare, &prepared);
  while (reuse_device_tokens(reuse, salts[0], tokens, 700) < 256) {
    (void)pump_run(&pump, 5);
    assert_false(prepared.is_over);
  }
  submit(&request, &taken);
  finish(&taken);
  assert_int_equal(prepared.ends, 1);
  assert_true(prepared.is_taken_over);
  assert_int_equal(prepared.status, STATUS_CANCELLED);
  assert_true(taken.prefill.cached_tokens >= 256);
  assert_int_equal(taken.prefill.cached_tokens, prepared.result.ready_tokens);
  assert_int_equal(taken.prefill.task, 5);
  assert_same_answer(&cold, &taken);
  drop_witness(&cold);
  drop_witness(&taken);
  free(tokens);
}

static void test_preparation_goes_on_after_a_request(void **state) {
  int32_t *tokens = sample_tokens(model, 8, 600), *other = sample_tokens(model, 9, 80);
  struct reuse_request prepare = preparation(0, tokens, 600, 6), request = ask(1, other, 80);
  struct witness prepared, idle, real;

  (void)state;
  request.wants_store = false;
  run(&request, &idle);
  submit(&prepare, &prepared);
  while (reuse_device_tokens(reuse, salts[0], tokens, 600) < 128) {
    (void)pump_run(&pump, 5);
  }
  run(&request, &real);
  assert_false(prepared.is_over);
  print_message("  real request during a preparation: first token after %.0f ms, %.0f ms on an idle engine\n",
                (double)(real.prefilled_us - real.submitted_us) / 1e3,
                (double)(idle.prefilled_us - idle.submitted_us) / 1e3);
  assert_same_answer(&idle, &real);
  finish(&prepared);
  assert_int_equal(prepared.status, STATUS_OK);
  assert_int_equal(prepared.result.prefill.computed_tokens, 600);
  assert_int_equal(prepared.result.ready_tokens, 600);
  drop_witness(&idle);
  drop_witness(&real);
  free(tokens);
  free(other);
}

static void test_without_room_nothing_is_kept(void **state) {
  int32_t *tokens = sample_tokens(model, 10, 150);
  struct reuse_request prepare = preparation(0, tokens, 150, 9);
  struct witness prepared;
  struct save save = {0};
  struct depot_stats stats;

  (void)state;
  close_stack();
  open_stack(1 << 20); /* less than a segment */
  refuses_room = true;
  run(&prepare, &prepared);
  settle();
  assert_true(rooms_asked > 0);
  assert_int_equal(reuse_save(reuse, salts[0], 0, tokens, 150, 9, on_saved, &save), STATUS_OK);
  pump_until(&pump, &save.is_over);
  assert_int_equal(save.status, STATUS_FULL);
  assert_int_equal(save.ram_tokens, 0);
  depot_stats(depot, &stats);
  assert_int_equal(stats.tier[TIER_RAM].segments, 0);
  assert_int_equal(stats.tier[TIER_RAM].reserved_bytes, 0);
  /* It asks again only when something has changed. */
  rooms_asked = 0;
  settle();
  assert_int_equal(rooms_asked, 0);
  free(tokens);
}

/* More prompts than sequences, without a quiet moment between them: each is saved before its place is taken. */
static void test_victims_are_saved_first(void **state) {
  enum { PROMPTS = 5, TOKENS = 140 };
  int32_t *prompts[PROMPTS];
  struct witness witnesses[PROMPTS], back;
  struct reuse_request request;

  (void)state;
  for (uint32_t i = 0; i < PROMPTS; i++) {
    prompts[i] = sample_tokens(model, 20 + i, TOKENS);
    request = ask(0, prompts[i], TOKENS);
    submit(&request, &witnesses[i]);
    if (i + 1 >= SLOTS + QUEUE) {
      finish(&witnesses[i + 1 - (SLOTS + QUEUE)]);
    }
  }
  for (uint32_t i = 0; i < PROMPTS; i++) {
    finish(&witnesses[i]);
    assert_int_equal(witnesses[i].status, STATUS_OK);
  }
  settle();
  for (uint32_t i = 0; i < PROMPTS; i++) {
    assert_int_equal(missing_in_ram(0, prompts[i], TOKENS - 1), 0);
    request = ask(0, prompts[i], TOKENS);
    run(&request, &back);
    assert_int_equal(back.prefill.cached_tokens, TOKENS - 1);
    assert_same_answer(&witnesses[i], &back);
    drop_witness(&witnesses[i]);
    drop_witness(&back);
    free(prompts[i]);
  }
}

/* Requests and preparations of two tenants, cancelled at random: all end exactly once, whatever they waited for. */
static void test_random_traffic_ends_once(void **state) {
  enum { ROUNDS = 120, BASES = 4 };
  struct witness *witnesses = calloc(ROUNDS, sizeof(*witnesses));
  int32_t *bases[BASES];
  uint32_t accepted = 0, cancelled = 0;
  struct reuse_load load;
  struct rng rng;

  (void)state;
  assert_non_null(witnesses);
  rng_init(&rng, 99);
  for (uint32_t i = 0; i < BASES; i++) {
    bases[i] = sample_tokens(model, 40 + i, 400);
  }
  for (uint32_t i = 0; i < ROUNDS; i++) {
    const int32_t *tokens = bases[rng_below(&rng, BASES)];
    uint32_t n = (uint32_t)(10 + rng_below(&rng, 300)), tenant = (uint32_t)rng_below(&rng, TENANTS);
    struct reuse_request request =
        rng_below(&rng, 3) > 0 ? ask(tenant, tokens, n) : preparation(tenant, tokens, n, i + 1);
    enum status status;

    request.mode = (enum reuse_mode)rng_below(&rng, 3);
    request.wants_store = rng_below(&rng, 4) > 0;
    request.wants_logits = false;
    refuses_room = rng_below(&rng, 2) > 0;
    status = try_submit(&request, &witnesses[accepted]);
    assert_true(status == STATUS_OK || status == STATUS_FULL || status == STATUS_BUSY);
    accepted += status == STATUS_OK;
    if (rng_below(&rng, 4) == 0) {
      reuse_forget(reuse, salts[rng_below(&rng, TENANTS)]);
    }
    for (uint32_t j = 0; j < accepted; j++) {
      if (!witnesses[j].is_over && rng_below(&rng, 4) == 0) {
        reuse_cancel(reuse, witnesses[j].job);
        cancelled++;
      }
    }
    (void)pump_run(&pump, (uint32_t)rng_below(&rng, 60));
  }
  for (uint32_t i = 0; i < accepted; i++) {
    finish(&witnesses[i]);
    assert_true(witnesses[i].status == STATUS_OK || witnesses[i].status == STATUS_CANCELLED);
  }
  assert_true(accepted > 10 && cancelled > 5);
  settle();
  reuse_load(reuse, &load);
  assert_int_equal(load.running + load.waiting + load.saving, 0);
  for (uint32_t i = 0; i < BASES; i++) {
    free(bases[i]);
  }
  free(witnesses);
}

static void test_close_ends_everything(void **state) {
  int32_t *tokens = sample_tokens(model, 60, 700);
  struct witness witnesses[4], prepared;
  struct reuse_request prepare = preparation(0, tokens, 700, 3);

  (void)state;
  submit(&prepare, &prepared);
  for (uint32_t i = 0; i < 4; i++) {
    struct reuse_request request = ask(1, tokens + i + 1, 600);

    submit(&request, &witnesses[i]);
  }
  (void)pump_run(&pump, 50);
  reuse_close(&reuse);
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(witnesses[i].ends, 1);
    assert_int_equal(witnesses[i].status, STATUS_CLOSED);
  }
  assert_int_equal(prepared.ends, 1);
  free(tokens);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_exact_from_every_tier, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_tenants_never_share, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_unwanted_storage_leaves_nothing, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_near_takes_what_was_generated, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_queue_is_bounded_and_in_order, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_deadline_of_waiting, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_preparation_serves_from_ram, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_prepared_prompt_is_quick, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_request_takes_over_a_preparation, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_preparation_goes_on_after_a_request, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_without_room_nothing_is_kept, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_victims_are_saved_first, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_random_traffic_ends_once, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_close_ends_everything, open_test, close_test),
  };

  return cmocka_run_group_tests(tests, open_model, close_model);
}
