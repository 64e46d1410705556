#!/usr/bin/env bash
# tools/check-layers: a small tree without fault passes; each kind of fault, planted alone, is found at its file and line.
set -uo pipefail
cd "$(dirname "$0")/../.."
checker=$PWD/tools/check-layers
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failures=0

clean_tree() {
  rm -rf "${place:?}/tree"
  mkdir -p "$place"/tree/{src/{base,domain,os,net,engine,history},tests/{base,support},fuzz,bench,tools,examples}
  cp tools/layers.txt "$place/tree/tools/"
  cd "$place/tree" || exit 70
  printf '#ifndef FORELAY_BASE_GRAIN_H\n#define FORELAY_BASE_GRAIN_H\n#include <stdint.h>\nuint32_t grain(void);\n#endif\n' >src/base/grain.h
  printf '#include "base/grain.h"\n#include <stdio.h>\nuint32_t grain(void) {\n  char text[8];\n  return (uint32_t)snprintf(text, sizeof text, "x");\n}\n' >src/base/grain.c
  printf '/* fopen( in a comment,\n   "../up.h" in another, */\nconst char *words(void);\nconst char *words(void) {\n  return "printf( strcpy( \\" FILE"; // stdout\n}\n' >src/domain/words.c
  printf '#include <pthread.h>\n#include <stdio.h>\n#include "base/grain.h"\nint threads(void);\n' >src/os/threads.c
  printf '#include <event2/event.h>\n#include <curl/curl.h>\n#include "os/x.h"\n' >src/net/wires.c
  printf '#include <llama.h>\n' >src/engine/llama.c
  printf '#include <chat.h>\n' >src/engine/llama_chat.cpp
  printf '#include <sqlite3.h>\n' >src/history/rows.c
  printf '#include "base/grain.h"\n#include "support/fake.h"\n' >tests/base/grain_test.c
  printf '// rooms: domain\n#include "base/grain.h"\n#include "domain/words.h"\n' >fuzz/words_fuzz.c
}

# expect NAME FILE:LINE FILE TEXT: TEXT (printf format) becomes FILE; the checker must fail and name FILE:LINE.
expect() {
  local name=$1 where=$2 file=$3 text=$4 said
  (clean_tree; mkdir -p "$(dirname "$file")"; printf "$text" >"$file")
  if said=$("$checker" --no-compile "$place/tree" 2>&1); then
    echo "FAIL $name: not found"; failures=$((failures + 1))
  elif [ "$(grep -cF "$where: " <<<"$said")" -ne 1 ] || [ "$(wc -l <<<"$said")" -ne 1 ]; then
    echo "FAIL $name: expected one line at $where, got:"; echo "$said"; failures=$((failures + 1))
  else echo "ok   $name"; fi
}

(clean_tree)
if "$checker" --no-compile "$place/tree"; then echo "ok   clean tree"; else echo "FAIL clean tree"; failures=$((failures + 1)); fi

expect "room not allowed" src/base/odd.c:1 src/base/odd.c '#include "domain/words.h"\n'
expect "room below" src/os/odd.c:2 src/os/odd.c 'int x;\n#include "net/loop.h"\n'
expect "test looks past its room" tests/base/odd_test.c:1 tests/base/odd_test.c '#include "os/file.h"\n'
expect "fuzz target looks past its rooms" fuzz/odd_fuzz.c:2 fuzz/odd_fuzz.c '// rooms: base\n#include "domain/words.h"\n'
expect "climbing include" src/os/odd.c:1 src/os/odd.c '#include "../base/grain.h"\n'
expect "bare include" src/os/odd.c:1 src/os/odd.c '#include "threads.h"\n'
expect "spaced include" src/os/odd.c:1 src/os/odd.c '  #  include  "threads.h"\n'
expect "unknown room included" src/os/odd.c:1 src/os/odd.c '#include "attic/x.h"\n'
expect "unknown room" src/attic/odd.c:1 src/attic/odd.c 'int x;\n'
expect "source too deep" src/os/deep/odd.c:1 src/os/deep/odd.c 'int x;\n'
for header in time.h sys/time.h pthread.h threads.h sys/socket.h fcntl.h unistd.h sys/stat.h math.h signal.h errno.h; do
  expect "<$header> in a pure room" src/base/odd.c:2 src/base/odd.c "int x;\n#include <$header>\n"
