/* A test program whose memory can run out: malloc, calloc and realloc of the whole program fail while `scarce_after` is
 * 0, and count it down before. Include in one source of a test; without effect under sanitizers, which bring their own.
 */
#ifndef FORELAY_TESTS_SUPPORT_SCARCE_H
#define FORELAY_TESTS_SUPPORT_SCARCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static uint64_t scarce_after = UINT64_MAX; /* allocations until they fail; UINT64_MAX: never */

#ifndef FORELAY_SANITIZED
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static bool scarce_fails(void) {
  if (scarce_after == UINT64_MAX) return false;
  if (scarce_after == 0) return true;
  scarce_after--;
  return false;
}

void *malloc(size_t size) {
  return scarce_fails() ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
  return scarce_fails() ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
  return scarce_fails() ? NULL : __libc_realloc(old, size);
}
#endif

#endif
