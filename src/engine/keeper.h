/* Copies what is worth it (options.saves_near) from device sequences to RAM, segment by segment, while nobody waits, or at once
 * where a request needs the sequence. Loop thread. Asks the listener for room; never decides who is displaced. */
#ifndef FORELAY_ENGINE_KEEPER_H
#define FORELAY_ENGINE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/reuse.h"

struct keep;

/* Makes the sequence's place free: saves what would be lost, then goes on with the waiter (reuse_job_place, has_cleared
 * set; perhaps before this returns). The sequence is held meanwhile. */
void keeper_clear(struct reuse *reuse, uint32_t seq, struct reuse_job *waiter);
/* reuse_save for the first upto tokens of an idle sequence. */
MUST_USE enum status keeper_save(struct reuse *reuse, uint32_t seq, uint32_t upto, uint64_t task, reuse_saved *done,
                                 void *done_ctx);
/* Goes on with copies that stopped for real work, and begins one of what lies unsaved in idle sequences. */
void keeper_step(struct reuse *reuse);
/* true: the ticket was one of a copy's. */
bool keeper_room_made(struct reuse *reuse, uint64_t ticket, enum status status);
/* Ends all copies with STATUS_CLOSED; the engine is stopped. */
void keeper_close(struct reuse *reuse);
uint32_t keeper_count(const struct reuse *reuse);
/* Looks up in RAM how much of the sequence is there. */
void keeper_look(struct reuse *reuse, uint32_t seq);

#endif
