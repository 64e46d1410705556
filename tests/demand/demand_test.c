/* Demand on generated streams whose truth is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/number.h"
#include "base/rng.h"
#include "demand/demand.h"

enum { NODES_MAX = 8192, ROWS_MAX = 20000 };

/* A forest and its demand, and the clock of the test. */
struct world {
  struct forest *forest;
  struct demand *demand;
  struct rng rng;
  uint64_t requests;
};

static void on_split(void *ctx, uint32_t upper, uint32_t lower) {
  demand_split(((struct world *)ctx)->demand, upper, lower);
}
static void on_prune(void *ctx, uint32_t node) {
  demand_forget(((struct world *)ctx)->demand, node);
}

static void world_init(struct world *world, uint64_t seed) {
  *world = (struct world){0};
  rng_init(&world->rng, seed);
  struct forest_config forest = {
      .nodes_max = NODES_MAX, .block_tokens = 16, .seed = seed, .ctx = world, .split = on_split, .prune = on_prune};
  assert_int_equal(forest_create(&forest, &world->forest), STATUS_OK);
  struct demand_config config;
  demand_config_init(&config, forest_nodes_max(world->forest));
  assert_int_equal(demand_create(&config, &world->demand), STATUS_OK);
}

static void world_release(struct world *world) {
  forest_destroy(&world->forest);
  demand_destroy(&world->demand);
}

static uint64_t us(double s) {
  return 1000000000000000u + (uint64_t)(s * 1e6);
}

static block_key key_after(block_key parent, uint64_t name) {
  struct map_key a = map_key_of(parent.hi ^ name), b = map_key_of(parent.lo + 31 * name + 7);
  return (block_key){a.hi ^ b.lo, a.lo ^ b.hi};
}

/* A chain of n blocks that begins alike for equal heads and then alike for equal names. */
static void chain(block_key *keys, uint32_t n, uint32_t n_head, uint64_t head, uint64_t name) {
  block_key parent = {0, 0};
  for (uint32_t i = 0; i < n; i++) parent = keys[i] = key_after(parent, i < n_head ? head : name);
}

static uint32_t world_ask(struct world *world, const block_key *keys, uint32_t n, uint64_t session, uint32_t turn,
                          double at_s) {
  struct ask ask = {.request = ++world->requests,
                    .at_us = us(at_s),
                    .session = session,
                    .turn = turn,
                    .prompt_tokens = n * 16 + 3,
                    .n_blocks = n,
                    .keys = keys,
                    .material = world->requests,
                    .may_learn = true,
                    .may_prepare = true};
  struct forest_path path;
  assert_int_equal(forest_insert(world->forest, &ask, &path), STATUS_OK);
  demand_observe(world->demand, world->forest, &ask, &path);
  return path.end;
}

static uint32_t world_turn_end(struct world *world, const block_key *next, uint32_t n, uint64_t session, uint32_t turn,
                               enum stop_reason stop, double at_s) {
  struct forest_seed seed = {.at_us = us(at_s), .keys = next, .n_blocks = n};
  struct forest_path path;
  assert_int_equal(forest_plant(world->forest, &seed, &path), STATUS_OK);
  struct demand_turn end = {.at_us = us(at_s), .session = session, .turn = turn, .stop = stop, .next = path.end};
  demand_outcome(world->demand, world->forest, &end);
  return path.end;
}

static void check_sane(const struct forecast *forecast) {
  for (uint32_t h = 0; h < forecast->n_horizons; h++) {
    assert_true(forecast->p_within[h] >= 0 && forecast->p_within[h] <= 1);
    if (h) assert_true(forecast->p_within[h] >= forecast->p_within[h - 1]);
  }
  assert_true(number_is_finite(forecast->asks));
  assert_true(forecast->asks >= forecast->p_within[forecast->n_horizons - 1]);
  assert_true(forecast->p_repeat >= 0 && forecast->p_repeat <= 1);
  assert_non_null(forecast->forecaster);
}

