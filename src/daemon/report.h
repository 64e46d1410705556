/* The admin interface's JSON and the ledger's metrics, made from the plan and nothing else, so that no two numbers can
 * disagree. Pure formatting; runs on the plan thread, where the plan is. Texts are the caller's to free(). */
#ifndef FORELAY_DAEMON_REPORT_H
#define FORELAY_DAEMON_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "domain/residence.h"
#include "plan/plan.h"

/* What the loop thread knows and the plan does not; collected there and carried along with the question. */
struct machine {
  char version[32];
  char model[128];
  char engine[32];
  char note[192];              /* what the operator should know, empty: nothing */
  uint64_t started_us, now_us; /* Unix */
  uint32_t context_tokens, slots;
  uint32_t running, waiting;
  bool is_preparing;                                            /* a preparation is being computed */
  bool prepares;                                                /* --prepare on */
  const char *policy;                                           /* static */
  const char *reuse;                                            /* static: "near", "exact", "off" */
  double foreground_seconds, speculative_seconds, save_seconds; /* engine time by its own clock */
  struct {
    uint64_t limit_bytes, used_bytes, reserved_bytes;
    uint64_t segments;
    bool is_degraded;
    char condition[160]; /* why, empty: healthy */
  } tier[TIER_COUNT];
  uint64_t ssd_written_today_bytes, ssd_writes_limit_bytes;
  uint64_t states_adopted, states_removed, states_rejected;
  uint64_t observations_dropped, history_dropped;
  char history_condition[160];
};

/* Names of tenants for the "tenants" part; name(ctx, index) is static text. */
struct tenant_names {
  const char *(*name)(const void *ctx, uint32_t tenant);
  const void *ctx;
  uint32_t count;
};

/* tenant UINT32_MAX: everything; else only what is that tenant's. NULL: out of memory. */
char *report_status(const struct plan *plan, const struct machine *machine, uint32_t tenant);
char *report_ledger(const struct plan *plan, const struct tenant_names *names, uint32_t tenant);
char *report_tasks(const struct plan *plan, const struct tenant_names *names, uint32_t tenant);
/* NULL also where the task is not there or another tenant's: *ret_status says which. */
char *report_task(const struct plan *plan, const struct tenant_names *names, uint64_t id, uint32_t tenant,
                  enum status *ret_status);
char *report_prefixes(const struct plan *plan, const struct tenant_names *names, uint32_t tenant, uint64_t now_us);
char *report_budget(const struct plan *plan);
/* The JSON body of PUT budget over the budget in force; only names it knows, only numbers in range. */
MUST_USE enum status report_parse_budget(const char *body, size_t size, struct budget *budget, struct error *error);
/* Prometheus text of the ledger and the machine, appended. */
MUST_USE enum status report_metrics(const struct plan *plan, const struct machine *machine, struct buffer *text);

#endif
