/* The ledger's totals: every count of tokens, seconds and money that anybody sees comes from this one structure.
 * Plain data with a table of its fields, so that JSON, metrics, history and reports cannot disagree. Any thread. */
#ifndef FORELAY_DOMAIN_TOTALS_H
#define FORELAY_DOMAIN_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "domain/residence.h"

struct totals {
  double requests;            /* answered or failed after prefill began */
  double prompt_tokens;       /* of those requests */
  double hit_tokens;          /* served from a state, all tiers; ≤ prompt_tokens always */
  double shadow_hit_tokens;   /* what the reactive cache would have had */
  double computed_tokens;     /* prompt_tokens − hit_tokens, computed in the foreground */
  double prepared_tokens;     /* computed speculatively */
  double used_tokens;         /* prepared tokens that a request asked for, each counted once */
  double wasted_tokens;       /* prepared tokens dropped without an ask */
  double foreground_seconds;  /* engine seconds of real requests */
  double speculative_seconds; /* engine seconds of preparation, cancelled work included */
  double predicted_seconds;   /* expected benefit of what was prepared, when planned */
  double realized_seconds;    /* signed: prefill seconds saved against the shadow, over all requests */
  double net_seconds;         /* realized − speculative */
  double spent_usd, realized_usd, net_usd;
  double joules;
  double bytes_moved;
};

struct totals_field {
  const char *name; /* as in JSON */
  const char *help; /* one line */
  size_t offset;    /* of the double in struct totals */
};
/* The table, in the order of the structure; *ret_count fields. Static storage. */
const struct totals_field *totals_fields(size_t *ret_count);
void totals_add(struct totals *into, const struct totals *from);

/* What an account of the ledger is kept for. */
enum account_axis { ACCOUNT_ALL = 0, ACCOUNT_KIND, ACCOUNT_LAYER, ACCOUNT_TENANT, ACCOUNT_AXIS_COUNT };
enum layer { LAYER_RETENTION = 0, LAYER_PREPARATION, LAYER_COUNT };
const char *layer_name(enum layer layer);

#endif