static struct forecast world_forecast(struct world *world, uint32_t node, double at_s, const double *horizons_s,
                                      uint32_t n) {
  struct forecast forecast;
  demand_forecast(world->demand, world->forest, node, us(at_s), horizons_s, n, &forecast);
  check_sane(&forecast);
  return forecast;
}

static double world_p(struct world *world, uint32_t node, double at_s, double horizon_s) {
  return world_forecast(world, node, at_s, &horizon_s, 1).p_within[0];
}

/* ── conversations ── */

enum { TALKS = 4000 };

/* People who come back to their conversation: how likely, and log-normally when. */
struct habit {
  double ever, median_s, sigma;
};

static double habit_within(const struct habit *habit, double idle_s, double horizon_s) {
  double before = idle_s > 0 ? number_normal_cdf(number_log(idle_s / habit->median_s) / habit->sigma) : 0;
  double after = number_normal_cdf(number_log((idle_s + horizon_s) / habit->median_s) / habit->sigma);
  return habit->ever * (after - before) / (1 - habit->ever * before);
}

static uint32_t turns_end(struct world *world, uint32_t talk, uint32_t turn, enum stop_reason stop, double at_s) {
  block_key keys[32];
  chain(keys, 6 + 2 * turn, 4, 1, 1000 + talk);
  world_ask(world, keys, 5 + 2 * turn, 1 + talk, turn, at_s);
  return world_turn_end(world, keys, 6 + 2 * turn, 1 + talk, turn, stop, at_s + 2);
}

static void talk(struct world *world, const struct habit *habit, enum stop_reason stop, double begin_s) {
  static uint32_t turn[TALKS];
  memset(turn, 0, sizeof turn);
  struct heap *next;
  assert_int_equal(heap_create(&next), STATUS_OK);
  for (uint32_t i = 0; i < TALKS; i++) assert_int_equal(heap_set(next, i, begin_s + i * 7.), STATUS_OK);
  uint32_t who;
  double at_s;
  while (heap_pop(next, &who, &at_s) && at_s < begin_s + TALKS * 7.) {
    turn[who]++;
    turns_end(world, who, turn[who], stop, at_s);
    if (turn[who] < 6 && rng_uniform(&world->rng) < habit->ever) {
      double gap_s = habit->median_s * number_exp(habit->sigma * rng_normal(&world->rng));
      assert_int_equal(heap_set(next, who, at_s + 2 + gap_s), STATUS_OK);
    }
  }
  heap_destroy(&next);
}

static void conversations_go_on_as_they_did(void **state) {
  (void)state;
  static const struct habit habits[] = {{.7, 40, 1.2}, {.9, 150, 1.0}, {.4, 20, .7}};
  static const enum stop_reason stops[] = {STOP_END_TURN, STOP_END_TURN, STOP_TOOL_CALL};
  for (uint32_t k = 0; k < 3; k++) {
    struct world world;
    world_init(&world, 5 + k);
    talk(&world, &habits[k], stops[k], 0);
    double begin_s = TALKS * 7. + 10;
    static const double idle_s[] = {0, 20, 90, 400}, horizon_s[] = {30, 60, 600};
    for (uint32_t i = 0; i < 4; i++) {
      uint32_t node = turns_end(&world, TALKS + i, 1, stops[k], begin_s);
      for (uint32_t h = 0; h < 3; h++) {
        double p = world_p(&world, node, begin_s + 2 + idle_s[i], horizon_s[h]);
        double truth = habit_within(&habits[k], idle_s[i], horizon_s[h]);
        print_message("habit %u idle %.0f within %.0f: %.3f, truth %.3f\n", k, idle_s[i], horizon_s[h], p, truth);
        assert_float_equal(p, truth, .05);
      }
      begin_s += 2 + idle_s[i];
    }
    world_release(&world);
  }
}

