#include "os/memory.h"

#include <limits.h>
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

/* The least limit of the control group `group` ("/a/b") and of those above it, under the mount; `least` where none is
 * lower. */
static uint64_t least_limit(const char *mount, const char *group, const char *file, uint64_t least) {
  char path[PATH_MAX];
  int prefix = snprintf(path, sizeof path, "%s", mount);
  for (size_t length = strlen(group);; length--) {
    if (length > 0 && group[length - 1] == '/') continue; /* "/a/" names what "/a" does */
    snprintf(path + prefix, sizeof path - (size_t)prefix, "%.*s/%s", (int)length, group, file);
    uint64_t limit = number_in(path);
    if (limit > 0 && limit < least) least = limit;
    while (length > 0 && group[length - 1] != '/') length--;
    if (length == 0) return least;
  }
}

/* /proc/self/cgroup has lines "0::/group" (version 2) and "4:memory:/group" (version 1). */
uint64_t memory_total_bytes(void) {
  uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  char line[PATH_MAX];
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return total;
  while (fgets(line, sizeof line, file) != NULL) {
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) continue;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0')
      total = least_limit("/sys/fs/cgroup", group, "memory.max", total);
    else if (strcmp(controllers + 1, "memory") == 0)
      total = least_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", total);
  }
  fclose(file);
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
