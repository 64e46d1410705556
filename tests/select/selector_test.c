/* Every selection method against brute force on small random forests, and the edges of its contract. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "base/rng.h"
#include "select/selector.h"

enum { SMALL_NODES = 12, SMALL_INSTANCES = 2000 };

struct instance {
  struct selector_problem problem;
  int32_t parent[SMALL_NODES];
  double value[SELECTOR_TIERS_MAX][SMALL_NODES];
  double weight[SELECTOR_TIERS_MAX][SELECTOR_ROWS_MAX][SMALL_NODES];
  double score[SMALL_NODES];
};

static void instance_bind(struct instance *instance) {
  struct selector_problem *problem = &instance->problem;
  problem->parent = instance->parent;
  problem->score = instance->score;
  for (uint32_t k = 0; k < problem->n_tiers; k++) {
    problem->value[k] = instance->value[k];
    for (uint32_t r = 0; r < problem->n_rows; r++) problem->weight[k][r] = instance->weight[k][r];
  }
}

/* Values of both signs, lumpy weights (whole numbers in every second instance), budgets from nothing to everything. */
static void instance_draw(struct instance *instance, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  *instance = (struct instance){0};
  struct selector_problem *problem = &instance->problem;
  problem->n_nodes = (uint32_t)rng_below(&rng, SMALL_NODES + 1);
  problem->n_tiers = 1 + (uint32_t)rng_below(&rng, 2);
  problem->n_rows = (uint32_t)rng_below(&rng, 4);
  for (uint32_t v = 0; v < problem->n_nodes; v++) {
    instance->parent[v] = v == 0 || rng_below(&rng, 4) == 0 ? SELECTOR_NO_PARENT : (int32_t)rng_below(&rng, v);
    instance->score[v] = rng_uniform(&rng);
    for (uint32_t k = 0; k < problem->n_tiers; k++) {
      instance->value[k][v] = rng_below(&rng, 4) == 0 ? -4 * rng_uniform(&rng) : 10 * rng_uniform(&rng);
      for (uint32_t r = 0; r < problem->n_rows; r++) {
        double weight = rng_below(&rng, 5) == 0 ? 0 : 5 * rng_uniform(&rng);
        instance->weight[k][r][v] = seed % 2 ? (double)(int)weight : weight;
      }
    }
  }
  for (uint32_t r = 0; r < problem->n_rows; r++) {
    double budget = rng_below(&rng, 10) == 0 ? 0 : rng_uniform(&rng) * 3 * problem->n_nodes;
    problem->budget[r] = seed % 2 ? (double)(int)budget : budget;
  }
  instance_bind(instance);
}

static bool is_feasible(const struct selector_problem *problem, const uint8_t *choice, double slack) {
  double use[SELECTOR_ROWS_MAX] = {0};
  for (uint32_t v = 0; v < problem->n_nodes; v++) {
    if (choice[v] == 0) continue;
    if (choice[v] > problem->n_tiers) return false;
    if (problem->parent[v] >= 0 && choice[problem->parent[v]] == 0) return false;
    for (uint32_t r = 0; r < problem->n_rows; r++) use[r] += problem->weight[choice[v] - 1][r][v];
  }
  for (uint32_t r = 0; r < problem->n_rows; r++) {
    if (use[r] > problem->budget[r] + slack) return false;
  }
  return true;
}

struct brute {
  const struct selector_problem *problem;
  uint8_t choice[SMALL_NODES];
  double best;
};

static void brute_extend(struct brute *brute, uint32_t v, double value, const double *left) {
  const struct selector_problem *problem = brute->problem;
  if (v == problem->n_nodes) {
    if (value > brute->best) brute->best = value;
    return;
  }
  brute->choice[v] = 0;
  brute_extend(brute, v + 1, value, left);
  if (problem->parent[v] >= 0 && brute->choice[problem->parent[v]] == 0) return;
  for (uint32_t k = 0; k < problem->n_tiers; k++) {
    double rest[SELECTOR_ROWS_MAX];
    bool fits = true;
    for (uint32_t r = 0; r < problem->n_rows; r++) {
      rest[r] = left[r] - problem->weight[k][r][v];
      fits = fits && rest[r] >= 0;
    }
    if (!fits) continue;
    brute->choice[v] = (uint8_t)(k + 1);
    brute_extend(brute, v + 1, value + problem->value[k][v], rest);
  }
  brute->choice[v] = 0;
}

