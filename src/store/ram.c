/* Segments in memory. Slabs are whole pages from the kernel, kept for reuse inside the cap (a fresh page costs more
 * than copying into it); they are read-only once visible. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"
#include "store/tier.h"

enum { ENTRY_OVERHEAD_BYTES = 256, POOL_MAX = 64 };

struct tier_ticket {
  void *memory;
  uint64_t size; /* of the slab, whole pages */
  block_key key;
  uint32_t pins;
};

struct ram {
  struct tier_store store;
  uint64_t limit_bytes;
  pthread_mutex_t mutex; /* guards all below */
  uint64_t live_bytes, reserved_bytes, pooled_bytes;
  struct map *objects; /* key → struct tier_ticket * */
  struct tier_ticket *pool[POOL_MAX];
  size_t n_pool;
};

static uint64_t ram_cost(const struct tier_store *store, uint64_t payload_bytes) {
  (void)store;
  return envelope_padded(payload_bytes) + ENTRY_OVERHEAD_BYTES;
}

static void free_slab(struct ram *ram, size_t at) {
  struct tier_ticket *slab = ram->pool[at];
  ram->pool[at] = ram->pool[--ram->n_pool];
  ram->pooled_bytes -= slab->size + ENTRY_OVERHEAD_BYTES;
  munmap(slab->memory, slab->size);
  free(slab);
}

static struct tier_ticket *take_pooled(struct ram *ram, uint64_t size) {
  for (size_t i = 0; i < ram->n_pool; i++) {
    if (ram->pool[i]->size != size) continue;
    struct tier_ticket *slab = ram->pool[i];
    ram->pool[i] = ram->pool[--ram->n_pool];
    ram->pooled_bytes -= size + ENTRY_OVERHEAD_BYTES;
    return slab;
  }
  return NULL;
}

static struct tier_ticket *new_slab(uint64_t size) {
  struct tier_ticket *slab = calloc(1, sizeof *slab);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (slab == NULL || memory == MAP_FAILED) {
    if (memory != MAP_FAILED) munmap(memory, size);
    free(slab);
    return NULL;
  }
  slab->memory = memory;
  slab->size = size;
  return slab;
}

static enum status ram_reserve(struct tier_store *store, uint64_t payload_bytes, struct tier_ticket **ret_ticket) {
  struct ram *ram = (struct ram *)store;
  uint64_t size = envelope_padded(payload_bytes), cost = ram_cost(store, payload_bytes);
  if (cost > ram->limit_bytes) return STATUS_TOO_LONG;
  pthread_mutex_lock(&ram->mutex);
  enum status status = ram->live_bytes + cost <= ram->limit_bytes ? STATUS_OK : STATUS_FULL;
  struct tier_ticket *slab = NULL;
  if (status == STATUS_OK && (slab = take_pooled(ram, size)) == NULL) {
    while (ram->n_pool > 0 && ram->live_bytes + ram->pooled_bytes + cost > ram->limit_bytes) free_slab(ram, 0);
    slab = new_slab(size);
    if (slab == NULL) status = STATUS_NO_MEMORY;
  }
  if (status == STATUS_OK) {
    ram->live_bytes += cost;
    ram->reserved_bytes += cost;
    *ret_ticket = slab;
  }
  pthread_mutex_unlock(&ram->mutex);
  return status;
}

/* Called with the mutex held. */
static void give_back(struct ram *ram, struct tier_ticket *slab) {
  uint64_t cost = slab->size + ENTRY_OVERHEAD_BYTES;
  ram->live_bytes -= cost;
  if (mprotect(slab->memory, slab->size, PROT_READ | PROT_WRITE) != 0) { /* could not be written to again */
    munmap(slab->memory, slab->size);
    free(slab);
    return;
  }
  if (ram->n_pool == POOL_MAX) free_slab(ram, 0);
  ram->pool[ram->n_pool++] = slab;
  ram->pooled_bytes += cost;
}

static enum status ram_write(struct tier_store *store, struct tier_ticket *ticket, const struct envelope *envelope,
                             const void *bytes) {
  (void)store;
  if (bytes != ticket->memory) memcpy(ticket->memory, bytes, envelope->payload_bytes);
  /* A slab that was used before must not carry old bytes into a file. */
  memset((char *)ticket->memory + envelope->payload_bytes, 0, ticket->size - envelope->payload_bytes);
  return STATUS_OK;
}

