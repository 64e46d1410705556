"""A long pasted question with and without drafts sent ahead while it is typed."""

from figures import Bench

import live


def main():
    bench, plain, drafted = Bench("typing"), [], []
    with live.Folder() as data, live.forelay(data, "--context", "4096", "--slots", "2", "--ram", "256MiB", "--ssd", "0") as server:
        for seed in range(5):
            text = live.text_of(server, 1500, seed=100 + seed)
            plain.append(live.chat(server, [{"role": "user", "content": text}], 1).first_s)
            text = live.text_of(server, 1500, seed=200 + seed)
            for share in (0.5, 0.9):  # pasted first, then a few more words
                draft = {"messages": [{"role": "user", "content": text[: int(len(text) * share)]}], "partial": True}
                live.wait_task(server, live.prepare(server, draft))
            task = live.prepare(server, {"messages": [{"role": "user", "content": text + " "}], "partial": True})
            live.wait_task(server, task)
            drafted.append(live.chat(server, [{"role": "user", "content": text}], 1).first_s)
    bench.figure("1,500-token question, first token without drafts", live.median(plain) * 1e3, "ms")
    bench.figure("the same with drafts sent while it was typed", live.median(drafted) * 1e3, "ms")
    bench.figure("with / without", live.median(drafted) / live.median(plain), "", 0.2)
    bench.write()


main()