static void methods_against_brute_force(void **state) {
  (void)state;
  size_t n_methods;
  const struct selector_ops *const *table = selector_table(&n_methods);
  double gap_sum[8] = {0}, gap_max[8] = {0}, bound_gap = 0;
  uint32_t counted = 0, optimal[8] = {0};
  for (uint64_t seed = 1; seed <= SMALL_INSTANCES; seed++) {
    struct instance instance;
    instance_draw(&instance, seed);
    struct brute brute = {.problem = &instance.problem};
    brute_extend(&brute, 0, 0, instance.problem.budget);
    counted += brute.best > 0;
    for (size_t i = 0; i < n_methods; i++) {
      uint8_t choice[SMALL_NODES + 1];
      struct selector_result result = {.choice = choice};
      struct error error;
      assert_int_equal(selector_solve(table[i], &instance.problem, &error, &result), STATUS_OK);
      bool holds = is_feasible(&instance.problem, choice, 1e-9) && result.value <= brute.best + 1e-9 &&
                   brute.best <= result.bound * (1 + 1e-12) + 1e-12 && result.value >= 0;
      if (!holds) {
        fail_msg("%s, seed %" PRIu64 ": value %.12g, optimum %.12g, bound %.12g", table[i]->name, seed, result.value,
                 brute.best, result.bound);
      }
      if (!(brute.best > 0)) continue;
      double gap = (brute.best - result.value) / brute.best;
      gap_sum[i] += gap;
      optimal[i] += gap < 1e-9;
      if (gap > gap_max[i]) gap_max[i] = gap;
      if (i == 0) bound_gap += (result.bound - brute.best) / brute.best;
    }
  }
  for (size_t i = 0; i < n_methods; i++) {
    print_message("%-12s mean gap %.4f %%, largest %.2f %%, optimal %u of %u\n", table[i]->name,
                  100 * gap_sum[i] / counted, 100 * gap_max[i], optimal[i], counted);
  }
  print_message("macro: mean distance of bound and optimum %.4f %%\n", 100 * bound_gap / counted);
  assert_true(gap_sum[0] / counted <= .03);
  assert_true(gap_sum[1] / counted <= .15);
}

/* Two roots; the worthless one carries the best child. */
static void worth_behind_a_worthless_ancestor_is_found(void **state) {
  (void)state;
  struct instance instance = {.problem = {.n_nodes = 3, .n_tiers = 1, .n_rows = 1, .budget = {10}},
                              .parent = {SELECTOR_NO_PARENT, 0, SELECTOR_NO_PARENT},
                              .value = {{-2, 9, 5}},
                              .weight = {{{4, 4, 4}}}};
  instance_bind(&instance);
  uint8_t choice[3];
  struct selector_result result = {.choice = choice};
  assert_int_equal(selector_solve(selector_find("macro"), &instance.problem, NULL, &result), STATUS_OK);
  assert_float_equal(result.value, 7, 1e-12);
  assert_true(choice[0] && choice[1] && !choice[2]);
  assert_int_equal(result.n_chosen, 2);
  assert_float_equal(result.use[0], 8, 1e-12);
}

static void cheaper_tier_is_taken_when_the_better_one_is_full(void **state) {
  (void)state;
  struct instance instance = {.problem = {.n_nodes = 2, .n_tiers = 2, .n_rows = 2, .budget = {5, 100}},
                              .parent = {SELECTOR_NO_PARENT, SELECTOR_NO_PARENT},
                              .value = {{10, 9}, {8, 8}},
                              .weight = {{{5, 5}, {0, 0}}, {{0, 0}, {5, 5}}}};
  instance_bind(&instance);
  uint8_t choice[2];
  struct selector_result result = {.choice = choice};
  assert_int_equal(selector_solve(selector_find("macro"), &instance.problem, NULL, &result), STATUS_OK);
  assert_float_equal(result.value, 18, 1e-12);
  assert_int_equal(choice[0], 1);
  assert_int_equal(choice[1], 2);
}

