"""Two daemons, one with the model's own template and one whose template knows tools, and a script that gets their ports."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import process  # noqa: E402

program, script = sys.argv[1:]
options = ("--context", "1024", "--slots", "2", "--ram", "64MiB", "--ssd", "0")
with tempfile.TemporaryDirectory() as plain_data, tempfile.TemporaryDirectory() as tools_data:
    with process.forelay(program, plain_data, *options) as plain, \
            process.forelay(program, tools_data, *options, "--chat-template-file", ROOT / "tests/data/tools-template.jinja") as tools:
        code = subprocess.run(["node", script, str(plain.port), str(tools.port)], env=os.environ, timeout=300).returncode
sys.exit(code)