done
for word in 'FILE *f;' 'int f(void) { return printf("x"); }' 'void *f = fopen ("x", "r");' 'void *f = stderr;'; do
  expect "'$word' in a pure room" src/base/odd.c:1 src/base/odd.c "$word\n"
done
expect "io after a comment ends" src/base/odd.c:2 src/base/odd.c '/* a\n b */ int x = puts("y");\n'
expect "asking the world" src/base/odd.c:1 src/base/odd.c 'char *x = getenv("HOME");\n'
expect "llama.h elsewhere" src/engine/odd.c:1 src/engine/odd.c '#include <llama.h>\n'
expect "ggml elsewhere" src/os/odd.c:1 src/os/odd.c '#include <ggml-backend.h>\n'
expect "chat.h elsewhere" tests/base/odd_test.c:1 tests/base/odd_test.c '#include <chat.h>\n'
expect "libevent elsewhere" src/os/odd.c:1 src/os/odd.c '#include <event2/http.h>\n'
expect "SQLite elsewhere" src/os/odd.c:1 src/os/odd.c '#include <sqlite3.h>\n'
expect "curl elsewhere" src/engine/odd.c:1 src/engine/odd.c '#include <curl/curl.h>\n'
expect "OpenSSL elsewhere" src/net/odd.c:1 src/net/odd.c '#include <openssl/evp.h>\n'
expect "jansson elsewhere" tests/base/odd_test.c:1 tests/base/odd_test.c '#include <jansson.h>\n'
expect "YAML elsewhere" src/engine/odd.c:1 src/engine/odd.c '#include <libfyaml.h>\n'
expect "XXH3 elsewhere" src/engine/odd.c:1 src/engine/odd.c '#include <xxhash.h>\n'
expect "C++ elsewhere" src/os/odd.cpp:1 src/os/odd.cpp 'int x;\n'
for call in 'strcpy(a, b)' 'strcat (a, b)' 'sprintf(a, "x")' 'strtok(a, b)' 'gets(a)'; do
  expect "banned: $call" src/os/odd.c:3 src/os/odd.c "void f(void) {\n  int x;\n  $call;\n}\n"
done
expect "name taken" src/os/grain.c:1 src/os/grain.c 'int x;\n'
expect "name of no noun" src/os/util.c:1 src/os/util.c 'int x;\n'
expect "wrong guard" src/os/odd.h:2 src/os/odd.h '#ifndef ODD_H\n#define ODD_H\n#endif\n'
expect "unfinished mark" src/os/odd.c:2 src/os/odd.c "int x;\n/* TO""DO: more */\n"
expect "unfinished mark in a tool" tools/odd:1 tools/odd "# FIX""ME\n"
for area in src/os tests/base fuzz bench tools examples; do
  expect "801 lines in $area" "$area/long.c:801" "$area/long.c" "$(printf '\\n%.0s' {1..801})"
done
expect "rooms out of order" tools/layers.txt:1 tools/layers.txt "$(sed 's/^base .*/base pure : domain/; s/%/%%/g' tools/layers.txt)\n"
expect "pure room below a doing one" tools/layers.txt:1 tools/layers.txt "$(sed 's/%/%%/g' tools/layers.txt)\nlate pure : os\n"

# Headers compile alone.
(clean_tree; printf '#ifndef FORELAY_OS_ODD_H\n#define FORELAY_OS_ODD_H\nuint32_t odd(void);\n#endif\n' >src/os/odd.h)
if said=$("$checker" "$place/tree" 2>&1); then echo "FAIL header that needs another first: not found"; failures=$((failures + 1))
elif grep -q 'src/os/odd.h:3:' <<<"$said"; then echo "ok   header that needs another first"
else echo "FAIL header that needs another first: $said"; failures=$((failures + 1)); fi

echo "$failures failures"
[ "$failures" -eq 0 ]
