/* A preparation and its record, from plan to end. Plain data; one function changes its state. Any thread. */
#ifndef FORELAY_DOMAIN_TASK_H
#define FORELAY_DOMAIN_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "domain/block.h"
#include "domain/residence.h"

enum kind {
  KIND_COMPLETE = 0, /* the same whole prompt comes again */
  KIND_SHARED,       /* many prompts pass this prefix */
  KIND_CONVERSATION, /* next turn of a session */
  KIND_DOCUMENT,     /* retrieved context after a given beginning */
  KIND_COUNT
};
const char *kind_name(enum kind kind);

enum task_state {
  TASK_PLANNED = 0,
  TASK_WAITING, /* handed to the executor, not begun */
  TASK_RUNNING,
  TASK_READY,   /* its state can serve requests */
  TASK_USED,    /* and has served one */
  TASK_EXPIRED, /* nobody asked within its life */
  TASK_EVICTED, /* displaced before anybody asked */
  TASK_CANCELLED,
  TASK_FAILED,
  TASK_WITHHELD, /* holdout: planned, deliberately not done */
  TASK_STATE_COUNT
};
const char *task_state_name(enum task_state state);
/* Whether the state machine has an arrow from → to. */
bool task_state_may_follow(enum task_state from, enum task_state to);

enum { TASK_REASON_SIZE = 160 };

struct task {
  uint64_t id;           /* > 0, never used again within one history */
  enum task_state state; /* changed by task_set_state only */
  enum kind kind;
  uint32_t tenant;          /* index of the tenant */
  bool is_order;            /* somebody asked for it: never withheld, never gated by value */
  enum tier tier;           /* where its state is to lie */
  block_key end_key;        /* last full block of the prefix; all zero when the prefix is shorter than a block */
  uint64_t material;        /* handle of the tokens (the daemon's), 0 where end_key names them */
  uint32_t tokens;          /* whole prefix */
  uint32_t tokens_done;     /* of those, ready (restored, found there or computed) */
  uint32_t tokens_new;      /* of those, expected to need computing when planned */
  uint32_t tokens_computed; /* computed by this task */
  uint32_t tokens_used;     /* computed by this task and asked for by a request since */
  double probability;       /* of an ask within its life, when planned */
  double predicted_seconds; /* expected benefit when planned, after the chance of being wrong */
  double cost_seconds;      /* expected engine seconds when planned */
  double spent_seconds;     /* engine seconds really spent */
  double realized_seconds;  /* signed, against the reactive shadow */
  uint64_t created_us, ready_us, ended_us; /* 0: not yet */
  uint64_t deadline_us;                    /* wanted by; 0: none */
  uint64_t expires_us;                     /* given up after; 0: when evicted */
  char reason[TASK_REASON_SIZE];           /* the numbers that led to it, or why it ended */
};

/* Moves the state along an arrow that exists (asserted) and stamps ready_us/ended_us. */
void task_set_state(struct task *task, enum task_state state, uint64_t now_us);

#endif
