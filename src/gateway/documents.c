#include "gateway/documents.h"

#include <assert.h>
#include <stdlib.h>

#include "base/map.h"
#include "gateway/token_hash.h"

/* One registration in order of age; several of one key may stand here, the youngest counts. */
struct registration {
  struct map_key key;
  uint64_t number; /* of the registration; the map holds the youngest number of its key */
};

struct documents {
  struct map *numbers;       /* key → number of its youngest registration */
  struct registration *ring; /* [count_max] */
  size_t count_max;
  size_t first;         /* oldest place in the ring */
  size_t used;          /* places in use */
  uint64_t next_number; /* > 0 */
};

enum status documents_create(size_t count_max, struct documents **ret_documents) {
  assert(count_max >= 1);
  struct documents *documents = calloc(1, sizeof *documents);
  if (documents == NULL) return STATUS_NO_MEMORY;
  documents->count_max = count_max;
  documents->next_number = 1;
  documents->ring = calloc(count_max, sizeof *documents->ring);
  enum status status = documents->ring == NULL ? STATUS_NO_MEMORY : map_create(count_max, &documents->numbers);
  if (status != STATUS_OK) {
    documents_destroy(&documents);
    return status;
  }
  *ret_documents = documents;
  return STATUS_OK;
}

void documents_destroy(struct documents **documents) {
  if (documents == NULL || *documents == NULL) return;
  map_destroy(&(*documents)->numbers);
  free((*documents)->ring);
  free(*documents);
  *documents = NULL;
}

static void oldest_drop(struct documents *documents) {
  struct registration *oldest = &documents->ring[documents->first];
  uint64_t number = 0;
  if (map_get(documents->numbers, oldest->key, &number) && number == oldest->number) {
    (void)map_remove(documents->numbers, oldest->key, NULL);
  }
  documents->first = (documents->first + 1) % documents->count_max;
  documents->used--;
}

enum status documents_add(struct documents *documents, uint32_t tenant, const int32_t *tokens, uint32_t n_tokens) {
  assert(n_tokens >= 1);
  struct map_key key = token_hash_begin(tenant);
  for (uint32_t i = 0; i < n_tokens; i++) {
    key = token_hash_add(key, (uint32_t)tokens[i]);
  }
  if (documents->used == documents->count_max) oldest_drop(documents);
  enum status status = map_set(documents->numbers, key, documents->next_number);
  if (status != STATUS_OK) return status;
  size_t place = (documents->first + documents->used) % documents->count_max;
  documents->ring[place] = (struct registration){.key = key, .number = documents->next_number++};
  documents->used++;
  return STATUS_OK;
}

uint32_t documents_match(const struct documents *documents, uint32_t tenant, const int32_t *tokens, uint32_t n_tokens) {
  uint32_t longest = 0;
  if (map_count(documents->numbers) == 0) return 0;
  struct map_key key = token_hash_begin(tenant);
  for (uint32_t i = 0; i < n_tokens; i++) {
    key = token_hash_add(key, (uint32_t)tokens[i]);
    if (map_get(documents->numbers, key, NULL)) longest = i + 1;
  }
  return longest;
}

size_t documents_count(const struct documents *documents) {
  return map_count(documents->numbers);
}
