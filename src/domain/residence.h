/* Where state can lie. Plain data; any thread. */
#ifndef FORELAY_DOMAIN_RESIDENCE_H
#define FORELAY_DOMAIN_RESIDENCE_H

#include <stdint.h>

enum tier { TIER_NONE = 0, TIER_DEVICE, TIER_RAM, TIER_SSD, TIER_REMOTE, TIER_COUNT };

/* "none", "device", "ram", "ssd", "remote"; static storage. */
const char *tier_name(enum tier tier);
/* TIER_COUNT when the name is none of them. */
enum tier tier_of_name(const char *name);

#endif
