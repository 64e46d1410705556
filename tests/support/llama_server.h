/* The llama-server of the same build as a peer: started on a free port, asked by plain HTTP, ended at the end. Header
 * only; for cmocka tests, which fail where it is missing. */
#ifndef FORELAY_TESTS_SUPPORT_LLAMA_SERVER_H
#define FORELAY_TESTS_SUPPORT_LLAMA_SERVER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"

struct llama_server {
  pid_t pid;
  uint16_t port;
};

enum { LLAMA_SERVER_REPLY_BYTES_MAX = 8 << 20, LLAMA_SERVER_START_S = 120 };

static inline int llama_server_dial(uint16_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

static inline uint16_t llama_server_free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

static inline void llama_server_send(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
    assert_true(n > 0);
    bytes += n;
    size -= (size_t)n;
  }
}

/* One request, body NULL for GET. Returns the HTTP status, 0 where nobody listens; the reply's body replaces `reply`.
 */
static inline int llama_server_ask(const struct llama_server *server, const char *path, const char *body,
                                   struct buffer *reply) {
  char head[256];
  int fd = llama_server_dial(server->port), code = 0;
  if (fd < 0) return 0;
  snprintf(head, sizeof head,
           "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
           "Content-Length: %zu\r\n\r\n",
           body ? "POST" : "GET", path, body ? strlen(body) : 0);
  llama_server_send(fd, head, strlen(head));
  if (body) llama_server_send(fd, body, strlen(body));
  buffer_clear(reply);
  for (;;) {
    char bytes[4096];
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n <= 0) break;
    assert_int_equal(buffer_append(reply, bytes, (size_t)n), STATUS_OK);
  }
  close(fd);
  if (reply->size == 0) return 0;
  char *end = strstr((char *)reply->data, "\r\n\r\n");
  assert_non_null(end);
  assert_int_equal(sscanf((char *)reply->data, "HTTP/1.1 %d", &code), 1);
  buffer_consume(reply, (size_t)(end + 4 - (char *)reply->data));
  return code;
}

static inline void llama_server_exec(const char *deps, const char *model, uint16_t port, const char *template_path) {
  char program[512], libraries[512], port_text[8];
  snprintf(program, sizeof program, "%s/llama/bin/llama-server", deps);
  snprintf(libraries, sizeof libraries, "%s/llama/lib", deps);
  snprintf(port_text, sizeof port_text, "%u", port);
  const char *arguments[32] = {program, "-m",  model, "--host", "127.0.0.1", "--port", port_text,
                               "-c",    "512", "-np", "1",      "-t",        "1",      "--no-warmup"};
  if (template_path) arguments[14] = "--chat-template-file", arguments[15] = template_path;
  setenv("LD_LIBRARY_PATH", libraries, 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int fd = open("/dev/null", O_RDWR);
  dup2(fd, 0);
  dup2(fd, 1);
  dup2(fd, 2);
  union {
    const char **from;
    char **to;
  } list = {.from = arguments};
  execv(program, list.to);
  _exit(127);
}

/* Returns when it answers /health with 200. template_path NULL: the model's own. */
static inline struct llama_server llama_server_start(const char *deps, const char *model, const char *template_path) {
  struct llama_server server = {.port = llama_server_free_port()};
  struct buffer reply;
  server.pid = fork();
  assert_true(server.pid >= 0);
  if (server.pid == 0) llama_server_exec(deps, model, server.port, template_path);
  buffer_init(&reply, LLAMA_SERVER_REPLY_BYTES_MAX);
  time_t end = time(NULL) + LLAMA_SERVER_START_S;
  while (llama_server_ask(&server, "/health", NULL, &reply) != 200) {
    assert_int_equal(waitpid(server.pid, NULL, WNOHANG), 0); /* it has ended: is build/deps there? */
    assert_true(time(NULL) < end);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* between two questions; it tells nobody that it is up */
  }
  buffer_release(&reply);
  return server;
}

static inline void llama_server_stop(struct llama_server *server) {
  if (server->pid <= 0) return;
  kill(server->pid, SIGKILL);
  waitpid(server->pid, NULL, 0);
  server->pid = 0;
}

/* The JSON string behind "key": in a flat reply, decoded, appended to `text`. */
static inline void llama_server_text(const char *json, const char *key, struct buffer *text) {
  char name[64];
  snprintf(name, sizeof name, "\"%s\":\"", key);
  const char *at = strstr(json, name);
  assert_non_null(at);
  for (at += strlen(name); *at != '"'; at++) {
    assert_true(*at != 0);
    if (*at != '\\') {
      assert_int_equal(buffer_append(text, at, 1), STATUS_OK);
      continue;
    }
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    at++;
    const char *known = strchr(from, *at);
    if (known) {
      assert_int_equal(buffer_append(text, &to[known - from], 1), STATUS_OK);
      continue;
    }
    unsigned code;
    assert_int_equal(sscanf(at, "u%4x", &code), 1);
    assert_true(code < 0x80); /* nlohmann escapes control characters only */
    char byte = (char)code;
    assert_int_equal(buffer_append(text, &byte, 1), STATUS_OK);
    at += 4;
  }
}

#endif
