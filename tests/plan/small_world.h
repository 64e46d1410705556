/* A little world around the planner, for its tests: an engine that computes 300 tokens a second, one thing at a time,
 * requests first; a store of 128-token segments in RAM and on SSD with hard caps; virtual time. Does what the planner
 * says and reports back as the daemon would. */
#ifndef FORELAY_TESTS_PLAN_SMALL_WORLD_H
#define FORELAY_TESTS_PLAN_SMALL_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/rng.h"
#include "plan/plan.h"

enum {
  WORLD_BLOCK = 16,
  WORLD_SEGMENT_BLOCKS = 8,
  WORLD_TOKEN_BYTES = 1000,
  WORLD_BLOCKS_MAX = 512,
  WORLD_SEGMENTS_MAX = 20000,
  WORLD_JOBS_MAX = 32,
  WORLD_MATERIALS_MAX = 20000,
  WORLD_SEQUENCES_MAX = 8
};

static const double world_token_s = 1.0 / 300;

struct world_prefix {
  uint32_t tokens, n;
  block_key keys[WORLD_BLOCKS_MAX];
  uint64_t material;
};

struct world_segment {
  uint64_t id, parent, task;
  uint32_t from, to, n_blocks;
  block_key keys[WORLD_SEGMENT_BLOCKS];
  bool in_ram, on_ssd;
};

/* A sequence of the engine: what was computed in it last. */
struct world_sequence {
  struct world_prefix prefix; /* n 0: empty */
  uint64_t id, used;          /* segment told; order of use */
};

struct world_job {
  struct action action;
  uint32_t n, done, computed; /* blocks of the prefix; tokens */
  double left_s, spent_s;
  bool is_begun;
};

struct world {
  struct plan *plan;
  struct plan_config config;
  uint64_t now_us;
  double busy_until_s; /* by real requests */
  struct world_segment *segments;
  uint32_t n_segments;
  struct map *ends; /* end key of a segment → place */
  struct world_prefix **materials;
  uint32_t n_materials;
  struct world_job jobs[WORLD_JOBS_MAX];
  uint32_t n_jobs;
  uint64_t ram_bytes, ssd_bytes, ram_bytes_max;
  struct world_sequence sequences[WORLD_SEQUENCES_MAX]; /* [n_sequences] */
  uint32_t n_sequences;
  uint64_t next_sequence_id, sequence_clock;
  uint64_t next_request;
  double foreground_s, idle_s;
  uint64_t digest; /* over all actions */
  uint32_t actions[ACTION_KIND_COUNT];
  uint64_t last_hit_tokens;
  bool is_verbose;
};

static inline double world_draw(void *ctx, uint64_t unit, uint32_t day) {
  (void)ctx;
  return (double)(map_key_of(unit ^ ((uint64_t)day << 40)).hi >> 11) / 9007199254740992.0;
}

static inline struct plan_config world_config(enum policy policy, uint64_t ram_tokens, uint64_t ssd_tokens) {
  struct plan_config config = {.policy = policy,
                               .prepare = true,
                               .draw = world_draw,
                               .block_tokens = WORLD_BLOCK,
                               .bytes_per_token = WORLD_TOKEN_BYTES,
                               .sequences = 4,
                               .nodes_max = 1 << 14,
                               .tasks_max = 4096,
                               .horizons_s = {60, 600, 3600},
                               .first_task = 1};
  config.budget = (struct budget){.ram_bytes = ram_tokens * WORLD_TOKEN_BYTES,
                                  .ssd_bytes = ssd_tokens * WORLD_TOKEN_BYTES,
                                  .ssd_writes_bytes_per_day = 10 * ssd_tokens * WORLD_TOKEN_BYTES,
                                  .idle_fraction_max = 1,
                                  .money_usd_per_day = 1};
  price_init(&config.price, PRICE_OWNED);
  return config;
}

