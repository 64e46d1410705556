#include "net/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 30000, CONNECT_TIMEOUT_MS = 5000, KEY_HEADER_SIZE = 512 };

static size_t take(char *data, size_t size, size_t n, void *ctx) {
  return buffer_append(ctx, data, size * n) == STATUS_OK ? size * n : 0;
}

static enum status explain(CURLcode code, const char *url, struct error *error) {
  switch (code) {
  case CURLE_OK:
    return STATUS_OK;
  case CURLE_COULDNT_CONNECT:
  case CURLE_COULDNT_RESOLVE_HOST:
    return error_set(error, STATUS_CLOSED,
                     "nobody answers at %s: is `forelay serve` running? (--url for another place)", url);
  case CURLE_OPERATION_TIMEDOUT:
    return error_set(error, STATUS_TIMEOUT, "%s did not answer in time", url);
  case CURLE_WRITE_ERROR:
    return error_set(error, STATUS_TOO_LONG, "the answer of %s is too large", url);
  case CURLE_URL_MALFORMAT:
  case CURLE_UNSUPPORTED_PROTOCOL:
    return error_set(error, STATUS_INVALID, "'%s' is not a URL like http://127.0.0.1:8080", url);
  default:
    return error_set(error, STATUS_IO, "%s: %s", url, curl_easy_strerror(code));
  }
}

enum status http_client_call(const struct http_call *call, int *ret_status, struct buffer *into, struct error *error) {
  CURL *curl = curl_easy_init();
  struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
  char key[KEY_HEADER_SIZE];
  if (call->bearer != NULL) {
    snprintf(key, sizeof key, "Authorization: Bearer %s", call->bearer);
    struct curl_slist *more = curl_slist_append(headers, key);
    if (more != NULL) headers = more;
  }
  if (curl == NULL || headers == NULL) {
    curl_slist_free_all(headers);
    if (curl != NULL) curl_easy_cleanup(curl);
    return error_set(error, STATUS_NO_MEMORY, "out of memory");
  }
  curl_easy_setopt(curl, CURLOPT_URL, call->url);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
  if (call->body != NULL) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, into);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(call->timeout_ms > 0 ? call->timeout_ms : TIMEOUT_MS));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  enum status status = explain(curl_easy_perform(curl), call->url, error);
  long code = 0;
  if (status == STATUS_OK) {
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    *ret_status = (int)code;
  }
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  return status;
}
