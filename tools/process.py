"""Starts and stops the servers that the demo, the benchmarks and the live tests drive: forelay and the llama-server of the
same build. Waits on conditions (a port that answers /health), never on time alone."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEPS = ROOT / "build" / "deps"
MODEL = pathlib.Path(os.environ.get("FORELAY_MODEL") or DEPS / "SmolLM2-135M-Instruct.Q4_1.gguf")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A server on a free port of this machine; a context manager. `log` is a file with all it said."""

    def __init__(self, command, environment=None, ready_s=60, log=None):
        self.port = free_port()
        self.command = [str(word).replace("{port}", str(self.port)) for word in command]
        self.environment = {**os.environ, "GGML_NO_BACKTRACE": "1", "GOMP_SPINCOUNT": "1000", **(environment or {})}
        self.environment.pop("OMP_WAIT_POLICY", None)  # both servers wait alike
        self.ready_s = ready_s
        self.log = pathlib.Path(log) if log else pathlib.Path(tempfile.mkstemp(prefix="server-", suffix=".log")[1])
        self.keeps_log = bool(log)
        self.child = None

    def start(self):
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment)
        deadline = time.monotonic() + self.ready_s
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.command[0]} ended with {self.child.returncode} before it was ready:\n{self.tail()}")
            try:
                if self.call("GET", "/health", timeout_s=5)[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)  # between two looks at the port
        self.kill()
        raise RuntimeError(f"{self.command[0]} was not ready within {self.ready_s} s:\n{self.tail()}")

    def call(self, method, path, body=None, headers=None, timeout_s=120):
        """One request; returns (status, headers, text). `body`: an object for JSON, or bytes as they are."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def json(self, method, path, body=None, headers=None, expect=200, timeout_s=120):
        status, _, text = self.call(method, path, body, headers, timeout_s)
        if status != expect:
            raise RuntimeError(f"{method} {path} answered {status}, not {expect}: {text[:400]}")
        return json.loads(text)

    def metrics(self):
        """/metrics: of each name the sum over its labels."""
        sums = {}
        for line in self.call("GET", "/metrics")[2].splitlines():
            if line and not line.startswith("#"):
                name = line.split("{")[0].split(" ")[0]
                sums[name] = sums.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
        return sums

    def books(self, requests=0, timeout_s=30):
        """forelay's ledger totals and /metrics of one moment in which the ledger has booked that many requests. It books
        an answer a moment after the client has it, so both are read until nothing was booked in between."""
        deadline = time.monotonic() + timeout_s
        while True:
            totals, metrics = self.json("GET", "/forelay/v1/ledger")["totals"], self.metrics()
            if totals["requests"] >= requests and totals == self.json("GET", "/forelay/v1/ledger")["totals"]:
                return totals, metrics
            if time.monotonic() > deadline:
                raise RuntimeError(f"the ledger has booked {totals['requests']:.0f} of {requests} requests, or does not come to rest")
            time.sleep(0.05)  # between two looks

    def stop(self, timeout_s=40):
        """SIGTERM; returns the exit code."""
        if self.child and self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise RuntimeError(f"{self.command[0]} did not end within {timeout_s} s of SIGTERM:\n{self.tail()}") from None
        return self.child.returncode if self.child else None

    def kill(self):
        if self.child and self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def tail(self, lines=15):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.stop()
        finally:
            self.kill()
            if not self.keeps_log:
                self.log.unlink(missing_ok=True)


def forelay(program, data, *options, model=MODEL, **more):
    """A forelay daemon on `data` (a folder)."""
    return Process([program, "serve", "--listen", "127.0.0.1:{port}", "--model", model, "--data", data, *options], **more)


def llama_server(*options, model=MODEL, **more):
    """The llama-server that was built with our libllama."""
    home = DEPS / "llama"
    return Process([home / "bin" / "llama-server", "--port", "{port}", "--host", "127.0.0.1", "-m", model, *options],
                   {"LD_LIBRARY_PATH": str(home / "lib")}, **more)