static inline void world_open(struct world *world, const struct plan_config *config) {
  *world = (struct world){.config = *config, .now_us = UINT64_C(1764547200) * 1000000, .digest = 1469598103934665603u};
  struct error error = {{0}};
  enum status status = plan_create(config, &world->plan, &error);
  if (status != STATUS_OK) print_message("%s\n", error.text);
  assert_int_equal(status, STATUS_OK);
  world->segments = calloc(WORLD_SEGMENTS_MAX, sizeof *world->segments);
  world->materials = calloc(WORLD_MATERIALS_MAX, sizeof(struct world_prefix *));
  assert_non_null(world->segments);
  assert_non_null(world->materials);
  assert_int_equal(map_create(0, &world->ends), STATUS_OK);
  if (config->budget.device_bytes) world->n_sequences = config->sequences;
  for (int i = 0; i < 8; i++) plan_prefill_sample(world->plan, 512, 256, 512 * world_token_s);
  for (int i = 0; i < 8; i++) plan_restore_sample(world->plan, TIER_RAM, 1 << 20, .0005);
  for (int i = 0; i < 8; i++) plan_restore_sample(world->plan, TIER_SSD, 1 << 20, .01);
}

static inline void world_close(struct world *world) {
  plan_destroy(&world->plan);
  for (uint32_t i = 0; i < world->n_materials; i++) free(world->materials[i]);
  free(world->materials);
  free(world->segments);
  map_destroy(&world->ends);
}

/* ── prefixes: texts are numbers, equal numbers at equal places are equal tokens ── */

static inline void prefix_clear(struct world_prefix *prefix) {
  prefix->tokens = prefix->n = 0;
}

/* Appends `tokens` tokens of text number `text`; whole blocks only are keyed. */
static inline void prefix_add(struct world_prefix *prefix, uint64_t text, uint32_t tokens) {
  uint32_t blocks = tokens / WORLD_BLOCK;
  for (uint32_t i = 0; i < blocks; i++) {
    assert_true(prefix->n < WORLD_BLOCKS_MAX);
    block_key parent = prefix->n ? prefix->keys[prefix->n - 1] : (block_key){1, 2};
    struct map_key mixed = map_key_of(parent.lo * 31 + text * 1000003 + i);
    prefix->keys[prefix->n++] = (block_key){mixed.hi ^ parent.hi, mixed.lo};
  }
  prefix->tokens += blocks * WORLD_BLOCK;
}

static inline uint64_t world_material(struct world *world, const struct world_prefix *prefix) {
  assert_true(world->n_materials < WORLD_MATERIALS_MAX);
  struct world_prefix *copy = malloc(sizeof *copy);
  assert_non_null(copy);
  *copy = *prefix;
  world->materials[world->n_materials++] = copy;
  return world->n_materials;
}

/* ── the store ── */

static inline void segment_tell(struct world *world, const struct world_segment *segment, enum tier tier,
                                bool present) {
  struct segment_event event = {.at_us = world->now_us,
                                .segment = segment->id,
                                .parent = segment->parent,
                                .tier = tier,
                                .is_present = present,
                                .from = segment->from,
                                .to = segment->to,
                                .bytes = (uint64_t)(segment->to - segment->from) * WORLD_TOKEN_BYTES,
                                .n_blocks = segment->n_blocks,
                                .keys = segment->keys,
                                .task = segment->task};
  plan_segment(world->plan, &event);
}

static inline uint64_t segment_bytes(const struct world_segment *segment) {
  return (uint64_t)(segment->to - segment->from) * WORLD_TOKEN_BYTES;
}

static inline void segment_drop(struct world *world, uint64_t id, enum tier tier) {
  struct world_segment *segment = &world->segments[id - 1];
  if (tier == TIER_RAM && segment->in_ram) {
    for (uint32_t i = 0; i < world->n_segments; i++) { /* leaf first, always */
      const struct world_segment *child = &world->segments[i];
      assert_false(child->parent == id && child->in_ram && !segment->on_ssd);
    }
    segment->in_ram = false;
    world->ram_bytes -= segment_bytes(segment);
    segment_tell(world, segment, tier, false);
  } else if (tier == TIER_SSD && segment->on_ssd) {
    segment->on_ssd = false;
    world->ssd_bytes -= segment_bytes(segment);
    segment_tell(world, segment, tier, false);
  }
  if (!segment->in_ram && !segment->on_ssd && segment->n_blocks) {
    map_remove(world->ends, segment->keys[segment->n_blocks - 1], NULL);
  }
}

