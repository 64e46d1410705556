/* The records of preparations: numbered, found by number, listed newest first; what has ended makes room for what is
 * new. Holds no opinion on what a preparation is worth. One thread at a time. Owns the records and their keys. */
#ifndef FORELAY_PLAN_TASKBOOK_H
#define FORELAY_PLAN_TASKBOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/task.h"

struct taskbook;

struct task_record {
  struct task task;
  block_key *keys; /* [n_blocks] of the prefix, owned; dropped when the task has ended */
  uint32_t n_blocks;
  uint32_t node;             /* of the forest that it was planned for, 0: none */
  uint64_t draft;            /* number of the draft it is the newest order of, 0: none */
  double booked_seconds;     /* taken out of the spending account and not settled yet */
  double displaced_seconds;  /* of those, for what its bytes may displace */
  double value_usd;          /* when planned, for the order of work */
  double value_usd_per_byte; /* likewise, against what it would displace */
  double victims_seconds;    /* worth of what was really displaced for it */
  double forecast_seconds;   /* expected benefit by forecasts alone, not corrected by what its kind brought so far */
  uint64_t heard_us;         /* last word from the executor */
  uint64_t held_segment;     /* that may not leave RAM while the task is ready, 0: none */
  uint64_t held_bytes;       /* of plan.held_bytes */
  bool is_cancel_wanted;     /* a CANCEL has to be handed out */
  uint32_t older, newer;     /* by number; UINT32_MAX at the ends */
};

/* first_id ≥ 1 is the first number given. */
MUST_USE enum status taskbook_create(uint32_t tasks_max, uint64_t first_id, struct taskbook **ret_taskbook);
void taskbook_destroy(struct taskbook **taskbook);
/* A new record in state PLANNED with a copy of keys[n]; the ended one with the lowest number makes room. STATUS_FULL
 * when none has ended. Borrowed until its number is dropped. */
MUST_USE enum status taskbook_add(struct taskbook *taskbook, const block_key *keys, uint32_t n, uint64_t now_us,
                                  struct task_record **ret_record);
/* Places are small numbers below tasks_max, for heaps. */
uint32_t taskbook_place(const struct taskbook *taskbook, const struct task_record *record);
struct task_record *taskbook_at(struct taskbook *taskbook, uint32_t place);
/* NULL when unknown. */
struct task_record *taskbook_find(struct taskbook *taskbook, uint64_t id);
const struct task_record *taskbook_read(const struct taskbook *taskbook, uint64_t id);
/* The newest for NULL, else the next older; NULL at the end. */
const struct task_record *taskbook_older(const struct taskbook *taskbook, const struct task_record *record);
/* Whether nothing more can happen to it but credit: used, expired, evicted, cancelled, failed, withheld. */
bool task_record_has_ended(const struct task_record *record);
uint64_t taskbook_next_id(const struct taskbook *taskbook);
/* Numbers below `id` are not given again. */
void taskbook_skip(struct taskbook *taskbook, uint64_t id);

#endif