static void a_new_conversation_is_expected_before_anything_is_learned(void **state) {
  (void)state;
  struct world world;
  world_init(&world, 1);
  uint32_t human = turns_end(&world, 1, 1, STOP_END_TURN, 0), tool = turns_end(&world, 2, 1, STOP_TOOL_CALL, 3);
  assert_in_range((int)(100 * world_p(&world, human, 5, 300)), 35, 75);
  assert_true(world_p(&world, tool, 5, 30) > .6);
  assert_true(world_p(&world, human, 5, 30) < .4);
  double at_once = world_p(&world, human, 5, 60), much_later = world_p(&world, human, 7200, 60);
  assert_true(much_later < at_once / 4);
  struct forecast forecast = world_forecast(&world, human, 7200, (double[]){60}, 1);
  assert_string_equal(forecast.forecaster, "continuation");
  world_release(&world);
}

/* ── rates ── */

static void rates_are_found(void **state) {
  (void)state;
  static const double rate_per_s[] = {.1, .02, .005, .001};
  struct world world;
  world_init(&world, 3);
  struct heap *next;
  assert_int_equal(heap_create(&next), STATUS_OK);
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(heap_set(next, i, -number_log(1 - rng_uniform(&world.rng)) / rate_per_s[i]), STATUS_OK);
  }
  uint32_t who, head[4] = {0};
  double at_s, said[4][2] = {{0}};
  uint32_t checks = 0, checked[4] = {0};
  static const double horizon_s[] = {60, 600};
  block_key keys[8];
  while (heap_pop(next, &who, &at_s) && at_s < 40000) {
    /* The head stays, what follows is new each time. */
    chain(keys, 8, 4, 50 + who, 1000000 + world.requests);
    world_ask(&world, keys, 8, 0, 0, at_s);
    head[who] = forest_ending_in(world.forest, keys[3]);
    assert_int_equal(heap_set(next, who, at_s - number_log(1 - rng_uniform(&world.rng)) / rate_per_s[who]), STATUS_OK);
    if (at_s < 8000 || at_s < 8000 + 40. * checks) continue;
    checks++;
    for (uint32_t i = 0; i < 4; i++) {
      if (!head[i]) continue; /* asked once: not a node of its own yet */
      checked[i]++;
      for (uint32_t h = 0; h < 2; h++) said[i][h] += world_p(&world, head[i], at_s, horizon_s[h]);
    }
  }
  for (uint32_t i = 0; i < 4; i++) {
    for (uint32_t h = 0; h < 2; h++) {
      double truth = 1 - number_exp(-rate_per_s[i] * horizon_s[h]), p = said[i][h] / checked[i];
      print_message("rate %.3f within %.0f: %.3f, truth %.3f\n", rate_per_s[i], horizon_s[h], p, truth);
      assert_float_equal(p, truth, .05);
    }
  }
  heap_destroy(&next);
  world_release(&world);
}

/* ── documents ── */

static void opened_documents_are_expected_as_often_as_they_were_asked(void **state) {
  (void)state;
  struct world world;
  world_init(&world, 4);
  struct heap *next;
  assert_int_equal(heap_create(&next), STATUS_OK);
  block_key keys[12];
  struct forest_path path;
  /* One of three is asked about, after 60 s on average. */
  for (uint32_t i = 0; i < 3000; i++) {
    double at_s = i * 5.;
    uint32_t who;
    double ask_s;
    while (heap_peek(next, &who, &ask_s) && ask_s <= at_s) {
      heap_remove(next, who);
      chain(keys, 12, 10, 7000 + who, 99);
      world_ask(&world, keys, 12, 0, 0, ask_s);
    }
    chain(keys, 10, 10, 7000 + i, 0);
    struct forest_seed seed = {.at_us = us(at_s), .keys = keys, .n_blocks = 10, .document_tokens = 160};
    assert_int_equal(forest_plant(world.forest, &seed, &path), STATUS_OK);
    demand_document(world.demand, world.forest, path.document, us(at_s));
    if (rng_below(&world.rng, 3) == 0) {
      assert_int_equal(heap_set(next, i, at_s - 60 * number_log(1 - rng_uniform(&world.rng))), STATUS_OK);
    }
  }
  double p60 = world_p(&world, path.document, 2999 * 5., 60), p600 = world_p(&world, path.document, 2999 * 5., 600);
  assert_float_equal(p60, (1 - number_exp(-1)) / 3, .05);
  assert_float_equal(p600, 1. / 3, .05);
  assert_true(world_p(&world, path.document, 2999 * 5. + 1200, 600) < .05);
  heap_destroy(&next);
  world_release(&world);
}