static inline bool world_room(struct world *world, enum tier tier, uint64_t bytes, uint64_t task) {
  uint64_t limit = tier == TIER_RAM ? world->config.budget.ram_bytes : world->config.budget.ssd_bytes;
  uint64_t used = tier == TIER_RAM ? world->ram_bytes : world->ssd_bytes;
  if (used + bytes <= limit) return true;
  uint64_t victims[256];
  size_t n;
  if (plan_make_room(world->plan, tier, bytes, task, world->now_us, victims, 256, &n) != STATUS_OK) return false;
  for (size_t i = 0; i < n; i++) segment_drop(world, victims[i], tier);
  used = tier == TIER_RAM ? world->ram_bytes : world->ssd_bytes;
  assert_true(used + bytes <= limit);
  return true;
}

static inline struct world_segment *segment_ending(struct world *world, block_key key) {
  uint64_t place;
  return map_get(world->ends, key, &place) ? &world->segments[place] : NULL;
}

static inline uint32_t prefix_common(const struct world_prefix *a, const struct world_prefix *b) {
  uint32_t n = 0;
  while (n < a->n && n < b->n && block_key_equal(a->keys[n], b->keys[n])) n++;
  return n;
}

/* The sequence that shares most with the prefix. */
static inline struct world_sequence *sequence_match(struct world *world, const struct world_prefix *prefix,
                                                    uint32_t *ret_blocks) {
  struct world_sequence *best = NULL;
  *ret_blocks = 0;
  for (uint32_t i = 0; i < world->n_sequences; i++) {
    uint32_t blocks = prefix_common(&world->sequences[i].prefix, prefix);
    if (blocks > *ret_blocks) {
      *ret_blocks = blocks;
      best = &world->sequences[i];
    }
  }
  return best;
}

/* The prefix was computed: in the sequence it extends, else in the one unused for longest. As the daemon tells it: gone
 * first, then present. */
static inline void sequence_put(struct world *world, const struct world_prefix *prefix, uint64_t task) {
  if (!world->n_sequences || !prefix->n) return;
  uint32_t blocks;
  struct world_sequence *sequence = sequence_match(world, prefix, &blocks);
  if (!sequence || blocks < sequence->prefix.n) {
    sequence = &world->sequences[0];
    for (uint32_t i = 1; i < world->n_sequences; i++) {
      if (world->sequences[i].used < sequence->used) sequence = &world->sequences[i];
    }
  }
  struct segment_event event = {.at_us = world->now_us, .segment = sequence->id, .tier = TIER_DEVICE};
  if (sequence->prefix.n) plan_segment(world->plan, &event);
  sequence->prefix = *prefix;
  sequence->used = ++world->sequence_clock;
  sequence->id = (UINT64_C(1) << 40) + ++world->next_sequence_id;
  event = (struct segment_event){.at_us = world->now_us,
                                 .segment = sequence->id,
                                 .tier = TIER_DEVICE,
                                 .is_present = true,
                                 .to = prefix->tokens,
                                 .bytes = (uint64_t)prefix->tokens * WORLD_TOKEN_BYTES,
                                 .n_blocks = prefix->n,
                                 .keys = prefix->keys,
                                 .task = task};
  plan_segment(world->plan, &event);
}

/* Leading blocks that lie in RAM or on SSD; *ret_slow of them on SSD only. */
static inline uint32_t world_match(struct world *world, const struct world_prefix *prefix, uint32_t *ret_slow) {
  uint32_t matched = 0;
  *ret_slow = 0;
  while (matched < prefix->n) {
    struct world_segment *found = NULL;
    for (uint32_t n = WORLD_SEGMENT_BLOCKS; n >= 1 && !found; n--) {
      if (matched + n > prefix->n) continue;
      struct world_segment *segment = segment_ending(world, prefix->keys[matched + n - 1]);
      if (segment && segment->from == matched * WORLD_BLOCK) found = segment;
    }
    if (!found) { /* part of a longer segment */
      uint32_t best = 0;
      for (uint32_t s = 0; s < world->n_segments; s++) {
        const struct world_segment *segment = &world->segments[s];
        if (segment->from != matched * WORLD_BLOCK || (!segment->in_ram && !segment->on_ssd)) continue;
        uint32_t n = 0;
        while (n < segment->n_blocks && matched + n < prefix->n &&
               block_key_equal(segment->keys[n], prefix->keys[matched + n])) {
          n++;
        }
        if (n > best) best = n;
      }
      return matched + best;
    }
    if (!found->in_ram) *ret_slow += found->n_blocks;
    matched += found->n_blocks;
    if (found->n_blocks < WORLD_SEGMENT_BLOCKS) break;
  }
  return matched;
}

