#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 8192 };

struct arena_block {
  struct arena_block *next;
  size_t used, size;                /* of data, in bytes */
  alignas(max_align_t) char data[]; /* [size] */
};

void arena_init(struct arena *arena, size_t bytes_max) {
  *arena = (struct arena){.bytes_max = bytes_max};
}

void arena_release(struct arena *arena) {
  for (struct arena_block *block = arena->blocks, *next; block != NULL; block = next) {
    next = block->next;
    free(block);
  }
  arena_init(arena, arena->bytes_max);
}

static struct arena_block *add_block(struct arena *arena, size_t size) {
  struct arena_block *block = malloc(sizeof *block + size);
  if (block == NULL) return NULL;
  block->next = arena->blocks;
  block->used = 0;
  block->size = size;
  arena->blocks = block;
  return block;
}

void *arena_allocate(struct arena *arena, size_t size) {
  size_t left = arena->bytes_max - arena->bytes, step = alignof(max_align_t);
  if (size > left) return NULL;
  size_t rounded = (size > 0 ? size : 1) + step - 1;
  rounded -= rounded % step;
  if (rounded > left) return NULL;
#ifdef FORELAY_SANITIZED
  struct arena_block *block = add_block(arena, size); /* exactly, without the rounding */
  if (block == NULL) return NULL;
  arena->bytes += rounded;
  return block->data;
#else
  struct arena_block *block = arena->blocks;
  if (block == NULL || block->size - block->used < rounded)
    block = add_block(arena, rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES);
  if (block == NULL) return NULL;
  void *piece = block->data + block->used;
  block->used += rounded;
  arena->bytes += rounded;
  return piece;
#endif
}

char *arena_copy_text(struct arena *arena, const char *text, size_t size) {
  char *copy = size < (size_t)-1 ? arena_allocate(arena, size + 1) : NULL;
  if (copy == NULL) return NULL;
  if (size > 0) memcpy(copy, text, size);
  copy[size] = '\0';
  return copy;
}
