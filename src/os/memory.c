#include "os/memory.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first number of a file, 0 where there is none ("max", missing). */
static uint64_t number_in(const char *path) {
  char text[64] = "";
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
  fclose(file);
  return strtoull(text, NULL, 10);
}

uint64_t memory_total_bytes(void) {
  uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    uint64_t limit = number_in(limits[i]);
    if (limit > 0 && limit < total) total = limit;
  }
  return total;
}

uint64_t memory_resident_bytes(void) {
  unsigned long long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL) return 0;
  if (fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
  fclose(file);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Counts processors that are the first of their siblings. */
uint32_t memory_cores(void) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  uint32_t usable = 1, cores = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) usable = (uint32_t)CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (access(path, R_OK) != 0) return usable;
    if (number_in(path) == (uint64_t)cpu) cores++;
  }
  return cores > 0 ? cores : usable;
}
