#include "gateway/meter.h"

static const double bounds_s[METER_BOUNDS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

void meter_request(struct meter *meter, unsigned route, int http_status) {
  unsigned place = 0;
  while (place < METER_CODES && meter->codes[place] != 0 && meter->codes[place] != http_status) place++;
  if (place == METER_CODES) {
    meter->dropped++;
    return;
  }
  meter->codes[place] = (uint16_t)http_status;
  meter->requests[route <= ROUTES_COUNT ? route : ROUTES_COUNT][place]++;
}

static void histogram_add(struct histogram *histogram, uint64_t us) {
  double seconds = (double)us / 1e6;
  unsigned place = 0;
  while (place < METER_BOUNDS && seconds > bounds_s[place]) place++;
  histogram->counts[place]++;
  histogram->n++;
  histogram->sum_s += seconds;
}

void meter_first_token(struct meter *meter, uint64_t ttft_us) {
  histogram_add(&meter->first_token, ttft_us);
}

void meter_queue(struct meter *meter, uint64_t queue_us) {
  histogram_add(&meter->queue, queue_us);
}

static enum status histogram_print(const struct histogram *histogram, const char *name, const char *help,
                                   struct buffer *into) {
  uint64_t sum = 0;
  enum status status = buffer_append_format(into, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
  for (unsigned i = 0; i < METER_BOUNDS && status == STATUS_OK; i++) {
    sum += histogram->counts[i];
    status = buffer_append_format(into, "%s_bucket{le=\"%g\"} %llu\n", name, bounds_s[i], (unsigned long long)sum);
  }
  if (status != STATUS_OK) return status;
  return buffer_append_format(into, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", name,
                              (unsigned long long)histogram->n, name, histogram->sum_s, name,
                              (unsigned long long)histogram->n);
}

static enum status requests_print(const struct meter *meter, struct buffer *into) {
  enum status status = buffer_append_text(into, "# HELP forelay_requests_total HTTP requests that have ended, by route "
                                                "and status; 499: the client left.\n"
                                                "# TYPE forelay_requests_total counter\n");
  for (unsigned route = 0; route <= ROUTES_COUNT && status == STATUS_OK; route++) {
    for (unsigned place = 0; place < METER_CODES && status == STATUS_OK; place++) {
      if (meter->requests[route][place] == 0) continue;
      status = buffer_append_format(into, "forelay_requests_total{route=\"%s\",method=\"%s\",code=\"%u\"} %llu\n",
                                    route_label(route), route_method_label(route), (unsigned)meter->codes[place],
                                    (unsigned long long)meter->requests[route][place]);
    }
  }
  return status;
}

enum status meter_print(const struct meter *meter, uint64_t requests_alive, struct buffer *into) {
  enum status status = requests_print(meter, into);
  if (status == STATUS_OK) {
    status = histogram_print(&meter->first_token, "forelay_time_to_first_token_seconds",
                             "From acceptance of a request to its first token.", into);
  }
  if (status == STATUS_OK) {
    status = histogram_print(&meter->queue, "forelay_queue_seconds", "From submission to a free sequence.", into);
  }
  if (status != STATUS_OK) return status;
  return buffer_append_format(into,
                              "# HELP forelay_requests_in_flight Requests alive now.\n"
                              "# TYPE forelay_requests_in_flight gauge\nforelay_requests_in_flight %llu\n",
                              (unsigned long long)requests_alive);
}