/* ── beats ── */

/* Bursts of five asks at an even distance, with jitter and dropouts, beside traffic that is not even. */
static void bursts_on_a_beat_are_foreseen(void **state) {
  (void)state;
  static const double period_s[] = {30, 300, 3600};
  for (uint32_t k = 0; k < 3; k++) {
    struct world world;
    world_init(&world, 30 + k);
    block_key keys[10];
    uint32_t node = FOREST_NONE, hits = 0, alarms = 0, bursts = 0, early = 0;
    double lead_s = period_s[k] * .1, window_s = period_s[k] * .25, noise_s = 1;
    for (uint32_t run = 0; run < 120; run++) {
      double due_s = 100 + run * period_s[k], at_s = due_s + rng_normal(&world.rng) * period_s[k] * .01;
      bool comes = rng_below(&world.rng, 20) != 0;
      for (; noise_s < due_s - lead_s; noise_s += -period_s[k] / 3 * number_log(1 - rng_uniform(&world.rng)) + 1) {
        chain(keys, 6, 3, 900, 5000 + (uint64_t)(noise_s * 10));
        world_ask(&world, keys, 6, 0, 0, noise_s);
      }
      if (run >= 4) {
        bool is_foreseen = world_p(&world, node, due_s - lead_s, window_s) >= .5;
        bursts += comes;
        alarms += is_foreseen;
        hits += is_foreseen && comes;
      }
      for (uint32_t i = 0; i < 5 && comes; i++) {
        chain(keys, 8, 6, 77, 100000 + world.requests);
        world_ask(&world, keys, 8, 0, 0, at_s + i * .2);
        node = forest_ending_in(world.forest, keys[5]);
      }
      if (run >= 4 && comes) early += world_p(&world, node, at_s + period_s[k] * .4, period_s[k] * .2) >= .5;
    }
    print_message("period %.0f: %u bursts, %u alarms, %u hits, %u too early\n", period_s[k], bursts, alarms, hits,
                  early);
    assert_true(hits >= .7 * bursts);
    assert_true(hits >= .88 * alarms);
    /* Below the shortest learned horizon nobody learns whose word counts. */
    if (period_s[k] > 60) assert_true(early <= 4);
    world_release(&world);
  }
}

static void three_bursts_make_a_beat(void **state) {
  (void)state;
  struct world world;
  world_init(&world, 40);
  block_key keys[8];
  uint32_t node = FOREST_NONE;
  for (uint32_t run = 0; run < 3; run++) {
    for (uint32_t i = 0; i < 3; i++) {
      chain(keys, 8, 6, 77, 100 + world.requests);
      world_ask(&world, keys, 8, 0, 0, 60. * run + i);
    }
    node = forest_ending_in(world.forest, keys[5]);
    if (run < 2) assert_true(world_p(&world, node, 60. * run + 50, 20) < .5);
  }
  static const double horizon_s[] = {5, 20, 120};
  struct forecast forecast = world_forecast(&world, node, 170, horizon_s, 3);
  assert_string_equal(forecast.forecaster, "periodic");
  assert_true(forecast.p_within[0] < .2);
  assert_true(forecast.p_within[1] > .6);
  assert_true(forecast.asks > 2);
  /* It does not come: less and less is expected, and in the end nothing. */
  double missed = world_p(&world, node, 230, 20), gone = world_p(&world, node, 800, 20);
  assert_true(missed < .75 * forecast.p_within[1]);
  assert_true(gone < .1);
  world_release(&world);
}

/* ── announcements ── */

