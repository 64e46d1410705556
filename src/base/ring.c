#include "base/ring.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 64 }; /* producers and the consumer write to lines of their own */

/* A cell's turn says whose it is: equal to a position, a producer at that position may fill it; one more, the consumer
 * at that position may empty it. */
struct cell {
  atomic_size_t turn;
  unsigned char element[];
};

struct ring {
  _Alignas(LINE_BYTES) atomic_size_t push_at;
  _Alignas(LINE_BYTES) size_t pop_at; /* the consumer's */
  _Alignas(LINE_BYTES) size_t mask;   /* cells − 1 */
  size_t cell_bytes, element_bytes;
  unsigned char *cells;
};

static struct cell *cell_at(const struct ring *ring, size_t at) {
  return (struct cell *)(void *)(ring->cells + (at & ring->mask) * ring->cell_bytes);
}

enum status ring_create(size_t element_bytes, size_t count_max, struct ring **ret_ring) {
  size_t n = 2, step = sizeof(struct cell), cell_bytes = step + (element_bytes + step - 1) / step * step;
  while (n < count_max && n <= SIZE_MAX / 2) n *= 2;
  if (n < count_max || cell_bytes < element_bytes || n > SIZE_MAX / cell_bytes) return STATUS_NO_MEMORY;
  struct ring *ring = aligned_alloc(LINE_BYTES, sizeof *ring);
  unsigned char *cells = malloc(n * cell_bytes);
  if (ring == NULL || cells == NULL) {
    free(ring);
    free(cells);
    return STATUS_NO_MEMORY;
  }
  atomic_init(&ring->push_at, 0);
  ring->pop_at = 0;
  ring->mask = n - 1;
  ring->cell_bytes = cell_bytes;
  ring->element_bytes = element_bytes;
  ring->cells = cells;
  for (size_t i = 0; i < n; i++) atomic_init(&cell_at(ring, i)->turn, i);
  *ret_ring = ring;
  return STATUS_OK;
}

void ring_destroy(struct ring **ring) {
  if (*ring == NULL) return;
  free((*ring)->cells);
  free(*ring);
  *ring = NULL;
}

bool ring_push(struct ring *ring, const void *element) {
  size_t at = atomic_load_explicit(&ring->push_at, memory_order_relaxed);
  for (;;) {
    struct cell *cell = cell_at(ring, at);
    intptr_t ahead = (intptr_t)(atomic_load_explicit(&cell->turn, memory_order_acquire) - at);
    if (ahead < 0) return false; /* still full from one round ago */
    if (ahead > 0) {
      at = atomic_load_explicit(&ring->push_at, memory_order_relaxed);
    } else if (atomic_compare_exchange_weak_explicit(&ring->push_at, &at, at + 1, memory_order_relaxed,
                                                     memory_order_relaxed)) {
      memcpy(cell->element, element, ring->element_bytes);
      atomic_store_explicit(&cell->turn, at + 1, memory_order_release);
      return true;
    }
  }
}

bool ring_pop(struct ring *ring, void *ret_element) {
  size_t at = ring->pop_at;
  struct cell *cell = cell_at(ring, at);
  if (atomic_load_explicit(&cell->turn, memory_order_acquire) != at + 1) return false;
  memcpy(ret_element, cell->element, ring->element_bytes);
  atomic_store_explicit(&cell->turn, at + ring->mask + 1, memory_order_release);
  ring->pop_at = at + 1;
  return true;
}
