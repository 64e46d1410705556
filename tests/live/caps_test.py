"""Memory and disk stay under their caps while ten times as much passes through; kills, damaged files and a full disk cost
nothing but the states they hit."""

import os
import pathlib
import random
import subprocess
import threading
import time
import unittest

import live

MiB = 1 << 20


def folder_bytes(path):
    return sum(file.stat().st_blocks * 512 for file in pathlib.Path(path).rglob("*") if file.is_file())


class Watch(threading.Thread):
    """Looks at a folder again and again; remembers the most it saw."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.most, self.ends = path, 0, threading.Event()

    def run(self):
        while not self.ends.wait(0.02):
            try:
                self.most = max(self.most, folder_bytes(self.path))
            except FileNotFoundError:
                pass  # a file went while we looked


class Caps(unittest.TestCase):
    def test_caps_hold_under_ten_times_their_volume(self):
        ram, ssd = 12 * MiB, 24 * MiB
        with live.Folder() as data, live.forelay(data, "--context", "1024", "--slots", "2", "--ram", str(ram), "--ssd", str(ssd), "--ssd-writes", "1GiB") as server:
            live.complete(server, live.text_of(server, 500, seed=999), 1)
            states = pathlib.Path(data) / "states"
            watch, resident = Watch(states), server.resident_bytes()
            watch.start()
            for seed in range(24):  # 24 x 300 tokens: 165 MiB of state
                prompt = live.text_of(server, 300, seed=seed)
                live.complete(server, prompt, 1)
                for _ in range(3 if seed % 2 == 0 else 0):
                    live.complete(server, prompt, 1)  # asked for again and again: worth writing
                tiers = server.json("GET", "/forelay/v1/status")["tiers"]
                self.assertLessEqual(tiers["ram"]["used_bytes"], ram)
                self.assertLessEqual(tiers["ssd"]["used_bytes"], ssd)
            watch.ends.set()
            watch.join()
            print(f"most on disk {watch.most / MiB:.1f} of {ssd / MiB:.0f} MiB; resident memory grew by {(server.resident_bytes() - resident) / MiB:.0f} MiB (cap {ram / MiB:.0f})")
            self.assertGreater(watch.most, ssd // 2)
            self.assertLessEqual(watch.most, ssd)
            self.assertLessEqual(server.resident_bytes() - resident, ram + 64 * MiB)

    def test_kills_leave_nothing_half_written(self):
        options = ("--context", "1024", "--slots", "1", "--ram", "64MiB", "--ssd", "64MiB")
        draw = random.Random(5)
        with live.Folder() as data:
            for round_number in range(4):
                server = live.forelay(data, *options).start()
                try:
                    prompt = live.text_of(server, 300, seed=round_number)
                    for _ in range(3):
                        live.complete(server, prompt, 1)
                    time.sleep(draw.uniform(0, 0.3))  # the kill's own moment
                finally:
                    server.kill()
            with live.forelay(data, *options) as server:
                status = server.json("GET", "/forelay/v1/status")
                self.assertEqual(status["states"]["rejected"], 0)
                self.assertFalse([file for file in (pathlib.Path(data) / "states").iterdir() if file.name.endswith(".tmp")])
                first = live.complete(server, live.text_of(server, 300, seed=0), 8)
                cold = live.complete(server, live.text_of(server, 300, seed=0), 8, {"x-forelay-reuse": "off"})
                self.assertEqual(first.text, cold.text)

    def test_damaged_files_are_never_used(self):
        options = ("--context", "1024", "--slots", "1", "--ram", "64MiB", "--ssd", "64MiB", "--reuse", "exact")
        with live.Folder() as data:
            with live.forelay(data, *options) as server:
                prompt = live.text_of(server, 300, seed=77)
                texts = {live.complete(server, prompt, 8).text for _ in range(3)}
            files = sorted((pathlib.Path(data) / "states").glob("*.fkv"))
            self.assertTrue(files)
            for number, file in enumerate(files):
                content = bytearray(file.read_bytes())
                kind = number % 4
                if kind == 0:
                    content[len(content) // 2] ^= 1
                elif kind == 1:
                    content = content[: len(content) * 5 // 16]
                elif kind == 2:
                    content += b"more"
                else:
                    half = len(content) // 2
                    content = content[half:] + content[:half]
                file.write_bytes(content)
            with live.forelay(data, *options) as server:
                answer = live.complete(server, prompt, 8)
                self.assertEqual(answer.cached, 0)
                self.assertEqual({answer.text}, texts)

    def test_a_full_disk_is_survived(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to mount a small file system")
        with live.Folder() as data:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "forelay-test", data], check=True)
            try:
                with live.forelay(data, "--context", "1024", "--slots", "1", "--ram", "64MiB", "--ssd", "1GiB") as server:
                    for seed in range(4):
                        prompt = live.text_of(server, 300, seed=seed)
                        for _ in range(2):
                            live.complete(server, prompt, 1)
                    last = live.complete(server, prompt, 1)
                    self.assertGreaterEqual(last.cached, last.usage["prompt_tokens"] - 1)
                    self.assertEqual(server.call("GET", "/health")[0], 200)
            finally:
                subprocess.run(["umount", "-l", data], check=True)

    def test_another_model_finds_nothing(self):
        quantize = live.process.DEPS / "llama" / "bin" / "llama-quantize"
        if not quantize.exists():
            self.skipTest("needs llama-quantize of the same build")
        with live.Folder() as data:
            other = pathlib.Path(data) / "other.gguf"
            environment = {**os.environ, "LD_LIBRARY_PATH": str(live.process.DEPS / "llama" / "lib")}
            subprocess.run([quantize, "--allow-requantize", live.process.MODEL, other, "Q8_0", "2"], check=True, env=environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            options = ("--context", "1024", "--slots", "1", "--ram", "64MiB", "--ssd", "64MiB")
            home = os.path.join(data, "home")
            with live.forelay(home, *options) as server:
                prompt = live.text_of(server, 300, seed=1)
                for _ in range(3):
                    live.complete(server, prompt, 1)
            self.assertTrue(list(pathlib.Path(home, "states").glob("*.fkv")))
            with live.forelay(home, *options, model=other) as server:
                self.assertEqual(server.json("GET", "/forelay/v1/status")["states"]["adopted"], 0)
                self.assertEqual(live.complete(server, prompt, 4).cached, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
