"""Sixteen streams at once for a minute (FORELAY_SOAK_S), some abandoned half-way: nothing hangs, nothing is counted twice,
and the program ends cleanly. The sanitizer builds run this one too."""

import http.client
import json
import os
import random
import threading
import time
import unittest

import live

SECONDS = float(os.environ.get("FORELAY_SOAK_S", "60" if "FORELAY_SANITIZED_RUN" in os.environ else "20"))


class Soak(unittest.TestCase):
    def stream(self, server, prompts, seed):
        draw, ends = random.Random(seed), time.monotonic() + SECONDS
        try:
            while time.monotonic() < ends:
                prompt = draw.choice(prompts) + " " + str(draw.randrange(6))
                if draw.random() < 0.25:
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
                    body = {"prompt": prompt, "max_tokens": 64, "stream": True}
                    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                    connection.getresponse().read(draw.randrange(1, 200))
                    connection.close()
                else:
                    answer = live.complete(server, prompt, draw.randrange(1, 12))
                    self.assertLessEqual(answer.cached, answer.usage["prompt_tokens"])
                with self.lock:
                    self.answers += 1
        except Exception as error:  # shown by the test, not lost with the thread
            with self.lock:
                self.errors.append(f"{type(error).__name__}: {error}")

    def test_sixteen_streams(self):
        self.lock, self.answers, self.errors = threading.Lock(), 0, []
        with live.Folder() as data, live.forelay(data, "--context", "1024", "--slots", "4", "--ram", "32MiB", "--ssd", "32MiB", ready_s=300) as server:
            prompts = [live.text_of(server, 60 + 30 * seed, seed=seed) for seed in range(8)]
            threads = [threading.Thread(target=self.stream, args=(server, prompts, seed)) for seed in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertFalse(self.errors, self.errors[:3])
            totals = server.json("GET", "/forelay/v1/ledger")["totals"]
            self.assertLessEqual(totals["hit_tokens"], totals["prompt_tokens"])
            print(f"{self.answers} answers in {SECONDS:.0f} s")
            self.assertEqual(server.stop(60), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
