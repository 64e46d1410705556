/* A forelay that is only imagined: the same sequences and the same store, fed with the same requests, that prepares
 * nothing. Follows what engine/reuse.c does, request by request: which sequence or stored state serves a prompt, which
 * sequence it is computed in, and when that is copied to the store. Metadata only. One thread at a time. Owns its
 * state.
 */
#ifndef FORELAY_PLAN_TWIN_H
#define FORELAY_PLAN_TWIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "plan/passage.h"
#include "plan/shelf.h"

struct twin;

struct twin_config {
  struct shelf_config shelf;
  uint32_t sequences;       /* of the engine; 0: nothing is kept but in the store */
  uint32_t sequence_tokens; /* what one of them can hold */
  bool is_exact;            /* canonical tokens only are reused, and never so many that a short piece remains */
};

MUST_USE enum status twin_create(const struct twin_config *config, struct twin **ret_twin);
void twin_destroy(struct twin **twin);
struct shelf *twin_shelf(struct twin *twin);

/* Tokens of the prompt that a request beginning now would find; below prompt_tokens, since the last one is computed in
 * any case. */
uint32_t twin_find(const struct twin *twin, const struct passage *prompt, uint32_t prompt_tokens);

/* A request that has been computed. */
struct twin_run {
  struct passage prompt; /* as far as it was computed */
  struct passage held;   /* what its sequence holds now: the prompt and what was generated behind it */
  uint32_t prompt_tokens;
  uint32_t turn; /* of a conversation, 0: none */
  bool is_quiet; /* no other request waits or runs: the engine has time to copy */
};
MUST_USE enum status twin_serve(struct twin *twin, const struct twin_run *run, uint64_t now_us);

#endif
