"""Figures of a benchmark: printed, and written to build/bench/NAME.json."""

import json
import os
import pathlib
import platform
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in ("tools", "examples/support-desk", "tests/live"):
    sys.path.insert(0, str(ROOT / folder))


class Bench:
    """Collects figures. A figure with a bar `holds` when value ≤ bar."""

    def __init__(self, name):
        self.name, self.figures = name, []

    def figure(self, name, value, unit, bar=None):
        holds = None if bar is None else value <= bar
        self.figures.append({"name": name, "value": round(value, 6), "unit": unit, "bar": bar, "holds": holds})
        shown = "" if bar is None else f"   (bar {bar:g}: {'holds' if holds else 'MISSED'})"
        print(f"{name:58}{value:12.3f} {unit}{shown}", flush=True)

    def write(self):
        folder = ROOT / "build" / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        machine = f"{platform.machine()}, {os.cpu_count()} processors"
        (folder / f"{self.name}.json").write_text(json.dumps({"bench": self.name, "machine": machine, "figures": self.figures}, indent=1) + "\n")
        print(f"written to build/bench/{self.name}.json")
