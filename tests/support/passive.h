/* Tests share their cores: threads of ggml that wait must sleep, not spin. libgomp reads its setting when it is loaded,
 * so a test that was started without it starts itself again. Header only. */
#ifndef FORELAY_TESTS_SUPPORT_PASSIVE_H
#define FORELAY_TESTS_SUPPORT_PASSIVE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void passive_start(char **arguments) {
  if (getenv("OMP_WAIT_POLICY") != NULL) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", arguments);
  perror("starting again with OMP_WAIT_POLICY=passive");
}

#endif
