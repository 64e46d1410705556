#include "base/rng.h"

#include <assert.h>

#include "base/number.h"

static uint64_t rotate(uint64_t x, int by) {
  return (x << by) | (x >> (64 - by));
}

void rng_init(struct rng *rng, uint64_t seed) {
  for (int i = 0; i < 4; i++) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    rng->state[i] = z ^ (z >> 31);
  }
}

uint64_t rng_next(struct rng *rng) {
  uint64_t *s = rng->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate(s[3], 45);
  return result;
}

double rng_uniform(struct rng *rng) {
  return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t rng_below(struct rng *rng, uint64_t bound) {
  assert(bound > 0);
  uint64_t reject = (0 - bound) % bound, draw; /* the first `reject` values would favour small results */
  do draw = rng_next(rng);
  while (draw < reject);
  return draw % bound;
}

double rng_normal(struct rng *rng) {
  double x, y, square;
  do {
    x = 2 * rng_uniform(rng) - 1;
    y = 2 * rng_uniform(rng) - 1;
    square = x * x + y * y;
  } while (square >= 1 || square == 0);
  return x * number_sqrt(-2 * number_log(square) / square);
}
