#include "daemon/materials.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

struct material {
  struct material *newer, *older; /* by use */
  uint64_t handle;
  struct map_key name; /* in `by_name` */
  uint32_t tenant, n;
  int32_t tokens[];
};

struct materials {
  struct map *by_handle, *by_name;
  struct material *newest, *oldest;
  uint64_t next_handle;
  size_t bytes, bytes_max;
};

static size_t cost_bytes(uint32_t n) {
  return sizeof(struct material) + (size_t)n * sizeof(int32_t) + 4 * sizeof(uint64_t) * 2;
}

/* The key, the length and the tenant in one: equal runs of one tenant meet. */
static struct map_key name_of(uint32_t tenant, block_key key, uint32_t n) {
  struct map_key mixed = map_key_of(((uint64_t)tenant << 32) | n);
  return (struct map_key){key.hi ^ mixed.hi, key.lo ^ mixed.lo};
}

static void unlink_material(struct materials *materials, struct material *material) {
  *(material->newer != NULL ? &material->newer->older : &materials->newest) = material->older;
  *(material->older != NULL ? &material->older->newer : &materials->oldest) = material->newer;
}

static void link_newest(struct materials *materials, struct material *material) {
  material->newer = NULL;
  material->older = materials->newest;
  *(materials->newest != NULL ? &materials->newest->newer : &materials->oldest) = material;
  materials->newest = material;
}

static void drop(struct materials *materials, struct material *material) {
  unlink_material(materials, material);
  map_remove(materials->by_handle, map_key_of(material->handle), NULL);
  map_remove(materials->by_name, material->name, NULL);
  materials->bytes -= cost_bytes(material->n);
  free(material);
}

enum status materials_create(size_t bytes_max, struct materials **ret_materials) {
  struct materials *materials = calloc(1, sizeof *materials);
  if (materials == NULL) return STATUS_NO_MEMORY;
  materials->bytes_max = bytes_max;
  materials->next_handle = 1;
  if (map_create(0, &materials->by_handle) != STATUS_OK || map_create(0, &materials->by_name) != STATUS_OK) {
    materials_destroy(&materials);
    return STATUS_NO_MEMORY;
  }
  *ret_materials = materials;
  return STATUS_OK;
}

void materials_destroy(struct materials **reference) {
  struct materials *materials = *reference;
  if (materials == NULL) return;
  while (materials->oldest != NULL) drop(materials, materials->oldest);
  map_destroy(&materials->by_handle);
  map_destroy(&materials->by_name);
  free(materials);
  *reference = NULL;
}

static struct material *find_named(struct materials *materials, struct map_key name, uint32_t tenant,
                                   const int32_t *tokens, uint32_t n) {
  uint64_t found;
  if (!map_get(materials->by_name, name, &found)) return NULL;
  struct material *material = (struct material *)(uintptr_t)found;
  bool is_same =
      material->tenant == tenant && material->n == n && memcmp(material->tokens, tokens, n * sizeof *tokens) == 0;
  return is_same ? material : NULL;
}

enum status materials_keep(struct materials *materials, uint32_t tenant, block_key key, const int32_t *tokens,
                           uint32_t n, uint64_t *ret_handle) {
  struct map_key name = name_of(tenant, key, n);
  struct material *material = find_named(materials, name, tenant, tokens, n);
  if (material != NULL) {
    unlink_material(materials, material);
    link_newest(materials, material);
    *ret_handle = material->handle;
    return STATUS_OK;
  }
  if (cost_bytes(n) > materials->bytes_max) return STATUS_TOO_LONG;
  while (materials->bytes + cost_bytes(n) > materials->bytes_max) drop(materials, materials->oldest);
  material = malloc(sizeof *material + (size_t)n * sizeof *tokens);
  if (material == NULL) return STATUS_NO_MEMORY;
  material->handle = materials->next_handle++;
  material->name = name;
  material->tenant = tenant;
  material->n = n;
  if (n > 0) memcpy(material->tokens, tokens, (size_t)n * sizeof *tokens);
  if (map_set(materials->by_handle, map_key_of(material->handle), (uint64_t)(uintptr_t)material) != STATUS_OK ||
      map_set(materials->by_name, name, (uint64_t)(uintptr_t)material) != STATUS_OK) {
    map_remove(materials->by_handle, map_key_of(material->handle), NULL);
    free(material);
    return STATUS_NO_MEMORY;
  }
  link_newest(materials, material);
  materials->bytes += cost_bytes(n);
  *ret_handle = material->handle;
  return STATUS_OK;
}

enum status materials_find(struct materials *materials, uint64_t handle, uint32_t *ret_tenant,
                           const int32_t **ret_tokens, uint32_t *ret_n) {
  uint64_t found;
  if (handle == 0 || !map_get(materials->by_handle, map_key_of(handle), &found)) return STATUS_NOT_FOUND;
  struct material *material = (struct material *)(uintptr_t)found;
  unlink_material(materials, material);
  link_newest(materials, material);
  *ret_tenant = material->tenant;
  *ret_tokens = material->tokens;
  *ret_n = material->n;
  return STATUS_OK;
}

size_t materials_bytes(const struct materials *materials) {
  return materials->bytes;
}