static void announced_work_is_believed_while_the_word_is_kept(void **state) {
  (void)state;
  struct world world;
  world_init(&world, 8);
  block_key keys[6];
  chain(keys, 6, 6, 5, 0);
  struct forest_seed seed = {.at_us = us(0), .keys = keys, .n_blocks = 6};
  struct forest_path path;
  assert_int_equal(forest_plant(world.forest, &seed, &path), STATUS_OK);
  uint64_t id, other;
  assert_int_equal(demand_announce(world.demand, world.forest, path.end, us(1000), 0, 12, us(0), &id), STATUS_OK);
  static const double horizon_s[] = {60, 600, 3600};
  struct forecast forecast = world_forecast(&world, path.end, 900, horizon_s, 3);
  assert_true(forecast.p_within[0] < .05);
  assert_true(forecast.p_within[1] > .8);
  assert_float_equal(forecast.asks, 12 * .9, 1.5);
  assert_true(forecast.is_announced);
  assert_string_equal(forecast.forecaster, "announced");
  assert_true(world_p(&world, path.end, 970, 60) > .7);
  world_ask(&world, keys, 6, 0, 0, 1001);
  assert_true(world_forecast(&world, path.end, 1002, horizon_s, 3).asks > 8);
  for (uint32_t i = 0; i < 11; i++) world_ask(&world, keys, 6, 0, 0, 1003 + i);
  assert_false(world_forecast(&world, path.end, 1100, horizon_s, 3).is_announced);
  assert_int_equal(demand_withdraw(world.demand, id), STATUS_NOT_FOUND);

  /* A word that is never kept loses its weight. */
  assert_int_equal(demand_announce(world.demand, world.forest, path.end, us(10000), us(400) - us(0), 1, us(9000), &id),
                   STATUS_OK);
  assert_int_equal(demand_announce(world.demand, world.forest, path.end, us(90000), 0, 1, us(9000), &other), STATUS_OK);
  double first = world_p(&world, path.end, 9950, 120);
  double last = 0;
  for (uint32_t i = 1; i < 40; i++) last = world_p(&world, path.end, 9950 + 400 * i, 120);
  print_message("announced: %.3f, after forty broken words %.3f\n", first, last);
  assert_true(first > .7);
  assert_true(last < .3);
  assert_int_equal(demand_withdraw(world.demand, id), STATUS_OK);
  assert_int_equal(demand_withdraw(world.demand, id), STATUS_NOT_FOUND);
  assert_int_equal(demand_withdraw(world.demand, other), STATUS_OK);
  assert_false(world_forecast(&world, path.end, 30000, horizon_s, 3).is_announced);
  world_release(&world);
}

/* ── calibration ── */

/* Conversations, heads at several rates, a beat and prompts that never return, for two days. */
static void a_mixture_is_calibrated(void **state) {
  (void)state;
  enum { SOURCES = 400, HEADS = 20 };
  struct world world;
  world_init(&world, 21);
  struct heap *next;
  assert_int_equal(heap_create(&next), STATUS_OK);
  static const struct habit habit = {.65, 70, 1.3};
  static uint32_t turn[SOURCES];
  static uint64_t session[SOURCES];
  memset(turn, 0, sizeof turn);
  for (uint32_t i = 0; i < SOURCES; i++) {
    assert_int_equal(heap_set(next, i, rng_uniform(&world.rng) * 3600), STATUS_OK);
    session[i] = i + 1;
  }
  uint32_t who;
  double at_s;
  uint64_t fresh = 1 << 20;
  block_key keys[40];
  while (heap_pop(next, &who, &at_s) && at_s < 40 * 3600.) {
    double again_s;
    if (who < HEADS) {
      chain(keys, 8, 4, 50 + who, ++fresh);
      world_ask(&world, keys, 8, 0, 0, at_s);
      again_s = at_s - number_log(1 - rng_uniform(&world.rng)) * (30. * (1 << who % 8));
    } else if (who == HEADS) {
      chain(keys, 8, 6, 77, ++fresh);
      world_ask(&world, keys, 8, 0, 0, at_s);
      again_s = at_s + 900 + rng_normal(&world.rng) * 10;
    } else if (who < HEADS + 20) {
      chain(keys, 8, 0, 0, ++fresh);
      world_ask(&world, keys, 8, 0, 0, at_s);
      again_s = at_s - number_log(1 - rng_uniform(&world.rng)) * 600;
    } else {
      uint32_t t = ++turn[who];
      chain(keys, 6 + 2 * t, 4, 50 + who % HEADS, session[who] << 24);
      world_ask(&world, keys, 5 + 2 * t, session[who], t, at_s);
      world_turn_end(&world, keys, 6 + 2 * t, session[who], t, STOP_END_TURN, at_s + 3);
      if (t < 12 && rng_uniform(&world.rng) < habit.ever) {
        again_s = at_s + 3 + habit.median_s * number_exp(habit.sigma * rng_normal(&world.rng));
      } else {
        turn[who] = 0;
        session[who] += SOURCES;
        again_s = at_s - number_log(1 - rng_uniform(&world.rng)) * 7200;
      }
    }
    assert_int_equal(heap_set(next, who, again_s), STATUS_OK);
  }
  for (uint32_t h = 0; h <= 3; h++) {
    struct calibration calibration;
    demand_calibration(world.demand, h, &calibration);
    print_message("horizon %u: %" PRIu64 " scored, error %.4f, brier %.4f of %.4f\n", h, calibration.scored,
                  calibration.error, calibration.brier, calibration.brier_base);
    for (uint32_t i = 0; i < CALIBRATION_BINS; i++) {
      print_message("  %6" PRIu64 " said %.3f came %.3f\n", calibration.count[i], calibration.forecast[i],
                    calibration.observed[i]);
    }
    assert_true(calibration.scored > 3000);
    assert_true(calibration.error <= .05);
    assert_true(calibration.brier < .8 * calibration.brier_base);
  }
  heap_destroy(&next);
  world_release(&world);
}

