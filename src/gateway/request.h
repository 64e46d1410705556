/* The life of one chat or text completion: body to tokens on the worker, prompt by prompt through the engine, the
 * answer to the client, the account to the program around. One state machine; only request_set_state changes its state.
 * Loop thread. */
#ifndef FORELAY_GATEWAY_REQUEST_H
#define FORELAY_GATEWAY_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "domain/observation.h"
#include "engine/reuse.h"
#include "gateway/answer.h"
#include "gateway/intake.h"
#include "gateway/logprobs.h"
#include "gateway/router.h"
#include "gateway/visit.h"

struct loop_timer;

enum request_state {
  REQUEST_INTAKE = 0, /* the worker makes tokens of it */
  REQUEST_WAITING,    /* a prompt is in the engine's hands, or about to be; no token of its answer yet */
  REQUEST_ANSWERING,  /* tokens come */
  REQUEST_CANCELLING, /* the engine was asked to stop */
  REQUEST_SETTLING,   /* the client has its answer; the worker looks what the next turn will begin with */
  REQUEST_ENDED,
  REQUEST_STATE_COUNT
};

struct request {
  struct visit visit; /* first */
  enum request_state state;
  struct intake *intake;
  struct chat_parser *parser; /* NULL: the answer is plain text */
  /* What the client's headers say. */
  enum reuse_mode mode;
  bool may_learn, may_prepare;
  uint64_t session;
  /* The runs: every prompt n times, one after the other. */
  uint32_t n_runs, run;
  uint64_t number;       /* of the run, for the program around; 0: not told of it */
  struct reuse_job *job; /* NULL: none in the engine */
  uint64_t run_begin_us; /* monotonic */
  uint64_t run_first_us; /* first token; 0: none yet */
  struct reuse_prefill prefill;
  struct buffer text; /* of the run's answer so far */
  struct logprobs logprobs;
  struct outcome outcome; /* of the run */
  bool has_calls;         /* the answer calls tools */
  /* The reply. */
  struct answer_head head;
  struct answer_usage usage; /* over all runs */
  struct buffer reply;       /* a whole reply, choice by choice */
  struct buffer chunk;       /* scratch of one event */
  bool is_streaming;         /* the stream's head is out */
  bool has_role;             /* the run's first chunk is out */
  struct api_error failure;  /* why it is being cancelled; http_status 0: the client left */
  struct loop_timer *ping, *deadline;
};

/* Takes the exchange. target: ROUTE_CHAT or ROUTE_COMPLETION. */
void request_begin(struct gateway *gateway, struct http_exchange *http, const struct route *route, uint32_t tenant);
/* Whether the state machine has an arrow from → to. */
bool request_state_may_follow(enum request_state from, enum request_state to);
/* Gives up: the engine is told, a client still there gets `failure` (may be NULL: nobody is there). */
void request_cancel(struct request *request, const struct api_error *failure);

#endif