static enum status ram_commit(struct tier_store *store, struct tier_ticket *ticket, block_key key) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  ram->reserved_bytes -= ticket->size + ENTRY_OVERHEAD_BYTES;
  uint64_t known;
  enum status status =
      map_get(ram->objects, key, &known) ? STATUS_BUSY : map_set(ram->objects, key, (uint64_t)(uintptr_t)ticket);
  if (status == STATUS_OK) {
    ticket->key = key;
    ticket->pins = 0;
    (void)!mprotect(ticket->memory, ticket->size, PROT_READ);
  } else {
    give_back(ram, ticket);
  }
  pthread_mutex_unlock(&ram->mutex);
  return status;
}

static void ram_abort(struct tier_store *store, struct tier_ticket *ticket) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  ram->reserved_bytes -= ticket->size + ENTRY_OVERHEAD_BYTES;
  give_back(ram, ticket);
  pthread_mutex_unlock(&ram->mutex);
}

/* Called with the mutex held. */
static struct tier_ticket *object_of(struct ram *ram, block_key key) {
  uint64_t found;
  return map_get(ram->objects, key, &found) ? (struct tier_ticket *)(uintptr_t)found : NULL;
}

static enum status ram_read(struct tier_store *store, const struct envelope *expected, void *bytes) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  struct tier_ticket *object = object_of(ram, expected->key);
  if (object != NULL) memcpy(bytes, object->memory, envelope_padded(expected->payload_bytes));
  pthread_mutex_unlock(&ram->mutex);
  return object != NULL ? STATUS_OK : STATUS_NOT_FOUND;
}

static const void *ram_pin(struct tier_store *store, block_key key) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  struct tier_ticket *object = object_of(ram, key);
  if (object != NULL) object->pins++;
  pthread_mutex_unlock(&ram->mutex);
  return object != NULL ? object->memory : NULL;
}

static void ram_unpin(struct tier_store *store, block_key key) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  struct tier_ticket *object = object_of(ram, key);
  if (object != NULL && object->pins > 0) object->pins--;
  pthread_mutex_unlock(&ram->mutex);
}

static void *ram_memory(struct tier_ticket *ticket) {
  return ticket->memory;
}

static bool ram_has(struct tier_store *store, block_key key) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  bool has = object_of(ram, key) != NULL;
  pthread_mutex_unlock(&ram->mutex);
  return has;
}

static enum status ram_drop(struct tier_store *store, block_key key) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  struct tier_ticket *object = object_of(ram, key);
  enum status status = object == NULL ? STATUS_NOT_FOUND : object->pins > 0 ? STATUS_BUSY : STATUS_OK;
  if (status == STATUS_OK) {
    (void)map_remove(ram->objects, key, NULL);
    give_back(ram, object);
  }
  pthread_mutex_unlock(&ram->mutex);
  return status;
}

static void ram_usage(struct tier_store *store, struct tier_usage *ret_usage) {
  struct ram *ram = (struct ram *)store;
  pthread_mutex_lock(&ram->mutex);
  *ret_usage = (struct tier_usage){.limit_bytes = ram->limit_bytes,
                                   .used_bytes = ram->live_bytes,
                                   .reserved_bytes = ram->reserved_bytes,
                                   .objects = map_count(ram->objects)};
  pthread_mutex_unlock(&ram->mutex);
}

static void ram_close(struct tier_store *store) {
  struct ram *ram = (struct ram *)store;
  size_t cursor = 0;
  uint64_t value;
  while (ram->objects != NULL && map_next(ram->objects, &cursor, NULL, &value)) {
    struct tier_ticket *object = (struct tier_ticket *)(uintptr_t)value;
    munmap(object->memory, object->size);
    free(object);
  }
  while (ram->n_pool > 0) free_slab(ram, 0);
  map_destroy(&ram->objects);
  pthread_mutex_destroy(&ram->mutex);
  free(ram);
}

enum status ram_open(uint64_t limit_bytes, struct tier_store **ret_store) {
  static const struct tier_ops ops = {.name = "ram",
                                      .close = ram_close,
                                      .cost = ram_cost,
                                      .reserve = ram_reserve,
                                      .write = ram_write,
                                      .commit = ram_commit,
                                      .abort = ram_abort,
                                      .read = ram_read,
                                      .pin = ram_pin,
                                      .unpin = ram_unpin,
                                      .memory = ram_memory,
                                      .has = ram_has,
                                      .drop = ram_drop,
                                      .usage = ram_usage};
  struct ram *ram = calloc(1, sizeof *ram);
  if (ram == NULL || map_create(0, &ram->objects) != STATUS_OK) {
    free(ram);
    return STATUS_NO_MEMORY;
  }
  ram->store.ops = &ops;
  ram->limit_bytes = limit_bytes;
  pthread_mutex_init(&ram->mutex, NULL);
  *ret_store = &ram->store;
  return STATUS_OK;
}
