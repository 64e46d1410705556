/* Server-sent events of one request: pings, role, deltas, usage, end. Loop thread. */
#ifndef FORELAY_GATEWAY_STREAM_H
#define FORELAY_GATEWAY_STREAM_H

#include "engine/engine.h"
#include "gateway/request.h"

/* Sends the head. */
void stream_begin(struct request *request);
/* What a token brought. STATUS_CLOSED: the client is gone or takes too little; others: the answer cannot be told. */
MUST_USE enum status stream_token(struct request *request, const struct engine_token *token);
/* The run's answer is complete; deltas: a JSON array of what was not sent yet, empty for plain text. */
MUST_USE enum status stream_run_end(struct request *request, const struct buffer *deltas, enum stop_reason stop);
/* Usage where asked for, [DONE], end. */
void stream_end(struct request *request);
/* An error instead of the rest. */
void stream_fail(struct request *request, const struct api_error *error);

#endif
