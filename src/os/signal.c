#include "os/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum status signal_open(int *ret_fd, struct error *error) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  signal(SIGPIPE, SIG_IGN);
  if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) return error_set(error, STATUS_IO, "signals could not be blocked");
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return error_set(error, STATUS_IO, "signalfd: %s", strerror(errno));
  *ret_fd = fd;
  return STATUS_OK;
}

int signal_next(int fd) {
  struct signalfd_siginfo info;
  return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

void signal_close(int fd) {
  close(fd);
}
