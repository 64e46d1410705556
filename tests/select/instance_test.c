/* The macro method against published instances with proven optima: trees with and without tiers, and the OR-Library's
 * first multidimensional knapsacks. FORELAY_DATA names the folder that holds instances/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "select/selector.h"

struct loaded {
  struct selector_problem problem;
  double *numbers; /* values, then weights row by row, tier after tier */
  int32_t *parent;
  uint8_t *choice;
  double optimum;
};

static void loaded_init(struct loaded *loaded, uint32_t n, uint32_t n_tiers, uint32_t n_rows) {
  *loaded = (struct loaded){.problem = {.n_nodes = n, .n_tiers = n_tiers, .n_rows = n_rows},
                            .numbers = calloc((size_t)n * n_tiers * (n_rows + 1), sizeof(double)),
                            .parent = calloc(n, sizeof(int32_t)),
                            .choice = calloc(n, 1)};
  assert_true(loaded->numbers && loaded->parent && loaded->choice);
  double *at = loaded->numbers;
  for (uint32_t k = 0; k < n_tiers; k++, at += n) loaded->problem.value[k] = at;
  for (uint32_t k = 0; k < n_tiers; k++) {
    for (uint32_t r = 0; r < n_rows; r++, at += n) loaded->problem.weight[k][r] = at;
  }
  loaded->problem.parent = loaded->parent;
}

static void loaded_release(struct loaded *loaded) {
  free(loaded->numbers);
  free(loaded->parent);
  free(loaded->choice);
}

static void data_path(char *path, size_t size, const char *name) {
  const char *data = getenv("FORELAY_DATA");
  snprintf(path, size, "%s/instances/%s", data ? data : FORELAY_SOURCE_DIR "/../shared", name);
}

/* All numbers of the value that follows "key": in JSON text, brackets of any depth ignored; returns how many. */
static uint32_t json_numbers(const char *text, const char *key, double *numbers, uint32_t max) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text, quoted);
  if (!at) return 0;
  uint32_t n = 0;
  int depth = 0;
  for (at += strlen(quoted); *at; at++) {
    if (*at == '[') depth++;
    if (*at == ']' && --depth <= 0) break;
    if ((*at >= '0' && *at <= '9') || *at == '-') {
      char *end;
      double number = strtod(at, &end);
      if (n < max) numbers[n] = number;
      n++;
      at = end - 1;
      if (depth == 0) break;
    }
  }
  return n;
}

static char *file_text(const char *path) {
  FILE *stream = fopen(path, "r");
  assert_non_null(stream);
  fseek(stream, 0, SEEK_END);
  long size = ftell(stream);
  rewind(stream);
  char *text = malloc((size_t)size + 1);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, (size_t)size, stream), size);
  text[size] = 0;
  fclose(stream);
  return text;
}

static void loaded_read_json(struct loaded *loaded, const char *path) {
  char *text = file_text(path);
  double n = 0, n_tiers = 0, optimum = 0, budgets[SELECTOR_ROWS_MAX];
  assert_int_equal(json_numbers(text, "n", &n, 1), 1);
  assert_int_equal(json_numbers(text, "tiers", &n_tiers, 1), 1);
  assert_int_equal(json_numbers(text, "optimum", &optimum, 1), 1);
  uint32_t n_rows = json_numbers(text, "budgets", budgets, SELECTOR_ROWS_MAX), size = (uint32_t)n;
  assert_true(n_rows <= SELECTOR_ROWS_MAX);
  loaded_init(loaded, size, (uint32_t)n_tiers, n_rows);
  loaded->optimum = optimum;
  memcpy(loaded->problem.budget, budgets, n_rows * sizeof *budgets);
  double *parents = malloc(size * sizeof *parents);
  assert_int_equal(json_numbers(text, "parent", parents, size), size);
  for (uint32_t v = 0; v < size; v++) loaded->parent[v] = (int32_t)parents[v];
  free(parents);
  uint32_t values = size * (uint32_t)n_tiers, weights = values * n_rows;
  assert_int_equal(json_numbers(text, "benefit", loaded->numbers, values), values);
  assert_int_equal(json_numbers(text, "use", loaded->numbers + values, weights), weights);
  free(text);
}

/* true when the optimum was reached. Its bound must hold, and numbers are whole, so it is proven when the bound is
 * near. */
