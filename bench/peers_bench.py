"""The support desk against the same-build llama-server with the same memory, and against two published policies in our
own engine: frequency (top prefixes prefetched) and workload-aware prefetch."""

import json
import sys
import tempfile

from figures import ROOT, Bench

import drive
import process
import workload

SEED, DURATION_S = 1, float(sys.argv[1]) if len(sys.argv) > 1 else 150.0
CONTEXT, SLOTS, RAM_MIB = 2048, 2, 48
OURS = ["--slots", SLOTS, "--context", CONTEXT, "--ram", f"{RAM_MIB}MiB", "--ssd", "0"]


def run(server, label, tells):
    schedule = workload.schedule(SEED, DURATION_S, conversations=round(workload.CONVERSATIONS_PER_S * DURATION_S))
    with server:
        day = drive.Day(drive.Server(server.port, tells), schedule, label).run()
        ledger = server.json("GET", "/forelay/v1/ledger")["totals"] if tells else None
    return drive.first_token_ms(day), ledger


def main():
    bench = Bench("peers")
    program = ROOT / "build" / "release" / "forelay"
    with tempfile.TemporaryDirectory() as data:
        folders = iter(f"{data}/{number}" for number in range(8))
        # One sequence more than the slots is ours to speculate in: the peer gets the same cells of context.
        peer = process.llama_server("-c", str(CONTEXT * (SLOTS + 1)), "-np", str(SLOTS + 1), "-t", "2", "--cache-ram", str(RAM_MIB))
        arms = (
            ("llama-server", peer, False),
            ("reactive", process.forelay(program, next(folders), *OURS, "--prepare", "off"), True),
            ("frequency", process.forelay(program, next(folders), *OURS, "--policy", "frequency"), True),
            ("workload", process.forelay(program, next(folders), *OURS, "--policy", "workload"), True),
            ("forelay", process.forelay(program, next(folders), *OURS), True),
        )
        results = {name: run(server, name, tells) for name, server, tells in arms}
    for name, (ttft, ledger) in results.items():
        bench.figure(f"{name}: time to first token p50", ttft["p50"], "ms")
        bench.figure(f"{name}: time to first token p95", ttft["p95"], "ms")
        if ledger:
            bench.figure(f"{name}: net engine seconds", ledger["net_seconds"], "s")
            bench.figure(f"{name}: speculative engine seconds", ledger["speculative_seconds"], "s")
    ours = results["forelay"][0]
    bench.figure("forelay / reactive, p50", ours["p50"] / results["reactive"][0]["p50"], "", 0.6)
    bench.figure("forelay / llama-server, p50", ours["p50"] / results["llama-server"][0]["p50"], "", 0.6)
    bench.figure("forelay / reactive, p95", ours["p95"] / results["reactive"][0]["p95"], "", 1.0)
    bench.figure("forelay / llama-server, p95", ours["p95"] / results["llama-server"][0]["p95"], "", 1.0)
    bench.write()


main()
