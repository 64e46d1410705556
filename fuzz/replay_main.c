/* Runs a fuzz target over the files named as arguments: a corpus becomes a test that any compiler builds. Exit 1 on a
 * file that cannot be read, 2 when none was named; whatever a target finds wrong aborts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_BYTES_MAX = 16 << 20 };

/* The copy has exactly the size of the file, so that a sanitizer sees one byte too many. */
static int replay(const char *path) {
  FILE *file = fopen(path, "rb");
  uint8_t *read_into = malloc(FILE_BYTES_MAX), *exact = NULL;
  int result = 1;
  if (file == NULL || read_into == NULL) goto out;
  size_t size = fread(read_into, 1, FILE_BYTES_MAX, file);
  if (ferror(file) || (exact = malloc(size > 0 ? size : 1)) == NULL) goto out;
  for (size_t i = 0; i < size; i++) exact[i] = read_into[i];
  LLVMFuzzerTestOneInput(exact, size);
  result = 0;
out:
  if (result != 0) perror(path);
  if (file != NULL) fclose(file);
  free(read_into);
  free(exact);
  return result;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "%s: name the files of a corpus\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; i++)
    if (replay(argv[i]) != 0) return 1;
  printf("%d inputs\n", argc - 1);
  return 0;
}