/* A shorter end of the same chain that the new segment extends goes from the tier, as in the store. */
static inline void segment_retire_shorter(struct world *world, const struct world_segment *segment, enum tier tier) {
  for (uint32_t n = 1; n < segment->n_blocks; n++) {
    struct world_segment *shorter = segment_ending(world, segment->keys[n - 1]);
    bool is_there = shorter && shorter->from == segment->from && (tier == TIER_RAM ? shorter->in_ram : shorter->on_ssd);
    if (is_there) segment_drop(world, shorter->id, tier);
  }
}

/* Keeps what of the prefix does not lie in RAM yet, as far as there is room. */
static inline void world_save(struct world *world, const struct world_prefix *prefix, uint64_t task) {
  uint64_t parent = 0;
  for (uint32_t at = 0; at < prefix->n; at += WORLD_SEGMENT_BLOCKS) {
    uint32_t n = prefix->n - at < WORLD_SEGMENT_BLOCKS ? prefix->n - at : WORLD_SEGMENT_BLOCKS;
    struct world_segment *segment = segment_ending(world, prefix->keys[at + n - 1]);
    if (segment && segment->in_ram) {
      parent = segment->id;
      continue;
    }
    uint64_t bytes = (uint64_t)n * WORLD_BLOCK * WORLD_TOKEN_BYTES;
    if (!world_room(world, TIER_RAM, bytes, task)) return;
    if (parent && !world->segments[parent - 1].in_ram && !world->segments[parent - 1].on_ssd) return;
    segment = segment_ending(world, prefix->keys[at + n - 1]);
    if (!segment) {
      assert_true(world->n_segments < WORLD_SEGMENTS_MAX);
      segment = &world->segments[world->n_segments++];
      *segment = (struct world_segment){.id = world->n_segments,
                                        .parent = parent,
                                        .task = task,
                                        .from = at * WORLD_BLOCK,
                                        .to = (at + n) * WORLD_BLOCK,
                                        .n_blocks = n};
      memcpy(segment->keys, &prefix->keys[at], n * sizeof(block_key));
      assert_int_equal(map_set(world->ends, prefix->keys[at + n - 1], world->n_segments - 1), STATUS_OK);
    }
    segment->in_ram = true;
    world->ram_bytes += bytes;
    if (world->ram_bytes > world->ram_bytes_max) world->ram_bytes_max = world->ram_bytes;
    assert_true(world->ram_bytes <= world->config.budget.ram_bytes);
    segment_tell(world, segment, TIER_RAM, true);
    segment_retire_shorter(world, segment, TIER_RAM);
    parent = segment->id;
  }
}

/* ── time ── */

static inline void job_event(struct world *world, const struct world_job *job, enum task_state state) {
  struct task_event event = {.task = job->action.task,
                             .at_us = world->now_us,
                             .state = state,
                             .tokens_done = job->done,
                             .tokens_computed = job->computed,
                             .spent_seconds = job->spent_s};
  plan_task_event(world->plan, &event);
}

static inline void job_remove(struct world *world, uint32_t i) {
  memmove(&world->jobs[i], &world->jobs[i + 1], (world->n_jobs - i - 1) * sizeof world->jobs[0]);
  world->n_jobs--;
}

static inline struct world_prefix job_prefix(struct world *world, const struct world_job *job) {
  struct world_prefix prefix = *world->materials[job->action.material - 1];
  if (job->action.tokens < prefix.tokens) prefix.tokens = job->action.tokens;
  if (prefix.n > prefix.tokens / WORLD_BLOCK) prefix.n = prefix.tokens / WORLD_BLOCK;
  return prefix;
}

