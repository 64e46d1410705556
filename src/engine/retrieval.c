#include "engine/retrieval.h"

#include "store/depot.h"

void retrieval_find(struct retrieval *retrieval, struct depot *depot, const struct engine *engine, uint32_t tenant,
                    const int32_t *tokens, uint32_t n, bool is_exact) {
  retrieval_release(retrieval, depot);
  depot_match(depot, tenant, tokens, n, is_exact, &retrieval->match);
  retrieval->is_pinned = true;
  retrieval_look(retrieval, depot, engine);
}

void retrieval_look(struct retrieval *retrieval, struct depot *depot, const struct engine *engine) {
  retrieval->n_ranges = 0;
  retrieval->ram_tokens = 0;
  retrieval->canonical_tokens = 0;
  for (uint32_t i = 0; i < retrieval->match.n; i++) {
    const struct index_use *use = &retrieval->match.uses[i];
    const void *view = depot_view(depot, use->segment);
    struct index_entry entry;
    uint32_t exact_tokens;

    if (view == NULL || depot_segment(depot, use->segment, &entry) != STATUS_OK) {
      return;
    }
    retrieval->ranges[retrieval->n_ranges++] =
        (struct engine_range){entry.from, entry.to, view, engine_state_bytes(engine, entry.from, entry.to)};
    retrieval->ram_tokens = use->from + use->tokens;
    if (retrieval->canonical_tokens == use->from) { /* nothing is canonical behind what is not */
      exact_tokens = entry.exact_tokens[TIER_RAM] > use->from ? entry.exact_tokens[TIER_RAM] : use->from;
      retrieval->canonical_tokens = exact_tokens < retrieval->ram_tokens ? exact_tokens : retrieval->ram_tokens;
    }
  }
}

void retrieval_release(struct retrieval *retrieval, struct depot *depot) {
  if (retrieval->is_pinned) {
    depot_release(depot, &retrieval->match);
  }
  retrieval->is_pinned = false;
  retrieval->n_ranges = 0;
}

void retrieval_count(const struct retrieval *retrieval, uint32_t tokens, uint32_t *into) {
  for (uint32_t i = 0; i < retrieval->match.n && retrieval->match.uses[i].from < tokens; i++) {
    const struct index_use *use = &retrieval->match.uses[i];
    uint32_t left = tokens - use->from;

    into[use->tier] += use->tokens < left ? use->tokens : left;
  }
}
