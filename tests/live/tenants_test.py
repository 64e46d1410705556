"""Tenants never share: no words, no speed, no sight of each other's work. Canary words of one must not appear anywhere
the other can look."""

import os
import pathlib
import unittest

import live

CANARY = "zebrafinch-quartz-7741"


def headers(key):
    return {"Authorization": f"Bearer {key}"}


class Tenants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = live.Folder()
        data = cls.folder.__enter__()
        keys = pathlib.Path(data) / "keys"
        keys.write_text("alpha:key-of-alpha\nbeta:key-of-beta\nadmin:key-of-admin\n")
        os.chmod(keys, 0o600)
        cls.server = live.forelay(data, "--context", "2048", "--slots", "2", "--ram", "128MiB", "--ssd", "64MiB", "--api-keys", keys).start()

    @classmethod
    def tearDownClass(cls):
        try:
            cls.server.stop()
        finally:
            cls.server.kill()
            cls.folder.__exit__()

    def test_a_key_is_needed(self):
        self.assertEqual(self.server.call("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})[0], 401)
        self.assertEqual(self.server.call("GET", "/forelay/v1/status")[0], 401)
        self.assertEqual(self.server.call("GET", "/forelay/v1/status", headers=headers("key-of-gamma"))[0], 401)
        self.assertEqual(self.server.call("GET", "/health")[0], 200)

    def test_only_the_operator_operates(self):
        for key, expected in (("key-of-alpha", 403), ("key-of-admin", 200)):
            self.assertEqual(self.server.call("GET", "/metrics", headers=headers(key))[0], expected)
            self.assertEqual(self.server.call("PUT", "/forelay/v1/budget", {"idle_fraction_max": 1.0}, headers(key))[0], expected)

    def test_nothing_crosses(self):
        alpha, beta, admin = headers("key-of-alpha"), headers("key-of-beta"), headers("key-of-admin")
        prompt = f"The password is {CANARY}. " + live.text_of(self.server, 500, seed=1, headers=alpha)
        task = live.prepare(self.server, {"prompt": prompt}, alpha)
        live.wait_task(self.server, task, headers=alpha)
        prepared = live.complete(self.server, prompt, 8, alpha)
        self.assertGreaterEqual(prepared.cached, prepared.usage["prompt_tokens"] - 1)
        probe = live.complete(self.server, prompt, 1, beta)
        self.assertEqual(probe.cached, 0)
        print(f"prepared for its owner: {prepared.first_s * 1e3:.0f} ms; the same prompt of another tenant: {probe.first_s * 1e3:.0f} ms")
        self.assertGreater(probe.first_s, 3 * prepared.first_s)
        seen = [live.complete(self.server, "The password is", 24, beta).text]
        for path in ("status", "prefixes", "tasks", "states", "ledger", "budget"):
            code, _, text = self.server.call("GET", f"/forelay/v1/{path}", headers=beta)
            self.assertEqual(code, 200, path)
            seen.append(text)
        seen.append(self.server.call("GET", "/metrics", headers=admin)[2])
        self.assertFalse([text for text in seen if CANARY in text or "zebrafinch" in text])
        self.assertEqual(self.server.call("GET", f"/forelay/v1/tasks/{task}", headers=beta)[0], 404)
        self.assertEqual(self.server.call("DELETE", f"/forelay/v1/tasks/{task}", headers=beta)[0], 404)
        self.assertNotIn("alpha", "".join(seen[:7]))

    def test_a_readable_key_file_is_refused(self):
        with live.Folder() as data:
            keys = pathlib.Path(data) / "keys"
            keys.write_text("alpha:k\n")
            os.chmod(keys, 0o644)
            with self.assertRaisesRegex(RuntimeError, "keys"):
                live.forelay(data, "--api-keys", keys, ready_s=30).start()


if __name__ == "__main__":
    unittest.main(verbosity=2)
