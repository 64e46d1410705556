"""The OpenAI routes, their errors and their usage figures, on the real model."""

import contextlib
import json
import pathlib
import socket
import sqlite3
import unittest

import live


class Basics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = live.Folder()
        cls.server = live.forelay(cls.folder.__enter__(), "--context", "1024", "--slots", "2", "--ram", "64MiB", "--ssd", "0").start()

    @classmethod
    def tearDownClass(cls):
        try:
            code = cls.server.stop()
        finally:
            cls.server.kill()
            cls.folder.__exit__()
        assert code == 0, f"SIGTERM ended it with {code}"

    def error(self, path, body, status=400):
        code, _, text = self.server.call("POST", path, body)
        self.assertEqual(code, status, text)
        return json.loads(text)["error"]

    def test_models_and_health(self):
        self.assertEqual(self.server.call("GET", "/health")[0], 200)
        models = self.server.json("GET", "/v1/models")
        self.assertEqual(models["object"], "list")
        self.assertEqual(len(models["data"]), 1)

    def test_chat_counts_its_tokens(self):
        messages = [{"role": "user", "content": "Name three colours."}]
        answer = self.server.json("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 6, "temperature": 0})
        usage = answer["usage"]
        self.assertEqual(usage["prompt_tokens"] + usage["completion_tokens"], usage["total_tokens"])
        self.assertLessEqual(usage["completion_tokens"], 6)
        again = self.server.call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 6, "temperature": 0})
        cached = json.loads(again[2])["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached, usage["prompt_tokens"] - 1)
        self.assertEqual(int(again[1]["x-forelay-cached-tokens"]), cached)
        self.assertEqual(json.loads(again[2])["choices"][0]["message"]["content"], answer["choices"][0]["message"]["content"])

    def test_stream_equals_whole(self):
        body = {"prompt": "The sea is", "max_tokens": 12, "temperature": 0}
        whole = self.server.json("POST", "/v1/completions", body)["choices"][0]["text"]
        self.assertEqual(live.complete(self.server, "The sea is", 12).text, whole)

    def test_prompt_forms(self):
        tokens = self.server.json("POST", "/tokenize", {"content": "The sea is"})["tokens"]
        text = self.server.json("POST", "/detokenize", {"tokens": tokens})["content"]
        self.assertEqual(text, "The sea is")
        one = self.server.json("POST", "/v1/completions", {"prompt": tokens, "max_tokens": 4, "temperature": 0})
        two = self.server.json("POST", "/v1/completions", {"prompt": ["The sea is", "The sky is"], "max_tokens": 4, "temperature": 0})
        self.assertEqual(len(two["choices"]), 2)
        self.assertEqual(two["choices"][0]["text"], one["choices"][0]["text"])

    def test_stop_seed_and_bias(self):
        base = {"prompt": "1 2 3 4 5 6", "max_tokens": 16, "temperature": 0}
        text = self.server.json("POST", "/v1/completions", base)["choices"][0]["text"]
        stopped = self.server.json("POST", "/v1/completions", {**base, "stop": text[2:5]})["choices"][0]
        self.assertEqual((stopped["text"], stopped["finish_reason"]), (text[: text.index(text[2:5])], "stop"))
        draw = {"prompt": "Once", "max_tokens": 12, "temperature": 1.2, "seed": 7}
        texts = {self.server.json("POST", "/v1/completions", draw)["choices"][0]["text"] for _ in range(2)}
        self.assertEqual(len(texts), 1)

    def test_json_schema(self):
        schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"], "additionalProperties": False}
        answer = self.server.json("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "A colour as JSON."}], "max_tokens": 40, "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": schema}}})
        self.assertIn(json.loads(answer["choices"][0]["message"]["content"])["colour"], ("red", "blue"))

    def test_errors_name_the_field(self):
        messages = [{"role": "user", "content": "x"}]
        for field, value in (("temperature", "hot"), ("temperature", -1), ("top_p", 2), ("max_tokens", -4), ("stop", 5), ("n", 0),
                             ("stream", "yes"), ("logit_bias", []), ("modalities", ["audio"]), ("response_format", {"type": "yaml"})):
            error = self.error("/v1/chat/completions", {"messages": messages, field: value})
            self.assertEqual((error["param"] or "").split(".")[0], field, error)
            self.assertEqual(error["type"], "invalid_request_error")
        self.assertEqual(self.error("/v1/chat/completions", {})["param"], "messages")
        self.assertEqual(self.error("/v1/chat/completions", {"messages": []})["param"], "messages")
        self.assertIn("JSON", self.error("/v1/chat/completions", b"{nope")["message"])
        self.assertEqual(self.error("/v1/completions", {"prompt": "word " * 3000, "max_tokens": 4})["code"], "context_length_exceeded")
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
        self.assertEqual(self.error("/v1/chat/completions", {"messages": messages, "tools": tools})["param"], "tools")

    def test_routes_that_are_not_there(self):
        self.assertEqual(self.server.call("POST", "/v1/embeddings", {"input": "x"})[0], 501)
        self.assertEqual(self.server.call("GET", "/nowhere")[0], 404)
        self.assertEqual(self.server.call("GET", "/v1/chat/completions")[0], 405)

    def test_requests_that_leave_no_trace(self):
        before = self.server.json("GET", "/forelay/v1/states")
        prompt = live.text_of(self.server, 200, seed=90)
        for _ in range(2):
            self.assertEqual(live.complete(self.server, prompt, 2, {"x-forelay-store": "no"}).cached, 0)
        self.assertEqual(len(self.server.json("GET", "/forelay/v1/states")["states"]), len(before["states"]))

    def test_history_keeps_no_row_of_them(self):
        with live.Folder() as data:
            with live.forelay(data, "--context", "1024", "--slots", "1", "--ram", "64MiB", "--ssd", "0") as server:
                live.complete(server, "Nothing of this is kept.", 2, {"x-forelay-store": "no"})
                live.complete(server, "This one is kept.", 2)
            with contextlib.closing(sqlite3.connect(pathlib.Path(data) / "history.sqlite")) as history:
                rows = [history.execute(f"SELECT request FROM {table}").fetchall() for table in ("asks", "outcomes")]
            self.assertEqual(len(rows[0]), 1)
            self.assertEqual(rows[0], rows[1])

    def test_malformed_http_is_refused_and_harmless(self):
        for head in (b"GET /health HTTP/1.1\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                     b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as raw:
                raw.sendall(head)
                self.assertIn(b" 400 ", raw.recv(200).split(b"\r\n")[0] + b" ")
        self.assertEqual(self.server.call("GET", "/health")[0], 200)

    def test_ledger_equals_metrics(self):
        totals, metrics = self.server.books()
        for field in ("prompt_tokens", "computed_tokens", "prepared_tokens", "foreground_seconds", "speculative_seconds"):
            self.assertAlmostEqual(totals[field], metrics[f"forelay_{field}_total"], 5)
        self.assertLessEqual(totals["hit_tokens"], totals["prompt_tokens"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