/* The first job gets up to `seconds` of engine time; returns what is left of them. */
static inline double job_work(struct world *world, double seconds) {
  struct world_job *job = &world->jobs[0];
  struct world_prefix prefix = job_prefix(world, job);
  if (!job->is_begun) {
    uint32_t slow, on_device, matched = world_match(world, &prefix, &slow);
    (void)sequence_match(world, &prefix, &on_device);
    if (on_device > matched) matched = on_device;
    job->is_begun = true;
    job->done = matched * WORLD_BLOCK;
    job->left_s = (prefix.tokens - job->done) * world_token_s;
    job_event(world, job, TASK_RUNNING);
  }
  double step = job->left_s < seconds ? job->left_s : seconds;
  job->left_s -= step;
  job->spent_s += step;
  if (job->left_s > 1e-9) {
    job_event(world, job, TASK_RUNNING);
    return 0;
  }
  job->computed = prefix.tokens - job->done;
  job->done = prefix.tokens;
  job_event(world, job, TASK_RUNNING);
  sequence_put(world, &prefix, job->action.task);
  if (job->action.tier != TIER_DEVICE) world_save(world, &prefix, job->action.task);
  job_event(world, job, TASK_READY);
  job_remove(world, 0);
  return seconds - step;
}

static inline void action_take(struct world *world, const struct action *action) {
  world->actions[action->kind]++;
  const uint64_t parts[] = {(uint64_t)action->kind, action->task,   action->segment,  (uint64_t)action->tier,
                            action->material,       action->tokens, action->is_order, 0};
  uint64_t value[8];
  memcpy(value, parts, sizeof value);
  memcpy(&value[7], &action->value, sizeof value[7]);
  for (int i = 0; i < 8; i++) world->digest = (world->digest ^ value[i]) * 1099511628211u;
  if (world->is_verbose) {
    struct task task = {0};
    if (plan_task(world->plan, action->task, &task) == STATUS_OK) {
      print_message("%8.0f action %d task %d: %s: %s\n", (double)(world->now_us / 1000000 % 86400), (int)action->kind,
                    (int)action->task, kind_name(task.kind), task.reason);
    }
  }
  switch (action->kind) {
  case ACTION_PREFILL:
    assert_true(world->n_jobs < WORLD_JOBS_MAX);
    assert_true(action->material >= 1 && action->material <= world->n_materials);
    world->jobs[world->n_jobs] = (struct world_job){.action = *action};
    job_event(world, &world->jobs[world->n_jobs++], TASK_WAITING);
    break;
  case ACTION_CANCEL:
    for (uint32_t i = 0; i < world->n_jobs; i++) {
      if (world->jobs[i].action.task != action->task) continue;
      job_event(world, &world->jobs[i], TASK_CANCELLED);
      job_remove(world, i);
      break;
    }
    break;
  case ACTION_EVICT:
    segment_drop(world, action->segment, action->tier);
    break;
  case ACTION_DEMOTE: {
    struct world_segment *segment = &world->segments[action->segment - 1];
    uint64_t bytes = segment_bytes(segment);
    if (!segment->in_ram || segment->on_ssd || !world_room(world, TIER_SSD, bytes, 0)) break;
    segment->on_ssd = true;
    world->ssd_bytes += bytes;
    assert_true(world->ssd_bytes <= world->config.budget.ssd_bytes);
    segment_tell(world, segment, TIER_SSD, true);
    segment_retire_shorter(world, segment, TIER_SSD);
    break;
  }
  case ACTION_PROMOTE: {
    struct world_prefix prefix = *world->materials[action->material - 1];
    if (action->tokens / WORLD_BLOCK < prefix.n) prefix.n = action->tokens / WORLD_BLOCK;
    world_save(world, &prefix, 0);
    break;
  }
  case ACTION_KIND_COUNT:
    break;
  }
}

/* One second passes: idle engine time goes to jobs, then the planner ticks. */
static inline void world_second(struct world *world) {
  world->now_us += 1000000;
  double now_s = (double)world->now_us / 1e6;
  double idle = world->busy_until_s > now_s - 1 ? now_s - world->busy_until_s : 1;
  if (idle < 0) idle = 0;
  world->idle_s = .98 * world->idle_s + .02 * idle;
  while (idle > 1e-9 && world->n_jobs) idle = job_work(world, idle);
  struct load load = {.preparations = world->n_jobs, .idle_share = world->idle_s};
  load.used_bytes[TIER_RAM] = world->ram_bytes;
  load.used_bytes[TIER_SSD] = world->ssd_bytes;
  struct action actions[16];
  size_t n;
  assert_int_equal(plan_tick(world->plan, &load, world->now_us, actions, 16, &n), STATUS_OK);
  for (size_t i = 0; i < n; i++) action_take(world, &actions[i]);
}