static bool solve_and_compare(struct loaded *loaded, const char *name, double share_min, bool *ret_is_proven) {
  struct selector_result result = {.choice = loaded->choice};
  struct error error;
  enum status status = selector_solve(selector_find("macro"), &loaded->problem, &error, &result);
  if (status != STATUS_OK) fail_msg("%s: %s", name, error.text);
  if (result.value > loaded->optimum + .5 || result.bound < loaded->optimum - 1e-6 * (1 + loaded->optimum)) {
    fail_msg("%s: value %.3f, optimum %.0f, bound %.3f", name, result.value, loaded->optimum, result.bound);
  }
  bool is_optimal = result.value > loaded->optimum - .5;
  *ret_is_proven = is_optimal && result.bound < loaded->optimum + 1;
  if (!*ret_is_proven) {
    print_message("%s: value %.0f of %.0f, bound %.1f\n", name, result.value, loaded->optimum, result.bound);
  }
  if (result.value < share_min * loaded->optimum) fail_msg("%s: %.0f of %.0f", name, result.value, loaded->optimum);
  return is_optimal;
}

static void published_trees(void **state) {
  (void)state;
  char folder[1024], path[1400];
  data_path(folder, sizeof folder, "tree-knapsack");
  DIR *directory = opendir(folder);
  if (!directory) {
    print_message("skipped: no instances at %s\n", folder);
    skip();
  }
  uint32_t n = 0, optimal = 0, proven = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    bool is_tiered = strncmp(entry->d_name, "tier_", 5) == 0;
    if (!is_tiered && strncmp(entry->d_name, "static_", 7) != 0 && strncmp(entry->d_name, "edge_", 5) != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    struct loaded loaded;
    bool is_proven;
    loaded_read_json(&loaded, path);
    optimal += solve_and_compare(&loaded, entry->d_name, is_tiered ? .9 : .99, &is_proven);
    proven += is_proven;
    n++;
    loaded_release(&loaded);
  }
  closedir(directory);
  print_message("%u trees: %u optimal, %u proven\n", n, optimal, proven);
  assert_int_equal(n, 48);
  assert_true(optimal >= 45 && proven >= 43);
}

static double next_number(FILE *stream) {
  double number;
  assert_int_equal(fscanf(stream, "%lf", &number), 1);
  return number;
}

static void published_knapsacks(void **state) {
  (void)state;
  char path[1024], command[1100];
  data_path(path, sizeof path, "mknap1.txt.zst");
  if (access(path, R_OK) != 0) {
    print_message("skipped: no instances at %s\n", path);
    skip();
  }
  snprintf(command, sizeof command, "zstd -dc '%s'", path);
  FILE *stream = popen(command, "r");
  assert_non_null(stream);
  uint32_t n_problems = (uint32_t)next_number(stream), solved = 0, optimal = 0;
  for (uint32_t i = 1; i <= n_problems; i++) {
    uint32_t n = (uint32_t)next_number(stream), n_rows = (uint32_t)next_number(stream);
    double optimum = next_number(stream);
    bool fits = n_rows <= SELECTOR_ROWS_MAX, is_proven;
    struct loaded loaded;
    loaded_init(&loaded, n, 1, fits ? n_rows : 0);
    for (uint32_t v = 0; v < n; v++) loaded.numbers[v] = next_number(stream);
    for (uint32_t at = 0; at < n * n_rows; at++) {
      double weight = next_number(stream);
      if (fits) loaded.numbers[n + at] = weight;
    }
    for (uint32_t r = 0; r < n_rows; r++) {
      double budget = next_number(stream);
      if (fits) loaded.problem.budget[r] = budget;
    }
    for (uint32_t v = 0; v < n; v++) loaded.parent[v] = SELECTOR_NO_PARENT;
    loaded.optimum = optimum;
    if (fits) {
      char name[32];
      snprintf(name, sizeof name, "mknap1 %u", i);
      optimal += solve_and_compare(&loaded, name, .998, &is_proven);
      solved++;
    }
    loaded_release(&loaded);
  }
  assert_int_equal(pclose(stream), 0);
  print_message("%u knapsacks of at most %d rows: %u optimal\n", solved, SELECTOR_ROWS_MAX, optimal);
  assert_true(solved >= 2 && optimal >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(published_trees), cmocka_unit_test(published_knapsacks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
