/* Saving, fetching, writing, evicting, dropping and restarting in random order, seeds printed: bytes are always right,
 * caps always hold, whoever has a parent has it, and what events say is what is there. */
#include "store/stage.h"

struct model {
  struct stage *stage;
  struct rng rng;
  int32_t tokens[12][500];
  uint32_t length[12];
};

static void model_draw_chain(struct model *model, unsigned i) {
  uint32_t kept = i > 0 ? (uint32_t)rng_below(&model->rng, 400) : 0;
  if (i > 0) memcpy(model->tokens[i], model->tokens[rng_below(&model->rng, i)], kept * sizeof **model->tokens);
  for (uint32_t t = kept; t < 500; t++) model->tokens[i][t] = (int32_t)rng_below(&model->rng, 50000);
  model->length[i] = 200 + (uint32_t)rng_below(&model->rng, 301);
}

struct census {
  uint64_t ids[4096];
  bool in[4096][TIER_COUNT];
  size_t n;
};

static void census_note(void *ctx, const struct index_entry *entry) {
  struct census *census = ctx;
  if (entry->bytes[TIER_RAM] == 0 && entry->bytes[TIER_SSD] == 0) return;
  census->ids[census->n] = entry->id;
  for (int tier = 0; tier < TIER_COUNT; tier++) census->in[census->n][tier] = entry->bytes[tier] > 0;
  census->n++;
}

/* What the events say is there must be what is there. */
static void events_agree(struct stage *stage) {
  struct census *told = calloc(1, sizeof *told), *seen = calloc(1, sizeof *seen);
  assert_true(told != NULL && seen != NULL);
  for (size_t i = 0; i < stage->n_events; i++) {
    size_t at = 0;
    while (at < told->n && told->ids[at] != stage->events[i].segment) at++;
    told->n += at == told->n;
    told->ids[at] = stage->events[i].segment;
    assert_true(told->in[at][stage->events[i].tier] != stage->events[i].is_present);
    told->in[at][stage->events[i].tier] = stage->events[i].is_present;
  }
  depot_each(stage->depot, UINT32_MAX, census_note, seen);
  size_t n_told = 0;
  for (size_t i = 0; i < told->n; i++) n_told += told->in[i][TIER_RAM] || told->in[i][TIER_SSD];
  assert_int_equal(n_told, seen->n);
  for (size_t i = 0; i < seen->n; i++) {
    size_t at = 0;
    while (at < told->n && told->ids[at] != seen->ids[i]) at++;
    assert_true(at < told->n);
    assert_memory_equal(told->in[at], seen->in[i], sizeof seen->in[i]);
  }
  free(told);
  free(seen);
}

/* Whoever has a parent has one that is somewhere, and one on disk if it is on disk itself. */
static void parents_are_there(void *ctx, const struct index_entry *entry) {
  struct stage *stage = ctx;
  if (entry->parent == 0) return;
  if (entry->bytes[TIER_SSD] > 0) assert_true(stage_is_in(stage, entry->parent, TIER_SSD));
  if (entry->bytes[TIER_RAM] > 0)
    assert_true(stage_is_in(stage, entry->parent, TIER_RAM) || stage_is_in(stage, entry->parent, TIER_SSD));
}

static void model_step(struct model *model) {
  struct stage *stage = model->stage;
  unsigned i = (unsigned)rng_below(&model->rng, 12);
  uint32_t tenant = i % 2, n = model->length[i];
  uint64_t ids[8];
  switch (rng_below(&model->rng, 8)) {
  case 0:
  case 1:
    (void)stage_save(stage, tenant, model->tokens[i], n);
    break;
  case 2:
    (void)stage_restore(stage, tenant, model->tokens[i], n, rng_below(&model->rng, 2) == 0);
    break;
  case 3:
    for (uint32_t k = 0, m = stage_chain(stage, tenant, model->tokens[i], n, ids); k < m; k++)
      (void)!depot_demote(stage->depot, ids[k]);
    break;
  case 4:
  case 5:
    for (uint32_t k = stage_chain(stage, tenant, model->tokens[i], n, ids); k > 0; k--)
      (void)!depot_evict(stage->depot, ids[k - 1], rng_below(&model->rng, 2) == 0 ? TIER_RAM : TIER_SSD);
    break;
  case 6:
    if (stage_chain(stage, tenant, model->tokens[i], n, ids) > 0 && rng_below(&model->rng, 4) == 0)
      (void)!depot_drop(stage->depot, ids[0]);
    break;
  default:
    if (rng_below(&model->rng, 10) == 0) stage_reopen(stage);
    model_draw_chain(model, i);
    break;
  }
  while (rng_below(&model->rng, 2) == 0 && stage_loop_step(&stage->loop, 0)) {
  }
}

static void anything_in_any_order(void **state) {
  (void)state;
  struct stage *stage = stage_create();
  struct model model = {.stage = stage};
  stage->config.ram_bytes = 700000; /* 21 whole segments */
  stage->config.ssd_bytes = 900000;
  stage_open(stage);
  for (uint64_t seed = 1; seed <= 40; seed++) {
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_init(&model.rng, seed);
    for (unsigned i = 0; i < 12; i++) model_draw_chain(&model, i);
    for (int step = 0; step < 300; step++) {
      unsigned n;
      model_step(&model);
      struct depot_stats stats = stage_stats(stage);
      assert_true(stats.tier[TIER_RAM].used_bytes <= stage->config.ram_bytes);
      assert_true(stats.tier[TIER_SSD].used_bytes <= stage->config.ssd_bytes);
      assert_true(stage_folder_bytes(stage->states, ".fkv", &n) <= stage->config.ssd_bytes);
      assert_int_equal(stats.rejected, 0);
      depot_each(stage->depot, UINT32_MAX, parents_are_there, stage);
    }
    events_agree(stage);
  }
  stage_destroy(stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(anything_in_any_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