static void empty_and_starved_problems_choose_nothing(void **state) {
  (void)state;
  size_t n_methods;
  const struct selector_ops *const *table = selector_table(&n_methods);
  for (size_t i = 0; i < n_methods; i++) {
    struct selector_problem empty = {.n_tiers = 1, .n_rows = 1, .budget = {1}};
    struct selector_result result = {0};
    assert_int_equal(selector_solve(table[i], &empty, NULL, &result), STATUS_OK);
    assert_int_equal(result.n_chosen, 0);
    assert_true(result.bound >= 0 && result.bound <= 0);
    struct instance instance;
    instance_draw(&instance, 7);
    instance.problem.n_nodes = 6;
    instance.problem.n_tiers = 1;
    instance.problem.n_rows = 1;
    instance.problem.budget[0] = 0;
    for (uint32_t v = 0; v < 6; v++) {
      instance.parent[v] = SELECTOR_NO_PARENT;
      instance.value[0][v] = v % 2 ? 3 : -3;
      instance.weight[0][0][v] = v < 4 ? 1 : 0;
    }
    instance_bind(&instance);
    uint8_t choice[SMALL_NODES];
    result.choice = choice;
    assert_int_equal(selector_solve(table[i], &instance.problem, NULL, &result), STATUS_OK);
    assert_int_equal(result.n_chosen, 1); /* node 5: worth something and free */
    assert_int_equal(choice[5], 1);
  }
}

static void multipliers_are_the_worth_of_one_more_unit(void **state) {
  (void)state;
  enum { N = 400 };
  static int32_t parent[N];
  static double value[N], weight[N];
  static uint8_t choice[N];
  struct rng rng;
  rng_init(&rng, 11);
  for (int v = 0; v < N; v++) {
    parent[v] = v < 20 ? SELECTOR_NO_PARENT : (int32_t)rng_below(&rng, (uint64_t)v);
    value[v] = rng_uniform(&rng);
    weight[v] = 1 + 9 * rng_uniform(&rng);
  }
  struct selector_problem problem = {.n_nodes = N, .n_tiers = 1, .n_rows = 1, .parent = parent, .budget = {500}};
  problem.value[0] = value;
  problem.weight[0][0] = weight;
  struct selector_result result = {.choice = choice}, more = {.choice = choice}, scaled = {.choice = choice};
  assert_int_equal(selector_solve(selector_find("macro"), &problem, NULL, &result), STATUS_OK);
  assert_true(result.multiplier[0] > 0);
  assert_true((result.bound - result.value) / result.bound < .005);
  problem.budget[0] = 550;
  assert_int_equal(selector_solve(selector_find("macro"), &problem, NULL, &more), STATUS_OK);
  double marginal = (more.bound - result.bound) / 50;
  assert_true(marginal <= result.multiplier[0] * 1.03 && marginal >= more.multiplier[0] * .97);
  /* Another unit for the resource changes its price, not the choice. */
  problem.budget[0] = 500e9;
  for (int v = 0; v < N; v++) weight[v] *= 1e9;
  assert_int_equal(selector_solve(selector_find("macro"), &problem, NULL, &scaled), STATUS_OK);
  assert_float_equal(scaled.value, result.value, 1e-6);
}

/* A forest of models, applications, documents, sessions: values and weights over orders of magnitude, five budgets. */
struct large {
  struct selector_problem problem;
  int32_t *parent;
  double *numbers;
  uint8_t *choice;
};

static void large_draw(struct large *large, uint32_t n, uint32_t n_tiers, double share, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  *large = (struct large){.problem = {.n_nodes = n, .n_tiers = n_tiers, .n_rows = 5},
                          .parent = malloc(n * sizeof(int32_t)),
                          .numbers = malloc((size_t)n * n_tiers * 6 * sizeof(double)),
                          .choice = malloc(n)};
  assert_true(large->parent && large->numbers && large->choice);
  double all[SELECTOR_ROWS_MAX] = {0}, *at = large->numbers;
  for (uint32_t v = 0; v < n; v++) {
    /* Mostly recent parents: long chains; else any: bushes. */
    uint32_t back = 1 + (uint32_t)rng_below(&rng, rng_below(&rng, 3) ? 40 : v + 1);
    large->parent[v] = v < 30 || back > v ? SELECTOR_NO_PARENT : (int32_t)(v - back);
  }
  for (uint32_t k = 0; k < n_tiers; k++) {
    large->problem.value[k] = at;
    for (uint32_t v = 0; v < n; v++) at[v] = number_exp(2 * rng_normal(&rng)) - (rng_below(&rng, 2) ? 6 : 0) - k * .2;
    at += n;
    for (uint32_t r = 0; r < 5; r++, at += n) {
      large->problem.weight[k][r] = at;
      for (uint32_t v = 0; v < n; v++) {
        at[v] = (r + k) % 3 == 2 ? 0 : number_exp(rng_normal(&rng));
        all[r] += at[v];
      }
    }
  }
  for (uint32_t r = 0; r < 5; r++) large->problem.budget[r] = share * all[r] / n_tiers * (.7 + .6 * rng_uniform(&rng));
  large->problem.parent = large->parent;
}