/* ── coherence ── */

static void a_parent_agrees_with_its_children(void **state) {
  (void)state;
  struct forecast parent = {.n_horizons = 2, .p_within = {.2, .3}, .asks = .4};
  struct forecast children[2] = {{.n_horizons = 2, .p_within = {.5, .6}, .asks = 1.5},
                                 {.n_horizons = 2, .p_within = {.1, .9}, .asks = 2}};
  demand_reconcile(&parent, children, 2, .5);
  assert_float_equal(parent.p_within[0], .5, 1e-12);
  assert_float_equal(parent.p_within[1], .9, 1e-12);
  assert_float_equal(parent.asks, 4, 1e-12);
  struct forecast busy = {.n_horizons = 2, .p_within = {.95, .9}, .asks = 9};
  demand_reconcile(&busy, children, 2, NAN);
  assert_float_equal(busy.p_within[1], .95, 1e-12);
  assert_float_equal(busy.asks, 9, 1e-12);
  struct forecast broken = {.n_horizons = 2, .p_within = {NAN, -4}, .asks = INFINITY};
  children[0].asks = NAN;
  demand_reconcile(&broken, children, 2, 1e300);
  check_sane(&(struct forecast){
      .n_horizons = 2, .p_within = {broken.p_within[0], broken.p_within[1]}, .asks = broken.asks, .forecaster = ""});
}

/* ── due times ── */

static void nodes_come_up_when_their_time_has_come(void **state) {
  (void)state;
  struct world world;
  world_init(&world, 2);
  assert_true(demand_next_due(world.demand) == UINT64_MAX);
  uint32_t node = turns_end(&world, 1, 1, STOP_END_TURN, 0), popped;
  bool is_seen = false;
  while (demand_pop_due(world.demand, world.forest, us(2), &popped)) {
    assert_non_null(forest_at(world.forest, popped));
    is_seen |= popped == node;
  }
  assert_true(is_seen);
  uint64_t due_us = demand_next_due(world.demand);
  assert_true(due_us > us(2) && due_us <= us(62));
  assert_false(demand_pop_due(world.demand, world.forest, due_us - 1, &popped));
  assert_true(demand_pop_due(world.demand, world.forest, due_us, &popped));
  /* Silence makes visits rarer: an hour takes few of them. */
  uint32_t visits = 0;
  for (uint64_t now; (now = demand_next_due(world.demand)) < us(3600); visits++) {
    assert_true(demand_pop_due(world.demand, world.forest, now, &popped));
  }
  assert_true(visits < 60);
  while (forest_prune(world.forest, 100, us(4000)) > 0) continue;
  assert_true(demand_next_due(world.demand) == UINT64_MAX);
  world_release(&world);
}

