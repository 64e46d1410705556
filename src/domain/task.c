#include "domain/task.h"

#include <assert.h>

const char *kind_name(enum kind kind) {
  static const char *const names[KIND_COUNT] = {"complete", "shared", "conversation", "document"};
  return (unsigned)kind < KIND_COUNT ? names[kind] : "unknown";
}

const char *task_state_name(enum task_state state) {
  static const char *const names[TASK_STATE_COUNT] = {"planned", "waiting", "running",   "ready",  "used",
                                                      "expired", "evicted", "cancelled", "failed", "withheld"};
  return (unsigned)state < TASK_STATE_COUNT ? names[state] : "unknown";
}

#define TO(state) (1u << (state))

/* Which states may follow each. What was not begun can still be found ready; what is ready ends used, unused or failed.
 */
static const unsigned followers[TASK_STATE_COUNT] = {
    [TASK_PLANNED] =
        TO(TASK_WAITING) | TO(TASK_RUNNING) | TO(TASK_READY) | TO(TASK_CANCELLED) | TO(TASK_FAILED) | TO(TASK_WITHHELD),
    [TASK_WAITING] = TO(TASK_RUNNING) | TO(TASK_READY) | TO(TASK_CANCELLED) | TO(TASK_FAILED),
    [TASK_RUNNING] = TO(TASK_READY) | TO(TASK_CANCELLED) | TO(TASK_FAILED),
    [TASK_READY] = TO(TASK_USED) | TO(TASK_EXPIRED) | TO(TASK_EVICTED) | TO(TASK_CANCELLED) | TO(TASK_FAILED),
    [TASK_USED] = 0,
    [TASK_EXPIRED] = 0,
    [TASK_EVICTED] = 0,
    [TASK_CANCELLED] = 0,
    [TASK_FAILED] = 0,
    [TASK_WITHHELD] = 0,
};

bool task_state_may_follow(enum task_state from, enum task_state to) {
  return (unsigned)from < TASK_STATE_COUNT && (unsigned)to < TASK_STATE_COUNT && (followers[from] & TO(to)) != 0;
}

void task_set_state(struct task *task, enum task_state state, uint64_t now_us) {
  assert(task_state_may_follow(task->state, state));
  task->state = state;
  if (state == TASK_READY) task->ready_us = now_us;
  if (followers[state] == 0) task->ended_us = now_us;
}