static void large_release(struct large *large) {
  free(large->parent);
  free(large->numbers);
  free(large->choice);
}

static void large_forests_come_close_to_the_bound(void **state) {
  (void)state;
  for (uint32_t n_tiers = 1; n_tiers <= 3; n_tiers += 2) {
    for (int level = 0; level < 3; level++) {
      const double shares[] = {.01, .05, .3};
      struct large large;
      large_draw(&large, 20000, n_tiers, shares[level], 100 + (uint64_t)level);
      struct selector_result result = {.choice = large.choice};
      struct timespec begin, end;
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
      assert_int_equal(selector_solve(selector_find("macro"), &large.problem, NULL, &result), STATUS_OK);
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
      double ms = (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
      assert_true(is_feasible(&large.problem, large.choice, 1e-6));
      double gap = (result.bound - result.value) / result.bound;
      print_message("20,000 nodes, %u tiers, budgets %2.0f %%: %u chosen, gap %.4f %%, %u relaxations, %.0f ms\n",
                    n_tiers, 100 * shares[level], result.n_chosen, 100 * gap, result.oracle_calls, ms);
      assert_true(gap >= 0 && gap <= .02);
      /* Equal problems, equal answers. */
      uint8_t *again = malloc(large.problem.n_nodes);
      struct selector_result second = {.choice = again};
      if (level == 0) {
        assert_int_equal(selector_solve(selector_find("macro"), &large.problem, NULL, &second), STATUS_OK);
        assert_memory_equal(again, large.choice, large.problem.n_nodes);
      }
      free(again);
      large_release(&large);
    }
  }
}

static void faulty_problems_are_refused_by_name(void **state) {
  (void)state;
  struct instance instance;
  uint8_t choice[SMALL_NODES];
  struct error error;
  volatile double zero = 0;
  double not_a_number = zero / zero, infinite = 1 / zero;
  for (int fault = 0; fault < 10; fault++) {
    memset(&instance, 0, sizeof instance);
    instance.problem = (struct selector_problem){.n_nodes = 3, .n_tiers = 1, .n_rows = 1, .budget = {5}};
    instance.parent[0] = SELECTOR_NO_PARENT;
    instance_bind(&instance);
    switch (fault) {
    case 0:
      instance.value[0][1] = not_a_number;
      break;
    case 1:
      instance.value[0][2] = infinite;
      break;
    case 2:
      instance.weight[0][0][1] = -1;
      break;
    case 3:
      instance.weight[0][0][2] = not_a_number;
      break;
    case 4:
      instance.problem.budget[0] = -1;
      break;
    case 5:
      instance.problem.budget[0] = infinite;
      break;
    case 6:
      instance.parent[1] = 1;
      break;
    case 7:
      instance.parent[1] = -2;
      break;
    case 8:
      instance.problem.n_tiers = SELECTOR_TIERS_MAX + 1;
      break;
    default:
      instance.score[1] = not_a_number;
      break;
    }
    struct selector_result result = {.choice = choice, .value = 77};
    error.text[0] = 0;
    assert_int_equal(selector_solve(selector_find("macro"), &instance.problem, &error, &result), STATUS_INVALID);
    assert_true(strlen(error.text) > 10);
    assert_true(result.value > 76 && result.value < 78);
  }
  assert_null(selector_find("none such"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(methods_against_brute_force),
      cmocka_unit_test(worth_behind_a_worthless_ancestor_is_found),
      cmocka_unit_test(cheaper_tier_is_taken_when_the_better_one_is_full),
      cmocka_unit_test(empty_and_starved_problems_choose_nothing),
      cmocka_unit_test(multipliers_are_the_worth_of_one_more_unit),
      cmocka_unit_test(large_forests_come_close_to_the_bound),
      cmocka_unit_test(faulty_problems_are_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
