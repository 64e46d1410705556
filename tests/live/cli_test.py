"""The command line: help and errors against golden files (FORELAY_GOLDEN_WRITE=1 writes them anew), and every command
against a daemon, as text and as JSON."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import live

GOLDEN = live.ROOT / "tests" / "golden"
COMMANDS = ("serve", "status", "tasks", "states", "ledger", "budget", "prepare")


def run(*arguments, environment=None):
    done = subprocess.run([live.PROGRAM, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "FORELAY_URL": "http://127.0.0.1:9", **(environment or {})})
    return done.returncode, done.stdout, done.stderr


class Golden(unittest.TestCase):
    maxDiff = None

    def same(self, name, text):
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("FORELAY_GOLDEN_WRITE"):
            path.write_text(text)
        self.assertEqual(text, path.read_text(), f"differs from {path}")

    def test_help(self):
        self.same("help", run("--help")[1])
        for command in COMMANDS:
            code, out, err = run(command, "--help")
            self.assertEqual((code, err), (0, ""))
            self.same(f"{command}-help", out)

    def test_options_are_described(self):
        described = json.loads(run("serve", "--describe-options")[1])
        names = {option["name"] for option in described}
        self.assertLessEqual({"listen", "model", "data", "context", "slots", "ram", "ssd", "ssd-writes", "threads", "gpu-layers", "flash-attn", "reuse",
                              "prepare", "policy", "holdout", "queue", "timeout", "api-keys", "alias", "chat-template-file", "config"}, names)
        self.same("sample-configuration", run("serve", "--describe-options=yaml")[1])

    def test_errors(self):
        lines = []
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "model.gguf"
            text.write_text("not a model")
            for arguments in ((), ("fly",), ("status", "now"), ("status",), ("tasks", "x"), ("budget", "ram_bytes"), ("budget", "ram_bytes=lots"), ("prepare",),
                              ("prepare", "/nowhere/prompt.txt"), ("serve", "model.gguf"), ("serve", "--rum", "1"), ("serve", "--ram", "lots"),
                              ("serve", "--listen", "0.0.0.0:80"), ("serve", "--config", "/nowhere/forelay.yaml"), ("serve", "--data", "/proc/forelay"),
                              ("serve", "--data", folder, "--model", "/nowhere/model.gguf"), ("serve", "--data", folder, "--model", str(text)),
                              ("serve", "--data", folder, "--listen", "nonsense")):
                code, out, err = run(*arguments)
                err = "\n".join(line for line in err.splitlines() if not re.match(r"\d{4}-", line))
                self.assertNotEqual(code, 0, arguments)
                self.assertEqual(out, "", arguments)
                if arguments:
                    self.assertEqual(len(err.splitlines()), 1, (arguments, err))
                shown = " ".join(arguments).replace(folder, "FOLDER")
                lines.append(f"$ forelay {shown}\n{err.replace(folder, 'FOLDER')}\n[{code}]\n")
        self.same("errors", "\n".join(lines))


class Talking(unittest.TestCase):
    def test_every_command_talks_to_a_daemon(self):
        with live.Folder() as data, live.forelay(data, "--context", "1024", "--slots", "1", "--ram", "64MiB", "--ssd", "0") as server:
            there = {"FORELAY_URL": f"http://127.0.0.1:{server.port}"}
            code, out, err = run("prepare", "--prompt", live.text_of(server, 300), "--wait", "--json", environment=there)
            self.assertEqual((code, err), (0, ""))
            task = json.loads(out)
            self.assertIn(task["state"], ("ready", "used"))
            for command in ("status", "tasks", "states", "ledger", "budget"):
                code, out, err = run(command, environment=there)
                self.assertEqual((code, err), (0, ""), command)
                self.assertTrue(out.strip(), command)
                code, out, err = run(command, "--json", environment=there)
                self.assertEqual(code, 0, command)
                json.loads(out)
            self.assertIn("document" if task["kind"] == "document" else task["kind"], run("tasks", str(task["id"]), environment=there)[1])
            code, out, err = run("budget", "idle_fraction_max=0.5", "ram_bytes=32MiB", "--json", environment=there)
            self.assertEqual((json.loads(out)["idle_fraction_max"], json.loads(out)["ram_bytes"]), (0.5, 32 << 20))
            code, out, err = run("budget", "idle_fraction_max=7", environment=there)
            self.assertEqual(code, 64)
            self.assertIn("idle_fraction_max", err)
            self.assertEqual(run("tasks", "999999", environment=there)[0], 66)


if __name__ == "__main__":
    unittest.main(verbosity=2)