/* ── nonsense ── */

static void nonsense_gives_numbers_all_the_same(void **state) {
  (void)state;
  struct world world;
  world_init(&world, 6);
  block_key keys[8];
  static const double odd_s[] = {0, 5, 4, 1e9, 1e9, 3, 1e10, 0};
  static const double horizon_s[] = {NAN, -5, 0, 1e-9, 60, 1e300, INFINITY, 3};
  uint32_t node = FOREST_NONE;
  for (uint32_t i = 0; i < 64; i++) {
    chain(keys, 8, 4, 1 + i % 3, i % 5);
    uint32_t turn = i % 7 == 0 ? UINT32_MAX : i % 4;
    node = world_ask(&world, keys, 1 + i % 8, i % 3, turn, odd_s[i % 8]);
    struct demand_turn end = {
        .at_us = us(odd_s[(i + 3) % 8]), .session = i % 3, .turn = turn, .stop = i % 7, .next = i % 2 ? node : 999999};
    demand_outcome(world.demand, world.forest, &end);
    demand_document(world.demand, world.forest, i % 5 ? node : 424242, us(odd_s[i % 8]));
    for (uint32_t n = 1; n <= 8; n++) {
      struct forecast forecast;
      demand_forecast(world.demand, world.forest, node, us(odd_s[(i + n) % 8]), horizon_s, n, &forecast);
      check_sane(&forecast);
      demand_forecast(world.demand, world.forest, i * 1000003u, 0, horizon_s + 8 - n, n, &forecast);
      check_sane(&forecast);
    }
  }
  struct ask empty = {.request = 1, .at_us = us(1e10), .session = 1, .turn = 1};
  struct forest_path path;
  assert_int_equal(forest_insert(world.forest, &empty, &path), STATUS_OK);
  demand_observe(world.demand, world.forest, &empty, &path);
  uint64_t id;
  assert_int_equal(demand_announce(world.demand, world.forest, 0, 1, 0, 1, 0, &id), STATUS_INVALID);
  assert_int_equal(demand_announce(world.demand, world.forest, node, 1, 0, 0, 0, &id), STATUS_INVALID);
  assert_int_equal(demand_announce(world.demand, world.forest, node, UINT64_MAX, 0, 1, 0, &id), STATUS_INVALID);
  assert_int_equal(demand_announce(world.demand, world.forest, node, 0, 1, UINT32_MAX, 0, &id), STATUS_OK);
  static const double one_s[] = {1e7};
  check_sane(
      &(struct forecast){.forecaster = world_forecast(&world, node, 1e10, one_s, 1).forecaster, .n_horizons = 1});
  world_forecast(&world, node, 2e10, one_s, 1);
  uint32_t due, pops = 0;
  while (pops < 1000 && demand_pop_due(world.demand, world.forest, us(2e10), &due)) pops++;
  assert_true(pops < 1000);
  world_release(&world);
  struct demand *demand = NULL;
  struct demand_config config;
  demand_config_init(&config, 16);
  config.horizons_s[1] = NAN;
  assert_int_equal(demand_create(&config, &demand), STATUS_INVALID);
  config.horizons_s[1] = 60;
  assert_int_equal(demand_create(&config, &demand), STATUS_INVALID);
  config.n_horizons = 0;
  assert_int_equal(demand_create(&config, &demand), STATUS_INVALID);
}

/* ── restart ── */

struct rows {
  char *text[ROWS_MAX];
  uint32_t n;
};
static bool rows_add(void *ctx, const char *text) {
  struct rows *rows = ctx;
  assert_true(rows->n < ROWS_MAX && strlen(text) < DEMAND_ROW_SIZE);
  rows->text[rows->n++] = strdup(text);
  return true;
}
static void rows_release(struct rows *rows) {
  for (uint32_t i = 0; i < rows->n; i++) free(rows->text[i]);
  rows->n = 0;
}

