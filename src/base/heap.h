/* A binary min-heap of (priority, id) with O(log n) change and removal by id. Ties: lower id first, so order is the
 * same on every machine. Never calls back. One thread at a time. */
#ifndef FORELAY_BASE_HEAP_H
#define FORELAY_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct heap;

MUST_USE enum status heap_create(struct heap **ret_heap);
void heap_destroy(struct heap **heap);
/* Inserts id, or moves it to the new priority. priority must not be NaN (asserted). ids are small dense numbers: memory
 * grows with the largest one. */
MUST_USE enum status heap_set(struct heap *heap, uint32_t id, double priority);
/* Removes id if present. */
void heap_remove(struct heap *heap, uint32_t id);
bool heap_contains(const struct heap *heap, uint32_t id);
/* false when empty. ret_priority may be NULL. */
bool heap_peek(const struct heap *heap, uint32_t *ret_id, double *ret_priority);
bool heap_pop(struct heap *heap, uint32_t *ret_id, double *ret_priority);
size_t heap_count(const struct heap *heap);

#endif
