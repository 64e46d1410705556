/* Where segments' bytes can lie: one face for every tier below the device. An object is one segment, named by its key;
 * its bytes are opaque. Hard caps: bytes are reserved before anything is written, and a reservation counts as used.
 *
 * reserve, abort, pin, unpin, has, drop, usage: any thread, never block on a disk (drop may unlink). write, commit,
 * read: block as the tier does; the caller chooses the thread. Each tier guards itself. */
#ifndef FORELAY_STORE_TIER_H
#define FORELAY_STORE_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "store/envelope.h"

struct tier_store;
struct tier_ticket; /* room reserved and not yet visible */

struct tier_usage {
  uint64_t limit_bytes, used_bytes, reserved_bytes; /* used includes reserved */
  uint64_t written_today_bytes;
  uint64_t objects;
  uint64_t read_bytes, read_us, write_bytes, write_us; /* since it was opened; 0 where nothing is measured */
  bool is_degraded;                                    /* refuses writes for now */
  char condition[160];                                 /* why; empty: healthy */
};

struct tier_ops {
  const char *name;
  void (*close)(struct tier_store *store);
  /* Bytes an object of so much payload takes, all overhead included. */
  uint64_t (*cost)(const struct tier_store *store, uint64_t payload_bytes);
  /* STATUS_FULL: past the cap or the day's writes; STATUS_TOO_LONG: never fits; STATUS_UNSUPPORTED: degraded. */
  enum status (*reserve)(struct tier_store *store, uint64_t payload_bytes, struct tier_ticket **ret_ticket);
  /* The whole padded payload. RAM: `bytes` may be the ticket's own memory. */
  enum status (*write)(struct tier_store *store, struct tier_ticket *ticket, const struct envelope *envelope,
                       const void *bytes);
  /* Visible from now on, replacing an object of the same key; the ticket is gone, also on failure. */
  enum status (*commit)(struct tier_store *store, struct tier_ticket *ticket, block_key key);
  void (*abort)(struct tier_store *store, struct tier_ticket *ticket);
  /* The padded payload into bytes[padded], whole and checked against `expected` (fingerprint, salt, keys, range,
   * tokens). STATUS_NOT_FOUND, STATUS_CORRUPT, STATUS_INCOMPATIBLE; STATUS_IO: the disk refused; STATUS_BUSY: this
   * program has no memory or file descriptor to spare now, the object may be whole. */
  enum status (*read)(struct tier_store *store, const struct envelope *expected, void *bytes);
  /* A view without copy, until unpin; NULL where the tier has none. */
  const void *(*pin)(struct tier_store *store, block_key key);
  void (*unpin)(struct tier_store *store, block_key key);
  /* Memory of a ticket to write into, NULL where the tier has none. */
  void *(*memory)(struct tier_ticket *ticket);
  bool (*has)(struct tier_store *store, block_key key);
  /* STATUS_BUSY: pinned. */
  enum status (*drop)(struct tier_store *store, block_key key);
  void (*usage)(struct tier_store *store, struct tier_usage *ret_usage);
};

/* First member of every tier. */
struct tier_store {
  const struct tier_ops *ops;
};

MUST_USE enum status ram_open(uint64_t limit_bytes, struct tier_store **ret_store);

/* What a scan found, parents' files before their children's; its key names the file. true: adopt, it counts as used;
 * false: it is removed. */
typedef bool ssd_found(void *ctx, const struct envelope *envelope);

struct ssd_config {
  const char *folder; /* of states; made if need be, 0700; a link or one that others may write to is refused */
  uint64_t limit_bytes;
  uint64_t writes_bytes_per_day;
  uint64_t retry_us; /* how long a failing disk is left alone; 0: a minute */
};

/* Files of our name pattern that a scan removed, by reason. */
struct ssd_removed {
  uint64_t temporary; /* half written when the program ended */
  uint64_t broken;    /* no whole head, or another file's */
  uint64_t over_cap;
  uint64_t unwanted; /* found() said no */
};

/* Scans the folder (blocks): every file of our name pattern is offered to found() or removed; other files are left
 * alone and count as used. A folder that cannot be used, or that another program uses, gives a degraded tier, not a
 * failure. */
MUST_USE enum status ssd_open(const struct ssd_config *config, ssd_found *found, void *found_ctx,
                              struct ssd_removed *ret_removed, struct tier_store **ret_store);

#endif
