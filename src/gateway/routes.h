/* The routes that are not generation: models, properties, health, metrics, text tools, the admin interface. Each call
 * takes the exchange and ends it, now or when the answer is there. Loop thread. */
#ifndef FORELAY_GATEWAY_ROUTES_H
#define FORELAY_GATEWAY_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/router.h"

struct gateway;
struct http_exchange;

/* match->route is neither ROUTE_CHAT nor ROUTE_COMPLETION. is_operator: of the tenant that asks. */
void routes_serve(struct gateway *gateway, struct http_exchange *http, const struct route_match *match, uint32_t tenant,
                  bool is_operator);

#endif
