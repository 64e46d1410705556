#include "gateway/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS_MAX = 4096, KEYS_FILE_SIZE_MAX = 1 << 20 };

struct tenant_key {
  uint32_t tenant;
  uint8_t bytes[TENANT_KEY_SIZE_MAX]; /* the key, then zeros: compared whole, so time says nothing about a length */
};

struct tenants {
  bool has_keys;
  uint32_t n_tenants;
  uint32_t n_keys;
  char (*names)[TENANT_NAME_SIZE]; /* [n_tenants] */
  struct tenant_key *keys;         /* [n_keys] */
};

static bool tenant_name_is_valid(const char *name, size_t size) {
  if (size == 0 || size >= TENANT_NAME_SIZE) return false;
  for (size_t i = 0; i < size; i++) {
    char c = name[i];
    bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_word && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

static bool key_is_valid(const char *key, size_t size) {
  if (size == 0 || size > TENANT_KEY_SIZE_MAX) return false;
  for (size_t i = 0; i < size; i++) {
    if (key[i] <= ' ' || key[i] >= 0x7f) return false;
  }
  return true;
}

/* 0 where they are equal; the same work whatever they hold. */
static uint8_t key_difference(const uint8_t *a, const uint8_t *b) {
  volatile uint8_t difference = 0;
  for (size_t i = 0; i < TENANT_KEY_SIZE_MAX; i++) {
    difference = (uint8_t)(difference | (a[i] ^ b[i]));
  }
  return difference;
}

static enum status tenants_number(struct tenants *tenants, const char *name, size_t size, uint32_t *ret_tenant) {
  for (uint32_t i = 0; i < tenants->n_tenants; i++) {
    if (strlen(tenants->names[i]) == size && memcmp(tenants->names[i], name, size) == 0) {
      *ret_tenant = i;
      return STATUS_OK;
    }
  }
  if (tenants->n_tenants == TENANTS_MAX) return STATUS_FULL;
  char(*names)[TENANT_NAME_SIZE] = realloc(tenants->names, (tenants->n_tenants + 1) * sizeof *names);
  if (names == NULL) return STATUS_NO_MEMORY;
  tenants->names = names;
  memset(names[tenants->n_tenants], 0, sizeof names[0]);
  memcpy(names[tenants->n_tenants], name, size);
  *ret_tenant = tenants->n_tenants++;
  return STATUS_OK;
}

static enum status tenants_add_key(struct tenants *tenants, const char *key, size_t size, uint32_t tenant) {
  struct tenant_key row = {.tenant = tenant};
  memcpy(row.bytes, key, size);
  for (uint32_t i = 0; i < tenants->n_keys; i++) {
    if (key_difference(tenants->keys[i].bytes, row.bytes) == 0) {
      return tenants->keys[i].tenant == tenant ? STATUS_OK : STATUS_INVALID;
    }
  }
  if (tenants->n_keys == KEYS_MAX) return STATUS_FULL;
  struct tenant_key *keys = realloc(tenants->keys, (tenants->n_keys + 1) * sizeof *keys);
  if (keys == NULL) return STATUS_NO_MEMORY;
  tenants->keys = keys;
  keys[tenants->n_keys++] = row;
  return STATUS_OK;
}

static enum status tenants_add_line(struct tenants *tenants, const char *line, size_t size, unsigned number,
                                    const char *path, struct error *error) {
  while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\t' || line[size - 1] == '\r')) size--;
  if (size == 0 || line[0] == '#') return STATUS_OK;
  const char *colon = memchr(line, ':', size);
  if (colon == NULL) {
    return error_set(error, STATUS_INVALID, "%s line %u: no colon; write tenant:key", path, number);
  }
  size_t name_size = (size_t)(colon - line);
  if (!tenant_name_is_valid(line, name_size)) {
    return error_set(error, STATUS_INVALID, "%s line %u: a tenant's name is 1 to %d of A-Z a-z 0-9 . _ -", path, number,
                     TENANT_NAME_SIZE - 1);
  }
  size_t key_size = size - name_size - 1;
  if (!key_is_valid(colon + 1, key_size)) {
    return error_set(error, STATUS_INVALID, "%s line %u: a key is 1 to %d printable characters without spaces", path,
                     number, TENANT_KEY_SIZE_MAX);
  }
  uint32_t tenant = 0;
  enum status status = tenants_number(tenants, line, name_size, &tenant);
  if (status == STATUS_OK) status = tenants_add_key(tenants, colon + 1, key_size, tenant);
  if (status == STATUS_INVALID) {
    return error_set(error, status, "%s line %u: this key already names another tenant", path, number);
  }
  if (status != STATUS_OK) return error_set(error, status, "%s line %u: %s", path, number, status_name(status));
  return STATUS_OK;
}

static enum status tenants_read(struct tenants *tenants, const char *path, struct error *error) {
  enum status status = STATUS_OK;
  char *text = NULL;
  size_t size = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
  struct stat facts;
  if (fstat(fd, &facts) != 0) {
    status = error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
    goto out;
  }
  if (!S_ISREG(facts.st_mode) || facts.st_size > KEYS_FILE_SIZE_MAX) {
    status = error_set(error, STATUS_INVALID, "%s: not a file of at most %d bytes", path, KEYS_FILE_SIZE_MAX);
    goto out;
  }
  if ((facts.st_mode & 077) != 0) {
    status = error_set(error, STATUS_DENIED, "%s: others may read the keys (mode %03o); chmod 600 it", path,
                       (unsigned)(facts.st_mode & 0777));
    goto out;
  }
  text = malloc(KEYS_FILE_SIZE_MAX);
  if (text == NULL) {
    status = error_set(error, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    goto out;
  }
  while (size < KEYS_FILE_SIZE_MAX) {
    ssize_t n = read(fd, text + size, KEYS_FILE_SIZE_MAX - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status = error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
      goto out;
    }
    if (n == 0) break;
    size += (size_t)n;
  }
  unsigned number = 0;
  for (size_t at = 0; at < size && status == STATUS_OK;) {
    const char *end = memchr(text + at, '\n', size - at);
    size_t line_size = end == NULL ? size - at : (size_t)(end - (text + at));
    status = tenants_add_line(tenants, text + at, line_size, ++number, path, error);
    at += line_size + 1;
  }
  if (status == STATUS_OK && tenants->n_keys == 0) {
    status = error_set(error, STATUS_INVALID, "%s: no key in it; write lines of tenant:key", path);
  }
out:
  if (text != NULL) explicit_bzero(text, size);
  free(text);
  close(fd);
  return status;
}

enum status tenants_open(const char *path, struct tenants **ret_tenants, struct error *error) {
  struct tenants *tenants = calloc(1, sizeof *tenants);
  if (tenants == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the table of tenants");
  uint32_t tenant = 0;
  tenants->has_keys = path != NULL;
  enum status status =
      path != NULL ? tenants_read(tenants, path, error) : tenants_number(tenants, "default", 7, &tenant);
  if (status != STATUS_OK) {
    tenants_close(&tenants);
    return status;
  }
  *ret_tenants = tenants;
  return STATUS_OK;
}

void tenants_close(struct tenants **tenants) {
  if (tenants == NULL || *tenants == NULL) return;
  if ((*tenants)->keys != NULL) explicit_bzero((*tenants)->keys, (*tenants)->n_keys * sizeof *(*tenants)->keys);
  free((*tenants)->keys);
  free((*tenants)->names);
  free(*tenants);
  *tenants = NULL;
}

bool tenants_has_keys(const struct tenants *tenants) {
  return tenants->has_keys;
}

uint32_t tenants_count(const struct tenants *tenants) {
  return tenants->n_tenants;
}

const char *tenants_name(const struct tenants *tenants, uint32_t tenant) {
  return tenants->names[tenant];
}

bool tenants_is_operator(const struct tenants *tenants, uint32_t tenant) {
  return !tenants->has_keys || strcmp(tenants->names[tenant], "admin") == 0;
}

enum status tenants_find(const struct tenants *tenants, const char *authorization, uint32_t *ret_tenant) {
  if (!tenants->has_keys) {
    *ret_tenant = 0;
    return STATUS_OK;
  }
  static const char scheme[] = "Bearer ";
  if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0) return STATUS_DENIED;
  const char *key = authorization + sizeof scheme - 1;
  while (*key == ' ') key++;
  size_t size = strnlen(key, TENANT_KEY_SIZE_MAX + 1);
  while (size > 0 && key[size - 1] == ' ') size--;
  if (size == 0 || size > TENANT_KEY_SIZE_MAX) return STATUS_DENIED;
  uint8_t asked[TENANT_KEY_SIZE_MAX] = {0};
  memcpy(asked, key, size);
  enum status status = STATUS_DENIED;
  for (uint32_t i = 0; i < tenants->n_keys; i++) {
    if (key_difference(tenants->keys[i].bytes, asked) == 0) {
      *ret_tenant = tenants->keys[i].tenant;
      status = STATUS_OK;
    }
  }
  explicit_bzero(asked, sizeof asked);
  return status;
}
