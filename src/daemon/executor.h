/* Carries out the planner's actions through reuse and the depot, and reports what came of them as task events. Loop
 * thread only; never blocks; decides nothing but the order of work it was given: orders first, then by value. */
#ifndef FORELAY_DAEMON_EXECUTOR_H
#define FORELAY_DAEMON_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "plan/plan.h"

struct depot;
struct executor;
struct materials;
struct reuse;

struct executor_config {
  struct reuse *reuse; /* borrowed, as everything here */
  struct depot *depot;
  struct materials *materials;
  const uint8_t (*salts)[32]; /* [n_tenants] */
  uint32_t n_tenants;
  size_t waiting_max; /* preparations not begun yet; one more fails at once */
  void (*task_event)(void *ctx, const struct task_event *event); /* pointers borrowed for the call */
  void *ctx;
  uint64_t (*now_us)(void); /* Unix */
};

MUST_USE enum status executor_create(const struct executor_config *config, struct executor **ret_executor);
/* Cancels what runs; no more task events come. Before reuse_close. NULL is accepted. */
void executor_destroy(struct executor **executor);
void executor_take(struct executor *executor, const struct action *actions, size_t n);
/* The machine may have room for the next preparation now. */
void executor_poke(struct executor *executor);
/* Preparations handed over and not ended. */
uint32_t executor_open_count(const struct executor *executor);

#endif
