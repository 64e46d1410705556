#include "engine/pace.h"

#include "engine/split.h"

void pace_init(struct pace *pace) {
  *pace = (struct pace){{0}};
}

static uint32_t bucket_of(uint32_t depth) {
  uint32_t bucket = depth / PACE_BUCKET_TOKENS;

  return bucket < PACE_BUCKETS ? bucket : PACE_BUCKETS - 1;
}

void pace_record(struct pace *pace, uint32_t depth, uint32_t n, uint64_t us) {
  float *token_us = &pace->token_us[bucket_of(depth)];
  float sample;

  if (n < SPLIT_MICRO_BATCH_MIN || us == 0) {
    return;
  }
  sample = (float)us / (float)n;
  *token_us = *token_us > 0 ? *token_us + (sample - *token_us) / 4 : sample;
}

uint32_t pace_tokens(const struct pace *pace, uint32_t depth, uint64_t us) {
  uint32_t bucket = bucket_of(depth);
  float tokens;

  while (bucket > 0 && pace->token_us[bucket] <= 0) {
    bucket--;
  }
  if (pace->token_us[bucket] <= 0) {
    return PACE_START_TOKENS;
  }
  tokens = (float)us / pace->token_us[bucket];
  return tokens < 1 ? 1 : tokens > (float)UINT16_MAX ? UINT16_MAX : (uint32_t)tokens;
}
