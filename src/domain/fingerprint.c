#include "domain/fingerprint.h"

#include <string.h>

bool fingerprint_is_compatible(const struct fingerprint *a, const struct fingerprint *b) {
  return memcmp(a->compat, b->compat, sizeof a->compat) == 0;
}

bool fingerprint_is_exact(const struct fingerprint *a, const struct fingerprint *b) {
  return fingerprint_is_compatible(a, b) && memcmp(a->exact, b->exact, sizeof a->exact) == 0;
}
