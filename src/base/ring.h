/* A bounded queue of elements of one size, without locks: any number of threads push, one thread pops (Vyukov's bounded
 * queue). Never waits and never wakes anybody: a sleeping consumer is its owner's affair. Copies elements. */
#ifndef FORELAY_BASE_RING_H
#define FORELAY_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct ring;

/* Holds count_max elements at least, the next power of two at most; element_bytes and count_max ≥ 1.
 * STATUS_NO_MEMORY. */
MUST_USE enum status ring_create(size_t element_bytes, size_t count_max, struct ring **ret_ring);
/* No other thread may use it any more. NULL is accepted; nulls the pointer. */
void ring_destroy(struct ring **ring);
/* false: full, nothing was copied. Elements of one thread come out in the order it pushed them. Any thread. */
bool ring_push(struct ring *ring, const void *element);
/* false: empty, or the next element is being copied in just now. The consuming thread only. */
bool ring_pop(struct ring *ring, void *ret_element);

#endif
