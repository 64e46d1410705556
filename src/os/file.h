/* Files and folders with errors that name the path and what to do. Blocks on the disk. Any thread. */
#ifndef FORELAY_OS_FILE_H
#define FORELAY_OS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

/* The whole file appended to `into`. STATUS_NOT_FOUND, STATUS_TOO_LONG (past size_max or the buffer's limit),
 * STATUS_INVALID (no regular file), STATUS_IO. */
MUST_USE enum status file_read(const char *path, size_t size_max, struct buffer *into, struct error *error);
/* Replaces the file whole or not at all: temporary file beside it, fdatasync, rename, sync of the folder. Mode 0600. */
MUST_USE enum status file_write(const char *path, const void *data, size_t size, struct error *error);
/* Makes the folder and those above it, 0700. One that is there already stays as it is; STATUS_INVALID: no folder. */
MUST_USE enum status file_make_folder(const char *path, struct error *error);
/* Takes the lock file, so that no second process uses the folder it lies in. Kept until file_unlock or the process
 * ends. STATUS_BUSY: another process has it. */
MUST_USE enum status file_lock(const char *path, int *ret_fd, struct error *error);
void file_unlock(int fd);
/* Free bytes of the file system that `path` lies on, for unprivileged users. */
MUST_USE enum status file_free_bytes(const char *path, uint64_t *ret_bytes);

#endif
