/* Everything a running daemon is made of; what daemon.c composes and admin.c answers from. Internal to daemon/. */
#ifndef FORELAY_DAEMON_COMPOSITION_H
#define FORELAY_DAEMON_COMPOSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/settings.h"
#include "domain/fingerprint.h"
#include "gateway/backend.h"
#include "plan/plan.h"

struct chat;
struct depot;
struct engine;
struct executor;
struct gateway;
struct history;
struct http_server;
struct loop;
struct loop_timer;
struct loop_watch;
struct machine;
struct materials;
struct model;
struct observer;
struct planner;
struct reuse;
struct tenants;
struct worker;

struct composition {
  const struct settings *settings;
  int lock_fd, signal_fd; /* −1: none */
  uint8_t secret[32];     /* of this data folder: salts and the holdout's draw */
  uint8_t (*salts)[32];   /* [n_tenants] */
  uint32_t n_tenants;
  struct fingerprint fingerprint;
  uint64_t started_us;
  struct loop *loop;
  struct loop_watch *signals;
  struct loop_timer *beat; /* every second: load, snapshots, conditions */
  struct worker *worker;
  struct http_server *server;
  struct model *model;
  struct chat *chat; /* NULL: the model has no usable template */
  struct engine *engine;
  struct tenants *tenants;
  struct history *history;
  struct materials *materials;
  struct depot *depot;
  struct reuse *reuse;
  struct planner *planner;
  struct observer *observer;
  struct executor *executor;
  struct gateway *gateway;
  bool is_stopping;
  uint32_t beats;
  double idle_share;          /* of engine time, over the last minute */
  double busy_seconds_before; /* engine seconds at the last beat */
  uint64_t beat_us;
};

/* The gateway's backend over a composition. */
struct backend admin_backend(struct composition *composition);
/* What the loop thread knows of the machine, for reports. */
void admin_machine(const struct composition *composition, struct machine *ret_machine);

#endif
