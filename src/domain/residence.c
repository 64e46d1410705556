#include "domain/residence.h"

#include <string.h>

static const char *const names[TIER_COUNT] = {"none", "device", "ram", "ssd", "remote"};

const char *tier_name(enum tier tier) {
  return (unsigned)tier < TIER_COUNT ? names[tier] : "unknown";
}

enum tier tier_of_name(const char *name) {
  int tier = 0;
  while (tier < TIER_COUNT && strcmp(names[tier], name) != 0) tier++;
  return (enum tier)tier;
}
