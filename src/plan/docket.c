#include "plan/docket.h"

#include <stdlib.h>

#include "base/map.h"

struct docket {
  uint32_t requests_max, next;
  struct docket_entry *entries; /* [requests_max], a ring */
  struct map *index;            /* request → place */
};

enum status docket_create(uint32_t requests_max, struct docket **ret_docket) {
  struct docket *docket = calloc(1, sizeof *docket);
  if (!docket) return STATUS_NO_MEMORY;
  docket->requests_max = requests_max;
  docket->entries = calloc(requests_max, sizeof *docket->entries);
  enum status status = docket->entries ? map_create(requests_max, &docket->index) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) {
    docket_destroy(&docket);
    return status;
  }
  *ret_docket = docket;
  return STATUS_OK;
}

void docket_destroy(struct docket **docket) {
  if (!*docket) return;
  free((*docket)->entries);
  if ((*docket)->index) map_destroy(&(*docket)->index);
  free(*docket);
  *docket = NULL;
}

bool docket_take(struct docket *docket, uint64_t request, struct docket_entry *ret_entry) {
  uint64_t place;
  if (!request || !map_remove(docket->index, map_key_of(request), &place)) return false;
  *ret_entry = docket->entries[place];
  docket->entries[place] = (struct docket_entry){0};
  return true;
}

enum status docket_add(struct docket *docket, const struct docket_entry *entry, uint64_t *pushed_out) {
  struct docket_entry before;
  (void)docket_take(docket, entry->request, &before);
  uint64_t oldest = docket->entries[docket->next].request;
  if (oldest) (void)docket_take(docket, oldest, &before);
  enum status status = map_set(docket->index, map_key_of(entry->request), docket->next);
  if (status != STATUS_OK) return status;
  docket->entries[docket->next] = *entry;
  docket->next = (docket->next + 1) % docket->requests_max;
  *pushed_out = oldest;
  return STATUS_OK;
}
