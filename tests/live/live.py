"""What the live tests share: the program under test (first argument), a daemon on a fresh folder, timings, long prompts."""

import http.client
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import process  # noqa: E402

PROGRAM = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ROOT / "build" / "release" / "forelay").resolve()
WORDS = ("harbor lantern copper meadow signal winter paper engine garden silver river window market stone letter bridge "
         "candle forest mirror needle orange pocket quarter ribbon saddle timber violet wagon yellow anchor basket").split()


# Bars on time are for a machine of one's own; elsewhere FORELAY_SLACK (CI: 2.5) widens them. What was measured is printed.
SLACK = float(os.environ.get("FORELAY_SLACK") or ("2.5" if os.environ.get("CI") else "1"))


class Folder:
    """A data folder that goes when the test goes."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="forelay-live-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def forelay(data, *options, **more):
    return process.forelay(PROGRAM, data, *options, **more)


def text_of(server, n_tokens, seed=1, headers=None):
    """English-looking text of n_tokens tokens or one or two fewer, by the server's own tokenizer; distinct for seeds."""
    words, state = [], seed * 2654435761 % 4294967296
    while len(words) < n_tokens + 8:
        state = (state * 1664525 + 1013904223) % 4294967296
        words.append(WORDS[(state >> 16) % len(WORDS)])
    low, high = 1, len(words)
    while low < high:  # longest run of words that fits
        middle = (low + high + 1) // 2
        tokens = server.json("POST", "/tokenize", {"content": " ".join(words[:middle])}, headers)["tokens"]
        low, high = (middle, high) if len(tokens) <= n_tokens else (low, middle - 1)
    return " ".join(words[:low])


class Answer:
    """One streamed completion: when its first text came, what it said, what it reused."""

    def __init__(self, first_s, total_s, text, usage, finish):
        self.first_s, self.total_s, self.text, self.usage, self.finish = first_s, total_s, text, usage, finish
        self.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def stream(server, path, body, headers=None, timeout_s=180):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    started, first, text, usage, finish = time.monotonic(), None, [], {}, None
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{path} answered {response.status}: {response.read(400)!r}")
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(f"{path} failed: {event['error']}")
            usage = event.get("usage") or usage
            for choice in event.get("choices", ()):
                piece = choice.get("text") or choice.get("delta", {}).get("content")
                finish = choice.get("finish_reason") or finish
                if piece:
                    first = first or time.monotonic()
                    text.append(piece)
        now = time.monotonic()
        return Answer((first or now) - started, now - started, "".join(text), usage, finish)
    finally:
        connection.close()


def complete(server, prompt, max_tokens=8, headers=None, **fields):
    return stream(server, "/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **fields}, headers)


def chat(server, messages, max_tokens=8, headers=None, **fields):
    return stream(server, "/v1/chat/completions", {"messages": messages, "max_tokens": max_tokens, "temperature": 0, **fields}, headers)


def wait_task(server, task, states=("ready", "used"), timeout_s=120, headers=None):
    """Until the task is in one of the states; a failed one raises."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = server.json("GET", f"/forelay/v1/tasks/{task}", headers=headers)
        if found["state"] in states:
            return found
        if found["state"] in ("failed", "cancelled", "expired", "evicted") or time.monotonic() > deadline:
            raise RuntimeError(f"task {task} is {found['state']}: {found['reason']}")
        time.sleep(0.02)  # between two looks


def prepare(server, body, headers=None):
    return server.json("POST", "/forelay/v1/prepare", body, headers, expect=202)["id"]


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
