"""A short question beside a long prompt, and after one that was abandoned; the same-build llama-server in the same run
for comparison."""

import http.client
import json
import threading
import time
import unittest

import live
from live import process


def short_beside_long(server, long_prompt, short_prompt):
    """First token of a short request that starts one second behind a long one."""
    thread = threading.Thread(target=live.complete, args=(server, long_prompt, 1))
    thread.start()
    time.sleep(1)  # the scenario: one second behind
    waited = live.complete(server, short_prompt, 1).first_s
    thread.join()
    return waited


def short_after_abandoned(server, long_prompt, short_prompt):
    """First token of a short request right after a client gave up a long prefill at two seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = {"prompt": long_prompt, "max_tokens": 1, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    time.sleep(2)  # the scenario: given up after two seconds
    connection.close()
    return live.complete(server, short_prompt, 1).first_s


class Fairness(unittest.TestCase):
    def measure(self, server, seed):
        long_prompt, short_prompt = live.text_of(server, 4800, seed=seed), live.text_of(server, 40, seed=seed + 1)
        beside = short_beside_long(server, long_prompt, short_prompt)
        after = short_after_abandoned(server, live.text_of(server, 4800, seed=seed + 2), live.text_of(server, 40, seed=seed + 3))
        return beside, after

    def test_short_requests_do_not_wait_for_long_ones(self):
        with live.Folder() as data, live.forelay(data, "--context", "8192", "--slots", "3", "--ram", "256MiB", "--ssd", "0") as server:
            beside, after = self.measure(server, 10)
        with process.llama_server("-c", "32768", "-np", "4", "-t", "2") as peer:
            peer_beside, peer_after = self.measure(peer, 10)
        print(f"one second behind a 4,800-token prefill: {beside:.2f} s (llama-server {peer_beside:.1f} s)")
        print(f"after an abandoned prefill: {after:.2f} s (llama-server {peer_after:.1f} s)")
        self.assertLessEqual(beside, 0.5 * live.SLACK)
        self.assertLessEqual(after, 0.3 * live.SLACK)


if __name__ == "__main__":
    unittest.main(verbosity=2)
