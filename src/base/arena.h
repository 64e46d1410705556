/* Memory that is given out piece by piece and dropped whole, one arena a request. Never gives a piece back by itself.
 * Under sanitizers every piece is plain malloc, so that a byte too far is seen. One thread at a time. */
#ifndef FORELAY_BASE_ARENA_H
#define FORELAY_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
  struct arena_block *blocks; /* newest first */
  size_t bytes;               /* given out, rounding included; ≤ bytes_max */
  size_t bytes_max;
};

/* In place; allocates nothing. */
void arena_init(struct arena *arena, size_t bytes_max);
/* All pieces are gone; the arena can be used again, with the same limit. */
void arena_release(struct arena *arena);
/* `size` bytes, uninitialised, aligned for every type; valid until arena_release. NULL: past bytes_max or no memory,
 * and nothing changed. size 0 gives a piece of its own. */
void *arena_allocate(struct arena *arena, size_t size);
/* A copy with a 0 behind it; NULL as above. `text` need not be terminated; it may be NULL where size is 0. */
char *arena_copy_text(struct arena *arena, const char *text, size_t size);

#endif
