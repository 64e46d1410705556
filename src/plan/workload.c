/* Baseline after workload-aware caching: requests fall into classes by kind and turn; each class returns with its own
 * probability after an exponential gap. The model ranks both what is retained and what is prefetched. */
#include <stdlib.h>

#include "plan/board.h"
#include "plan/ranking.h"

enum { CLASSES = 2 * KIND_COUNT, SESSIONS_MAX = 4096 };

static const double probability_min = .3;

struct workload_session {
  uint64_t session; /* 0: free */
  uint64_t ended_us;
  uint32_t class;
};

struct workload {
  double ended[CLASSES], returned[CLASSES], gap_s[CLASSES]; /* counts, and the sum of gaps */
  struct workload_session sessions[SESSIONS_MAX];           /* by hash: a newer one takes the place */
  uint32_t last_class; /* of the request that ended last: what is stored next is as a rule its state */
};

enum status workload_create(struct workload **ret_workload) {
  *ret_workload = calloc(1, sizeof **ret_workload);
  return *ret_workload ? STATUS_OK : STATUS_NO_MEMORY;
}

void workload_destroy(struct workload **workload) {
  free(*workload);
  *workload = NULL;
}

static uint32_t class_of(enum kind kind, uint32_t turn) {
  return (uint32_t)kind + (turn >= 2 ? KIND_COUNT : 0);
}

void workload_ask(struct plan *plan, const struct ask *ask) {
  if (!plan->workload || !ask->session) return;
  struct workload *workload = plan->workload;
  struct workload_session *session = &workload->sessions[map_key_of(ask->session).lo % SESSIONS_MAX];
  if (session->session != ask->session) return;
  workload->returned[session->class]++;
  workload->gap_s[session->class] += (double)(plan->now_us - session->ended_us) / 1e6;
  session->session = 0;
}

void workload_outcome(struct plan *plan, const struct docket_entry *entry, const struct outcome *outcome) {
  if (!plan->workload) return;
  struct workload *workload = plan->workload;
  (void)outcome;
  uint32_t class = class_of(entry->kind, entry->turn);
  workload->last_class = class;
  workload->ended[class]++;
  if (entry->session) {
    workload->sessions[map_key_of(entry->session).lo % SESSIONS_MAX] =
        (struct workload_session){.session = entry->session, .ended_us = plan->now_us, .class = class};
  }
}

uint32_t workload_class_of(const struct plan *plan, const struct held_segment *segment) {
  const struct task_record *record = segment ? taskbook_read(plan->taskbook, segment->task) : NULL;
  if (record) return class_of(record->task.kind, segment->turn);
  return plan->workload ? plan->workload->last_class : 0;
}

static double workload_score(struct plan *plan, uint32_t node, double *ret_probability) {
  const struct workload *workload = plan->workload;
  const struct forest_node *at = forest_at(plan->forest, node);
  uint32_t class = class_of(forest_kind(at), at->end_turn);
  double share = (workload->returned[class] + 1) / (workload->ended[class] + 2);
  double mean_s = (workload->gap_s[class] + 60) / (workload->returned[class] + 1);
  if (!plan->notes[node].session && at->gap_s > 0) { /* not a conversation: its own gaps say more */
    share = 1;
    mean_s = (double)at->gap_s;
  }
  double age_s = at->last_us ? (double)(plan->now_us - at->last_us) / 1e6 : 0;
  double horizon_s = plan->config.horizons_s[1];
  double probability = share * number_exp(-age_s / mean_s) * (1 - number_exp(-horizon_s / mean_s));
  *ret_probability = number_clamp(probability, 0, 1, 0);
  return *ret_probability >= probability_min ? *ret_probability : 0;
}

void workload_choose(struct plan *plan) {
  ranking_choose(plan, workload_score, "workload");
}
