#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

struct entry {
  double priority;
  uint32_t id;
};

struct heap {
  struct entry *entries; /* [count] in heap order */
  size_t count, capacity;
  uint32_t *places; /* [ids]: index in entries + 1, 0: absent */
  size_t ids;
};

enum status heap_create(struct heap **ret_heap) {
  struct heap *heap = calloc(1, sizeof *heap);
  if (heap == NULL) return STATUS_NO_MEMORY;
  *ret_heap = heap;
  return STATUS_OK;
}

void heap_destroy(struct heap **heap) {
  if (*heap == NULL) return;
  free((*heap)->entries);
  free((*heap)->places);
  free(*heap);
  *heap = NULL;
}

static bool goes_before(const struct entry *a, const struct entry *b) {
  return a->priority < b->priority || (a->priority == b->priority && a->id < b->id);
}

static void put(struct heap *heap, size_t at, struct entry entry) {
  heap->entries[at] = entry;
  heap->places[entry.id] = (uint32_t)at + 1;
}

static void sift_up(struct heap *heap, size_t at) {
  struct entry entry = heap->entries[at];
  while (at > 0 && goes_before(&entry, &heap->entries[(at - 1) / 2])) {
    put(heap, at, heap->entries[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  put(heap, at, entry);
}

static void sift_down(struct heap *heap, size_t at) {
  struct entry entry = heap->entries[at];
  for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
    if (child + 1 < heap->count && goes_before(&heap->entries[child + 1], &heap->entries[child])) child++;
    if (!goes_before(&heap->entries[child], &entry)) break;
    put(heap, at, heap->entries[child]);
  }
  put(heap, at, entry);
}

static enum status make_room(struct heap *heap, uint32_t id) {
  if (id >= heap->ids) {
    size_t ids = heap->ids < 64 ? 64 : heap->ids;
    while (ids <= id) ids *= 2;
    uint32_t *places = realloc(heap->places, ids * sizeof *places);
    if (places == NULL) return STATUS_NO_MEMORY;
    for (size_t i = heap->ids; i < ids; i++) places[i] = 0;
    heap->places = places;
    heap->ids = ids;
  }
  if (heap->count == heap->capacity) {
    size_t capacity = heap->capacity < 64 ? 64 : heap->capacity * 2;
    struct entry *entries = realloc(heap->entries, capacity * sizeof *entries);
    if (entries == NULL) return STATUS_NO_MEMORY;
    heap->entries = entries;
    heap->capacity = capacity;
  }
  return STATUS_OK;
}

enum status heap_set(struct heap *heap, uint32_t id, double priority) {
  assert(priority == priority);
  enum status status = make_room(heap, id);
  if (status != STATUS_OK) return status;
  size_t at = heap->places[id];
  if (at == 0) {
    at = ++heap->count;
    put(heap, at - 1, (struct entry){priority, id});
  }
  heap->entries[at - 1].priority = priority;
  sift_up(heap, at - 1);
  sift_down(heap, heap->places[id] - 1);
  return STATUS_OK;
}

void heap_remove(struct heap *heap, uint32_t id) {
  if (!heap_contains(heap, id)) return;
  size_t at = heap->places[id] - 1;
  heap->places[id] = 0;
  struct entry last = heap->entries[--heap->count];
  if (at == heap->count) return;
  put(heap, at, last);
  sift_up(heap, at);
  sift_down(heap, heap->places[last.id] - 1);
}

bool heap_contains(const struct heap *heap, uint32_t id) {
  return id < heap->ids && heap->places[id] != 0;
}

bool heap_peek(const struct heap *heap, uint32_t *ret_id, double *ret_priority) {
  if (heap->count == 0) return false;
  *ret_id = heap->entries[0].id;
  if (ret_priority != NULL) *ret_priority = heap->entries[0].priority;
  return true;
}

bool heap_pop(struct heap *heap, uint32_t *ret_id, double *ret_priority) {
  if (!heap_peek(heap, ret_id, ret_priority)) return false;
  heap_remove(heap, *ret_id);
  return true;
}

size_t heap_count(const struct heap *heap) {
  return heap->count;
}
