#include "plan/rivals.h"

#include <stdlib.h>
#include <string.h>

enum {
  REACTIVE = 0, /* S0 */
  RETENTION,    /* S1 */
  RIVALS,
  SIGHTINGS_MAX = 8,
  CLOCKS_US = 5000 /* two stamps of one moment may lie so far apart */
};

/* What the rivals held of a waiting request from some moment on. */
struct sighting {
  uint64_t at_us;
  uint32_t tokens[RIVALS];
};

struct rival_request {
  uint64_t id;
  uint64_t at_us;         /* arrival */
  uint32_t prompt_tokens; /* all of it */
  uint32_t n_blocks;      /* of keys */
  uint32_t turn;
  bool may_learn;
  block_key *keys; /* [n_blocks], in the same allocation */
  int32_t *tokens; /* [prompt_tokens], likewise; NULL: not told */
  uint32_t n_sightings;
  struct sighting sightings[SIGHTINGS_MAX]; /* in order of time; when full the oldest goes */
};

struct rivals {
  struct rivals_config config;
  struct twin *twins[RIVALS]; /* [n_twins]; where there is one it stands for both */
  uint32_t n_twins;
  struct rival_request **open; /* [n_open], in order of arrival; room for requests_max */
  uint32_t n_open;
};

enum status rivals_create(const struct rivals_config *config, struct rivals **ret_rivals) {
  struct rivals *rivals = calloc(1, sizeof *rivals);
  if (!rivals) return STATUS_NO_MEMORY;
  rivals->config = *config;
  rivals->open = calloc(config->requests_max, sizeof(struct rival_request *));
  struct twin_config reactive = config->twin;
  reactive.shelf.policy = RETENTION_LRU;
  enum status status = rivals->open ? twin_create(&reactive, &rivals->twins[REACTIVE]) : STATUS_NO_MEMORY;
  if (status == STATUS_OK) rivals->n_twins = 1;
  if (status == STATUS_OK && config->twin.shelf.policy != RETENTION_LRU) {
    status = twin_create(&config->twin, &rivals->twins[RETENTION]);
    if (status == STATUS_OK) rivals->n_twins = 2;
  }
  if (status != STATUS_OK) {
    rivals_destroy(&rivals);
    return status;
  }
  *ret_rivals = rivals;
  return STATUS_OK;
}

void rivals_destroy(struct rivals **reference) {
  struct rivals *rivals = *reference;
  if (!rivals) return;
  for (uint32_t i = 0; i < rivals->n_open; i++) free(rivals->open[i]);
  for (uint32_t i = 0; i < rivals->n_twins; i++) twin_destroy(&rivals->twins[i]);
  free(rivals->open);
  free(rivals);
  *reference = NULL;
}

void rivals_resize(struct rivals *rivals, uint64_t ram_bytes, uint64_t ssd_bytes, uint64_t now_us) {
  for (uint32_t i = 0; i < rivals->n_twins; i++) {
    shelf_resize(twin_shelf(rivals->twins[i]), ram_bytes, ssd_bytes, now_us);
  }
}

enum status rivals_adopt(struct rivals *rivals, const block_key *keys, uint32_t n, uint64_t now_us) {
  uint32_t size = rivals->config.twin.shelf.block_tokens;
  struct passage passage = passage_of(keys, NULL, n * size, size);
  enum status status = STATUS_OK;
  for (uint32_t i = 0; i < rivals->n_twins && status == STATUS_OK; i++) {
    status = shelf_adopt(twin_shelf(rivals->twins[i]), &passage, now_us);
  }
  return status;
}

void rivals_revalue(struct rivals *rivals, uint32_t n) {
  for (uint32_t i = 0; i < rivals->n_twins; i++) shelf_revalue(twin_shelf(rivals->twins[i]), n);
}

static struct passage request_passage(const struct rivals *rivals, const struct rival_request *request) {
  uint32_t size = rivals->config.twin.shelf.block_tokens;
  uint32_t n_tokens = request->tokens ? request->prompt_tokens : request->n_blocks * size;
  return passage_of(request->keys, request->tokens, n_tokens, size);
}

static void request_look(struct rivals *rivals, struct rival_request *request, uint64_t at_us) {
  struct passage prompt = request_passage(rivals, request);
  struct sighting sighting = {.at_us = at_us};
  for (uint32_t i = 0; i < rivals->n_twins; i++) {
    sighting.tokens[i] = twin_find(rivals->twins[i], &prompt, request->prompt_tokens);
  }
  if (rivals->n_twins < RIVALS) sighting.tokens[RETENTION] = sighting.tokens[REACTIVE];
  if (request->n_sightings) {
    const struct sighting *last = &request->sightings[request->n_sightings - 1];
    if (memcmp(last->tokens, sighting.tokens, sizeof sighting.tokens) == 0) return;
  }
  if (request->n_sightings == SIGHTINGS_MAX) {
    memmove(request->sightings, request->sightings + 1, (SIGHTINGS_MAX - 1) * sizeof sighting);
    request->n_sightings--;
  }
  request->sightings[request->n_sightings++] = sighting;
}

/* What they held at that moment. */
static struct sighting sighting_at(const struct rival_request *request, uint64_t at_us) {
  uint32_t i = request->n_sightings - 1;
  while (i > 0 && request->sightings[i].at_us > at_us) i--;
  return request->sightings[i];
}

static void open_remove(struct rivals *rivals, uint32_t place) {
  free(rivals->open[place]);
  rivals->n_open--;
  memmove(&rivals->open[place], &rivals->open[place + 1], (rivals->n_open - place) * sizeof rivals->open[0]);
}

