/* The members that chat and text completions share: how the answer is drawn, how long it may be, how it is sent.
 * Any thread; texts are borrowed from the request's JSON. */
#ifndef FORELAY_GATEWAY_SAMPLING_FIELDS_H
#define FORELAY_GATEWAY_SAMPLING_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "gateway/json_field.h"

enum { CHOICES_MAX = 8 }; /* most answers to one prompt (`n`) */

struct sampling_fields {
  struct sampling sampling; /* its biases point at `biases`; grammar and tool marks are not set here */
  struct sampling_bias biases[SAMPLING_BIASES_MAX];
  const char *stops[ENGINE_STOPS_MAX]; /* [n_stops] */
  uint32_t n_stops;
  bool has_seed;              /* else the caller draws one */
  uint32_t output_tokens_max; /* ≥ 1; UINT32_MAX: as much as fits */
  uint32_t n_choices;         /* answers to each prompt, 1 … CHOICES_MAX */
  bool is_stream;
  bool wants_usage;   /* stream_options.include_usage */
  bool caches_prompt; /* false: cache_prompt false, as good as x-forelay-reuse: off */
};

/* The rules of these members, to be joined with a route's own. */
#define SAMPLING_FIELD_RULES                                                                                           \
  {"model", FIELD_SERVED, NULL}, {"temperature", FIELD_SERVED, NULL}, {"top_p", FIELD_SERVED, NULL},                   \
      {"top_k", FIELD_SERVED, NULL}, {"min_p", FIELD_SERVED, NULL}, {"typical_p", FIELD_SERVED, NULL},                 \
      {"seed", FIELD_SERVED, NULL}, {"frequency_penalty", FIELD_SERVED, NULL},                                         \
      {"presence_penalty", FIELD_SERVED, NULL}, {"repeat_penalty", FIELD_SERVED, NULL},                                \
      {"repeat_last_n", FIELD_SERVED, NULL}, {"logit_bias", FIELD_SERVED, NULL}, {"stop", FIELD_SERVED, NULL},         \
      {"max_tokens", FIELD_SERVED, NULL}, {"ignore_eos", FIELD_SERVED, NULL}, {"n", FIELD_SERVED, NULL},               \
      {"stream", FIELD_SERVED, NULL}, {"stream_options", FIELD_SERVED, NULL}, {"cache_prompt", FIELD_SERVED, NULL},    \
      {"grammar", FIELD_SERVED, NULL}, {"json_schema", FIELD_SERVED, NULL}, {"logprobs", FIELD_SERVED, NULL},          \
      {"user", FIELD_HARMLESS, NULL}, {"metadata", FIELD_HARMLESS, NULL}, {"safety_identifier", FIELD_HARMLESS, NULL}, \
      {"prompt_cache_key", FIELD_HARMLESS, NULL}, {"prompt_cache_retention", FIELD_HARMLESS, NULL},                    \
      {"store", FIELD_ONLY, "false"}, {"service_tier", FIELD_ONLY, "\"auto\" \"default\""},                            \
      {"timings_per_token", FIELD_ONLY, "false"}, {                                                                    \
    "return_progress", FIELD_ONLY, "false"                                                                             \
  }

/* Fills everything but logprobs (a route's own form) and max_completion_tokens. output_default: where max_tokens is
 * absent. n_vocab: bound of token ids in logit_bias. */
MUST_USE enum status sampling_fields_read(const struct field_scope *scope, uint32_t output_default, uint32_t n_vocab,
                                          struct sampling_fields *ret_fields);

#endif
