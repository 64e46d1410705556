"""Plays a schedule of the support desk against an OpenAI-compatible server and times every first token.

One thread a visitor, as browsers would: a visitor's next page is opened when the schedule says so, but never before the
reply to the last question is there. Knows nothing of how a server works; servers without forelay's API are spared the
calls that tell what is coming.
"""

import http.client
import json
import math
import sys
import threading
import time

import workload

MODEL = "support-desk"
ANSWER_TOKENS = 10


class Server:
    """One endpoint. `tells`: it has forelay's API, so that open pages and deploys are told to it."""

    def __init__(self, port, tells):
        self.port, self.tells = port, tells

    def call(self, method, path, body=None, timeout_s=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, text
        finally:
            connection.close()

    def tell(self, path, body):
        if self.tells:
            status, text = self.call("POST", path, body)
            if status not in (200, 202, 429):
                raise RuntimeError(f"{path} answered {status}: {text[:200]}")

    def chat(self, messages, session, timeout_s=120):
        """Streams one answer; returns (seconds to the first token, text, usage)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        body = {"model": MODEL, "messages": messages, "stream": True, "stream_options": {"include_usage": True},
                "temperature": 0, "max_tokens": ANSWER_TOKENS}
        started, first, text, usage = time.monotonic(), None, [], {}
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json", "x-session-id": session})
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(f"chat answered {response.status}: {response.read(300)!r}")
            for line in response:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    raise RuntimeError(f"chat failed: {event['error']}")
                usage = event.get("usage") or usage
                for choice in event.get("choices", ()):
                    piece = choice.get("delta", {}).get("content")
                    if piece:
                        first = first or time.monotonic()
                        text.append(piece)
            return (first or time.monotonic()) - started, "".join(text), usage
        finally:
            connection.close()


class Progress:
    """A line that says how far the day is; silent when nobody looks."""

    def __init__(self, label, total, duration_s):
        self.label, self.total, self.duration_s = label, total, duration_s
        self.done, self.lock, self.started = 0, threading.Lock(), time.monotonic()
        self.shows = sys.stderr.isatty()

    def step(self):
        with self.lock:
            self.done += 1
            if self.shows:
                left = max(0, self.duration_s - (time.monotonic() - self.started))
                sys.stderr.write(f"\r{self.label}: {self.done}/{self.total} requests, about {left:.0f} s left   ")
                sys.stderr.flush()

    def end(self):
        if self.shows:
            sys.stderr.write("\r" + " " * 78 + "\r")


class Day:
    """One run of a schedule against one server."""

    def __init__(self, server, schedule, label):
        self.server, self.schedule = server, schedule
        self.progress = Progress(label, schedule.requests(), schedule.duration_s)
        self.lock, self.first_token_s, self.prompt_tokens, self.cached_tokens, self.errors = threading.Lock(), [], 0, 0, []

    def until(self, at_s):
        delay = self.started + at_s - time.monotonic()
        if delay > 0:
            time.sleep(delay)  # the schedule's own time, not a wait for the server

    def ask(self, messages, session):
        seconds, text, usage = self.server.chat(messages, session)
        with self.lock:
            self.first_token_s.append(seconds)
            self.prompt_tokens += usage.get("prompt_tokens", 0)
            self.cached_tokens += (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        self.progress.step()
        return text

    def system(self, assistant):
        deployed = assistant == "operations" and time.monotonic() - self.started >= self.schedule.deploy_s
        return {"role": "system", "content": workload.instructions(assistant, deployed)}

    def visitor(self, conversation):
        self.until(conversation.turns[0].opens_s)
        messages = [self.system(conversation.assistant)]
        for turn in conversation.turns:
            self.until(turn.opens_s)
            name, text = turn.document
            page = f"Page {name}:\n{text}"
            self.server.tell("/forelay/v1/documents", {"id": name, "before": messages, "text": page})
            opened = time.monotonic()
            time.sleep(turn.reads_s)  # reading the page
            if not turn.asks:
                return
            messages = messages + [{"role": "user", "content": f"{page}\n\n{turn.question}"}]
            messages.append({"role": "assistant", "content": self.ask(messages, conversation.name)})
            assert time.monotonic() >= opened

    def digest(self):
        text = (workload.HERE / "digest.txt").read_text(encoding="utf-8").strip()
        for at_s in self.schedule.digests_s:
            self.until(at_s)
            self.ask([{"role": "user", "content": text}], "digest")

    def deploy(self):
        self.until(self.schedule.deploy_told_s)
        head = {"role": "system", "content": workload.instructions("operations", True)}
        self.server.tell("/forelay/v1/prepare", {"messages": [head]})

    def guarded(self, work, *arguments):
        try:
            work(*arguments)
        except Exception as error:  # one visitor's failure is reported with the run, never lost in a thread
            with self.lock:
                self.errors.append(f"{type(error).__name__}: {error}")

    def run(self):
        self.started = time.monotonic()
        threads = [threading.Thread(target=self.guarded, args=(self.visitor, c)) for c in self.schedule.conversations]
        threads += [threading.Thread(target=self.guarded, args=(self.digest,)), threading.Thread(target=self.guarded, args=(self.deploy,))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.progress.end()
        if self.errors:
            raise RuntimeError(f"{len(self.errors)} visitors failed; the first: {self.errors[0]}")
        return self


def percentile(values, share):
    """Nearest-rank percentile of a non-empty list."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def first_token_ms(day):
    values = day.first_token_s
    result = {"p50": percentile(values, 0.50) * 1e3, "p95": percentile(values, 0.95) * 1e3}
    if len(values) >= 200:
        result["p99"] = percentile(values, 0.99) * 1e3
    return result
