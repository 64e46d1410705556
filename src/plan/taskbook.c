#include "plan/taskbook.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum { PLACE_NONE = UINT32_MAX };

struct taskbook {
  uint32_t tasks_max, used;
  struct task_record *records; /* [tasks_max]; places below `used` are in use, all of them once it is full */
  struct map *index;           /* id → place */
  uint32_t newest, oldest;
  uint64_t next_id;
};

enum status taskbook_create(uint32_t tasks_max, uint64_t first_id, struct taskbook **ret_taskbook) {
  struct taskbook *taskbook = calloc(1, sizeof *taskbook);
  if (!taskbook) return STATUS_NO_MEMORY;
  taskbook->tasks_max = tasks_max;
  taskbook->next_id = first_id ? first_id : 1;
  taskbook->newest = taskbook->oldest = PLACE_NONE;
  taskbook->records = calloc(tasks_max, sizeof *taskbook->records);
  enum status status = taskbook->records ? map_create(tasks_max, &taskbook->index) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) {
    taskbook_destroy(&taskbook);
    return status;
  }
  *ret_taskbook = taskbook;
  return STATUS_OK;
}

void taskbook_destroy(struct taskbook **taskbook) {
  if (!*taskbook) return;
  struct taskbook *gone = *taskbook;
  for (uint32_t i = 0; i < gone->used; i++) free(gone->records[i].keys);
  free(gone->records);
  if (gone->index) map_destroy(&gone->index);
  free(gone);
  *taskbook = NULL;
}

bool task_record_has_ended(const struct task_record *record) {
  return record->task.state >= TASK_USED;
}

/* Takes a record out of the list by number. */
static void record_unlink(struct taskbook *taskbook, struct task_record *record) {
  *(record->newer == PLACE_NONE ? &taskbook->newest : &taskbook->records[record->newer].older) = record->older;
  *(record->older == PLACE_NONE ? &taskbook->oldest : &taskbook->records[record->older].newer) = record->newer;
}

/* A free place, or that of the oldest record that has ended; PLACE_NONE when all are open. */
static uint32_t place_take(struct taskbook *taskbook) {
  if (taskbook->used < taskbook->tasks_max) return taskbook->used++;
  for (uint32_t i = taskbook->oldest; i != PLACE_NONE; i = taskbook->records[i].newer) {
    struct task_record *record = &taskbook->records[i];
    if (!task_record_has_ended(record)) continue;
    record_unlink(taskbook, record);
    map_remove(taskbook->index, map_key_of(record->task.id), NULL);
    free(record->keys);
    record->keys = NULL;
    return i;
  }
  return PLACE_NONE;
}

enum status taskbook_add(struct taskbook *taskbook, const block_key *keys, uint32_t n, uint64_t now_us,
                         struct task_record **ret_record) {
  block_key *copy = NULL;
  if (n) {
    copy = malloc((size_t)n * sizeof *copy);
    if (!copy) return STATUS_NO_MEMORY;
    memcpy(copy, keys, (size_t)n * sizeof *copy);
  }
  uint32_t place = place_take(taskbook);
  if (place == PLACE_NONE) {
    free(copy);
    return STATUS_FULL;
  }
  struct task_record *record = &taskbook->records[place];
  *record = (struct task_record){
      .task = {.id = taskbook->next_id++, .state = TASK_PLANNED, .created_us = now_us},
      .keys = copy,
      .n_blocks = n,
      .older = taskbook->newest,
      .newer = PLACE_NONE,
  };
  if (n) record->task.end_key = keys[n - 1];
  enum status status = map_set(taskbook->index, map_key_of(record->task.id), place);
  if (status != STATUS_OK) { /* the place stays in the list as a cancelled record, so that it can be taken again */
    record->task.state = TASK_CANCELLED;
  }
  *(taskbook->newest == PLACE_NONE ? &taskbook->oldest : &taskbook->records[taskbook->newest].newer) = place;
  taskbook->newest = place;
  if (status != STATUS_OK) return status;
  *ret_record = record;
  return STATUS_OK;
}

uint32_t taskbook_place(const struct taskbook *taskbook, const struct task_record *record) {
  return (uint32_t)(record - taskbook->records);
}

struct task_record *taskbook_at(struct taskbook *taskbook, uint32_t place) {
  return &taskbook->records[place];
}

struct task_record *taskbook_find(struct taskbook *taskbook, uint64_t id) {
  uint64_t place;
  return id && map_get(taskbook->index, map_key_of(id), &place) ? &taskbook->records[place] : NULL;
}

const struct task_record *taskbook_read(const struct taskbook *taskbook, uint64_t id) {
  uint64_t place;
  return id && map_get(taskbook->index, map_key_of(id), &place) ? &taskbook->records[place] : NULL;
}

const struct task_record *taskbook_older(const struct taskbook *taskbook, const struct task_record *record) {
  uint32_t place = record ? record->older : taskbook->newest;
  return place == PLACE_NONE ? NULL : &taskbook->records[place];
}

uint64_t taskbook_next_id(const struct taskbook *taskbook) {
  return taskbook->next_id;
}

void taskbook_skip(struct taskbook *taskbook, uint64_t id) {
  if (id > taskbook->next_id) taskbook->next_id = id;
}