static inline void world_run(struct world *world, uint32_t seconds) {
  while (seconds-- > 0) world_second(world);
}

struct world_request {
  const struct world_prefix *prompt;
  const struct world_prefix *next; /* NULL: no conversation goes on from here */
  uint64_t session;
  uint32_t turn, head_tokens, document_tokens, tenant;
};

/* A request comes now and is served as soon as the engine is free of others. Returns its hit tokens. */
static inline uint32_t world_ask(struct world *world, const struct world_request *request) {
  struct ask ask = {.request = ++world->next_request,
                    .at_us = world->now_us,
                    .tenant = request->tenant,
                    .session = request->session,
                    .turn = request->turn,
                    .prompt_tokens = request->prompt->tokens + 1,
                    .n_blocks = request->prompt->n,
                    .keys = request->prompt->keys,
                    .material = world_material(world, request->prompt),
                    .head_tokens = request->head_tokens,
                    .document_tokens = request->document_tokens,
                    .may_learn = true,
                    .may_prepare = true};
  assert_int_equal(plan_ask(world->plan, &ask), STATUS_OK);
  uint32_t slow, on_device, matched = world_match(world, request->prompt, &slow);
  (void)sequence_match(world, request->prompt, &on_device);
  if (on_device >= matched) slow = 0;
  if (on_device > matched) matched = on_device;
  uint32_t hit = matched * WORLD_BLOCK, computed = ask.prompt_tokens - hit;
  double seconds = computed * world_token_s, now_s = (double)world->now_us / 1e6;
  world->busy_until_s = (world->busy_until_s > now_s ? world->busy_until_s : now_s) + seconds;
  world->foreground_s += seconds;
  sequence_put(world, request->prompt, 0);
  world_save(world, request->prompt, 0);
  struct outcome outcome = {.request = ask.request,
                            .at_us = world->now_us,
                            .stop = STOP_END_TURN,
                            .computed_tokens = computed,
                            .output_tokens = 64,
                            .restore_us = (uint64_t)(hit * .4),
                            .prefill_us = (uint64_t)(seconds * 1e6)};
  outcome.hit_tokens[TIER_DEVICE] = on_device * WORLD_BLOCK;
  outcome.hit_tokens[TIER_RAM] = hit - (on_device + slow) * WORLD_BLOCK;
  outcome.hit_tokens[TIER_SSD] = slow * WORLD_BLOCK;
  if (outcome.hit_tokens[TIER_DEVICE] + outcome.hit_tokens[TIER_SSD] > hit) {
    outcome.hit_tokens[TIER_SSD] = hit - outcome.hit_tokens[TIER_DEVICE];
    outcome.hit_tokens[TIER_RAM] = 0;
  }
  if (request->next) {
    outcome.next_tokens = request->next->tokens;
    outcome.n_next = request->next->n;
    outcome.next_keys = request->next->keys;
    outcome.next_material = world_material(world, request->next);
  }
  plan_outcome(world->plan, &outcome);
  world->last_hit_tokens = hit;
  return hit;
}

static inline struct totals world_totals(const struct world *world) {
  struct totals totals;
  plan_totals(world->plan, ACCOUNT_ALL, 0, &totals);
  return totals;
}

static inline struct order world_order(struct world *world, const struct world_prefix *prefix, enum kind kind) {
  return (struct order){.at_us = world->now_us,
                        .kind = kind,
                        .tier = TIER_RAM,
                        .tokens = prefix->tokens,
                        .n_blocks = prefix->n,
                        .keys = prefix->keys,
                        .material = world_material(world, prefix)};
}

static inline void world_report(const char *name, const struct world *world) {
  struct totals t = world_totals(world);
  print_message("%s: prompt %.0f hit %.0f shadow %.0f; prepared %.0f used %.0f wasted %.0f; foreground %.1f s "
                "speculative %.1f s (%.1f %%); predicted %.2f s realized %.2f s net %.2f s\n",
                name, t.prompt_tokens, t.hit_tokens, t.shadow_hit_tokens, t.prepared_tokens, t.used_tokens,
                t.wasted_tokens, t.foreground_seconds, t.speculative_seconds,
                t.foreground_seconds > 0 ? 100 * t.speculative_seconds / t.foreground_seconds : 0, t.predicted_seconds,
                t.realized_seconds, t.net_seconds);
}

#endif
