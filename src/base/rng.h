/* A small seeded generator (xoshiro256**, Blackman and Vigna 2018; seeded by splitmix64): equal seeds, equal draws,
 * everywhere. Not for secrets. */
#ifndef FORELAY_BASE_RNG_H
#define FORELAY_BASE_RNG_H

#include <stdint.h>

struct rng {
  uint64_t state[4]; /* never all zero */
};

void rng_init(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* Uniform in [0, 1). */
double rng_uniform(struct rng *rng);
/* Uniform in 0 … bound − 1; bound ≥ 1. */
uint64_t rng_below(struct rng *rng, uint64_t bound);
/* Standard normal (polar method on our own log and square root). */
double rng_normal(struct rng *rng);

#endif
