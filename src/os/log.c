#include "os/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ONCE_KEYS_MAX = 64, LINE_SIZE = 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static enum log_level level_max = LOG_INFO;
static const char *said[ONCE_KEYS_MAX];
static size_t n_said;

static const char *const names[] = {"error", "warning", "info", "debug"};

void log_set_level(enum log_level level) {
  pthread_mutex_lock(&mutex);
  level_max = level;
  pthread_mutex_unlock(&mutex);
}

bool log_level_of_name(const char *name, enum log_level *ret_level) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i], name) != 0) continue;
    *ret_level = (enum log_level)i;
    return true;
  }
  return false;
}

static void write_line(enum log_level level, const char *format, va_list arguments) PRINTF_LIKE(2, 0);

/* Line breaks in a message would forge further lines. */
static void write_line(enum log_level level, const char *format, va_list arguments) {
  char line[LINE_SIZE], stamp[32];
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  vsnprintf(line, sizeof line, format, arguments);
  for (char *at = line; *at != '\0'; at++)
    if ((unsigned char)*at < ' ') *at = ' ';
  fprintf(stderr, "%s.%03ldZ %s %s\n", stamp, now.tv_nsec / 1000000, names[level], line);
}

void log_line(enum log_level level, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&mutex);
  if (level <= level_max) write_line(level, format, arguments);
  pthread_mutex_unlock(&mutex);
  va_end(arguments);
}

/* true the first time; full of keys: always, a repeated line is better than a lost one. Called with the mutex held. */
static bool is_first(const char *key) {
  for (size_t i = 0; i < n_said; i++)
    if (strcmp(said[i], key) == 0) return false;
  if (n_said < ONCE_KEYS_MAX) said[n_said++] = key;
  return true;
}

void log_once(enum log_level level, const char *key, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&mutex);
  if (is_first(key) && level <= level_max) write_line(level, format, arguments);
  pthread_mutex_unlock(&mutex);
  va_end(arguments);
}
