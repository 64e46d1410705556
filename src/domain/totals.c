#include "domain/totals.h"

#include <string.h>

#define FIELD(name, help)                                                                                              \
  { #name, help, offsetof(struct totals, name) }

static const struct totals_field fields[] = {
    FIELD(requests, "requests that were answered, or failed after their prefill began"),
    FIELD(prompt_tokens, "prompt tokens of those requests"),
    FIELD(hit_tokens, "prompt tokens served from a state, as the engine reported"),
    FIELD(shadow_hit_tokens, "prompt tokens that a plain reactive cache of the same size would have served"),
    FIELD(computed_tokens, "prompt tokens computed while somebody waited"),
    FIELD(prepared_tokens, "tokens computed before anybody asked"),
    FIELD(used_tokens, "prepared tokens that a request asked for, each counted once"),
    FIELD(wasted_tokens, "prepared tokens dropped without an ask"),
    FIELD(foreground_seconds, "engine seconds of requests"),
    FIELD(speculative_seconds, "engine seconds of preparation, cancelled work included"),
    FIELD(predicted_seconds, "benefit expected of what was prepared"),
    FIELD(realized_seconds, "prefill seconds saved against the reactive cache over all requests, signed"),
    FIELD(net_seconds, "realized minus speculative seconds, signed"),
    FIELD(spent_usd, "money spent on preparation"),
    FIELD(realized_usd, "worth of the realized seconds, signed"),
    FIELD(net_usd, "realized minus spent money, signed"),
    FIELD(joules, "energy of preparation"),
    FIELD(bytes_moved, "bytes moved between tiers"),
};

const struct totals_field *totals_fields(size_t *ret_count) {
  *ret_count = sizeof fields / sizeof *fields;
  return fields;
}

void totals_add(struct totals *into, const struct totals *from) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    double sum, part;
    memcpy(&sum, (char *)into + fields[i].offset, sizeof sum);
    memcpy(&part, (const char *)from + fields[i].offset, sizeof part);
    sum += part;
    memcpy((char *)into + fields[i].offset, &sum, sizeof sum);
  }
}

const char *layer_name(enum layer layer) {
  static const char *const names[LAYER_COUNT] = {"retention", "preparation"};
  return (unsigned)layer < LAYER_COUNT ? names[layer] : "unknown";
}
