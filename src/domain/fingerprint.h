/* What a KV state depends on. `compat` fields must be equal for any reuse; `exact` fields too, or the state serves
 * near reuse only. Plain data; the digests are computed where OpenSSL is (engine/). Any thread. */
#ifndef FORELAY_DOMAIN_FINGERPRINT_H
#define FORELAY_DOMAIN_FINGERPRINT_H

#include <stdbool.h>
#include <stdint.h>

/* Everything that changes KV bytes. Each field takes part in the compat digest, length-prefixed, in this order. */
struct fingerprint_compat {
  uint8_t weights[32]; /* SHA-256 of the model file's content */
  char architecture[32];
  uint8_t tokenizer[32];                /* SHA-256 of vocabulary, types, merges, special ids */
  uint8_t lora[32];                     /* SHA-256 over adapters' content and scales in order; zero for none */
  uint32_t n_layer, n_embd_k, n_embd_v; /* rows of a layer's K and V, in elements */
  float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  uint32_t yarn_orig_ctx;
  int32_t rope_type;
  int32_t type_k, type_v;  /* ggml types */
  int32_t flash_attention; /* 0 off (V across cells), 1 on */
  int32_t swa_full;
  int32_t attention_rotation;    /* 0 when LLAMA_ATTN_ROT_DISABLE is set */
  uint32_t layout_version;       /* of our segments */
  uint32_t engine_state_version; /* llama.cpp's sequence state version */
};

/* Everything that changes bits of results besides. */
struct fingerprint_exact {
  char cpu_features[128]; /* of the processor and the build */
  char engine_build[64];
  uint32_t threads;
  uint32_t micro_batch;
  uint32_t split_rule; /* version of the canonical split */
  uint32_t backend;    /* 0 CPU, else a number of the device kind */
};

struct fingerprint {
  uint8_t compat[32];
  uint8_t exact[32]; /* over compat and the exact fields */
};

bool fingerprint_is_compatible(const struct fingerprint *a, const struct fingerprint *b);
bool fingerprint_is_exact(const struct fingerprint *a, const struct fingerprint *b);

#endif