static uint32_t open_find(const struct rivals *rivals, uint64_t id) {
  uint32_t i = 0;
  while (i < rivals->n_open && rivals->open[i]->id != id) i++;
  return i;
}

static void request_settle(struct rivals *rivals, uint64_t id) {
  for (uint32_t i = 0; i < rivals->n_twins; i++) shelf_settle(twin_shelf(rivals->twins[i]), id);
}

static struct rival_request *request_copy(const struct ask *ask) {
  size_t n_tokens = ask->token_ids ? ask->prompt_tokens : 0;
  struct rival_request *request =
      calloc(1, sizeof *request + ask->n_blocks * sizeof(block_key) + n_tokens * sizeof(int32_t));
  if (!request) return NULL;
  *request = (struct rival_request){.id = ask->request,
                                    .at_us = ask->at_us,
                                    .prompt_tokens = ask->prompt_tokens,
                                    .n_blocks = ask->n_blocks,
                                    .turn = ask->turn,
                                    .may_learn = ask->may_learn,
                                    .keys = (block_key *)(request + 1)};
  if (ask->n_blocks) memcpy(request->keys, ask->keys, ask->n_blocks * sizeof(block_key));
  if (n_tokens) {
    request->tokens = (int32_t *)(request->keys + ask->n_blocks);
    memcpy(request->tokens, ask->token_ids, n_tokens * sizeof(int32_t));
  }
  return request;
}

enum status rivals_ask(struct rivals *rivals, const struct ask *ask) {
  struct rival_request *request = request_copy(ask);
  if (!request) return STATUS_NO_MEMORY;
  uint32_t before = open_find(rivals, ask->request);
  if (before < rivals->n_open) open_remove(rivals, before);
  if (rivals->n_open == rivals->config.requests_max) {
    request_settle(rivals, rivals->open[0]->id);
    open_remove(rivals, 0);
  }
  rivals->open[rivals->n_open++] = request;
  request_look(rivals, request, ask->at_us);
  if (!ask->may_learn) return STATUS_OK;
  struct passage prompt = request_passage(rivals, request);
  enum status status = STATUS_OK;
  for (uint32_t i = 0; i < rivals->n_twins && status == STATUS_OK; i++) {
    status = shelf_ask(twin_shelf(rivals->twins[i]), ask->request, &prompt, ask->at_us);
  }
  return status;
}

/* What lies in the sequence behind a prompt that was computed in full: the next turn's beginning as far as its tokens
 * exist, where it goes on from this prompt. */
static struct passage held_of(const struct rivals *rivals, const struct rival_request *request,
                              const struct passage *prompt, const struct outcome *outcome) {
  uint32_t size = prompt->block_tokens, n = outcome->n_next * size;
  bool has_tokens = outcome->next_token_ids && prompt->tokens;
  if (has_tokens) n = outcome->next_tokens;
  struct passage next = passage_of(outcome->next_keys, has_tokens ? outcome->next_token_ids : NULL, n, size);
  /* The last token was sampled and not computed any more. */
  uint32_t exist = request->prompt_tokens + (outcome->output_tokens ? outcome->output_tokens - 1 : 0);
  bool goes_on = outcome->n_next && !rivals->config.twin.is_exact && passage_common(&next, prompt) >= prompt->n_tokens;
  return goes_on && next.n_tokens > prompt->n_tokens ? passage_cut(&next, exist) : *prompt;
}

static enum status request_serve(struct rivals *rivals, const struct rival_request *request,
                                 const struct outcome *outcome, uint32_t computed_to) {
  struct passage all = request_passage(rivals, request), prompt = passage_cut(&all, computed_to);
  struct twin_run run = {.prompt = prompt,
                         .held = prompt,
                         .prompt_tokens = request->prompt_tokens,
                         .turn = request->turn,
                         .is_quiet = rivals->n_open <= 1};
  if (computed_to >= request->prompt_tokens) run.held = held_of(rivals, request, &prompt, outcome);
  enum status status = STATUS_OK;
  for (uint32_t i = 0; i < rivals->n_twins && status == STATUS_OK; i++) {
    status = twin_serve(rivals->twins[i], &run, outcome->at_us);
  }
  return status;
}

enum status rivals_finish(struct rivals *rivals, const struct outcome *outcome, struct rivals_hits *ret_hits) {
  *ret_hits = (struct rivals_hits){0};
  uint32_t place = open_find(rivals, outcome->request);
  if (place == rivals->n_open) return STATUS_OK;
  struct rival_request *request = rivals->open[place];
  struct sighting sighting = sighting_at(request, request->at_us + outcome->queue_us + CLOCKS_US);
  *ret_hits = (struct rivals_hits){.reactive_tokens = sighting.tokens[REACTIVE],
                                   .retention_tokens = sighting.tokens[RETENTION]};
  uint64_t computed_to = outcome->computed_tokens;
  for (int tier = 0; tier < TIER_COUNT; tier++) computed_to += outcome->hit_tokens[tier];
  if (computed_to > request->prompt_tokens) computed_to = request->prompt_tokens;
  enum status status = STATUS_OK;
  bool leaves = request->may_learn && computed_to > 0;
  if (leaves) status = request_serve(rivals, request, outcome, (uint32_t)computed_to);
  request_settle(rivals, request->id);
  open_remove(rivals, place);
  for (uint32_t i = 0; leaves && i < rivals->n_open; i++) request_look(rivals, rivals->open[i], outcome->at_us);
  return status;
}