static void a_restart_forgets_nothing(void **state) {
  (void)state;
  static struct rows trees, learned, again;
  struct world world, other;
  world_init(&world, 12);
  world_init(&other, 13);
  static const struct habit habit = {.7, 40, 1.2};
  talk(&world, &habit, STOP_END_TURN, 0);
  block_key keys[8];
  for (uint32_t run = 0; run < 9; run++) {
    chain(keys, 8, 8, 77, 1);
    world_ask(&world, keys, 8, 0, 0, 50000 + 300 * run);
  }
  uint32_t beat = forest_ending_in(world.forest, keys[7]);
  uint64_t id;
  assert_int_equal(demand_announce(world.demand, world.forest, beat, us(90000), 0, 3, us(52500), &id), STATUS_OK);
  uint32_t open = turns_end(&world, TALKS + 5, 1, STOP_END_TURN, 52600);
  forest_save(world.forest, rows_add, &trees);
  demand_save(world.demand, world.forest, rows_add, &learned);
  for (uint32_t i = 0; i < trees.n; i++) assert_int_equal(forest_load(other.forest, trees.text[i]), STATUS_OK);
  for (uint32_t i = 0; i < learned.n; i++) {
    assert_int_equal(demand_load(other.demand, other.forest, learned.text[i]), STATUS_OK);
  }
  demand_save(other.demand, other.forest, rows_add, &again);
  assert_int_equal(learned.n, again.n);
  static const double horizon_s[] = {60, 600, 86400};
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t here = i ? beat : open;
    uint32_t there = forest_ending_in(other.forest, forest_end_key(world.forest, here));
    struct forecast a = world_forecast(&world, here, 52602, horizon_s, 3);
    struct forecast b = world_forecast(&other, there, 52602, horizon_s, 3);
    for (uint32_t h = 0; h < 3; h++) assert_float_equal(a.p_within[h], b.p_within[h], 1e-9);
    assert_float_equal(a.asks, b.asks, 1e-9);
    assert_string_equal(a.forecaster, b.forecaster);
  }
  struct calibration a, b;
  demand_calibration(world.demand, DEMAND_HORIZONS_MAX, &a);
  demand_calibration(other.demand, DEMAND_HORIZONS_MAX, &b);
  assert_true(a.scored > 0);
  assert_memory_equal(&a, &b, sizeof a);
  /* Rows cut short are refused or, where a number is only shorter, taken; nothing breaks. */
  char text[DEMAND_ROW_SIZE];
  for (uint32_t i = 0; i < learned.n; i += 1 + learned.n / 50) {
    size_t size = strlen(learned.text[i]);
    for (size_t cut = 0; cut + 20 < size; cut += 7) {
      memcpy(text, learned.text[i], cut);
      text[cut] = '\0';
      assert_int_equal(demand_load(other.demand, other.forest, text), STATUS_INVALID);
    }
  }
  assert_int_equal(demand_load(other.demand, other.forest, "rate"), STATUS_INVALID);
  assert_int_equal(demand_load(other.demand, other.forest, "mixture 0 7ff8000000000000 4"), STATUS_INVALID);
  rows_release(&trees);
  rows_release(&learned);
  rows_release(&again);
  world_release(&world);
  world_release(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conversations_go_on_as_they_did),
      cmocka_unit_test(a_new_conversation_is_expected_before_anything_is_learned),
      cmocka_unit_test(rates_are_found),
      cmocka_unit_test(opened_documents_are_expected_as_often_as_they_were_asked),
      cmocka_unit_test(bursts_on_a_beat_are_foreseen),
      cmocka_unit_test(three_bursts_make_a_beat),
      cmocka_unit_test(announced_work_is_believed_while_the_word_is_kept),
      cmocka_unit_test(a_mixture_is_calibrated),
      cmocka_unit_test(a_parent_agrees_with_its_children),
      cmocka_unit_test(nodes_come_up_when_their_time_has_come),
      cmocka_unit_test(nonsense_gives_numbers_all_the_same),
      cmocka_unit_test(a_restart_forgets_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
