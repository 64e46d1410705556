"""What speculation adds to real requests: the same short requests on an idle engine and during a long preparation."""

from figures import Bench

import live


def main():
    bench, alone, beside = Bench("isolation"), [], []
    with live.Folder() as data, live.forelay(data, "--context", "6144", "--slots", "2", "--ram", "512MiB", "--ssd", "0") as server:
        questions = [live.text_of(server, 40, seed=300 + seed) for seed in range(60)]
        for question in questions[:20]:
            alone.append(live.complete(server, question, 1).first_s)
        task, ran_beside = 0, 0
        for number, question in enumerate(questions[20:]):
            if task == 0 or server.json("GET", f"/forelay/v1/tasks/{task}")["state"] not in ("planned", "waiting", "running"):
                task = live.prepare(server, {"prompt": live.text_of(server, 5000, seed=400 + number)})
                live.wait_task(server, task, ("running", "ready"))
            beside.append(live.complete(server, question, 1).first_s)
            ran_beside += 1
    bench.figure("40-token request, first token on an idle engine, p50", live.median(alone) * 1e3, "ms")
    bench.figure("the same during a preparation, p50", live.median(beside) * 1e3, "ms")
    bench.figure("added at p50", (live.median(beside) - live.median(alone)) * 1e3, "ms", 60)
    bench.figure("added at p99", (sorted(beside)[-1] - sorted(alone)[-1]) * 1e3, "ms", 60)
    bench.write()


main()
