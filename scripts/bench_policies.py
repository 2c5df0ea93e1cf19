"""A loaded policy beside its built-in twin: what a request costs, and how long loading takes.

    bench_policies.py FOLDER [short]

FOLDER is one of scripts/policies.sh. Each row has both in one process, in turn, the least of seven
rounds (the example module_loop). IOPACE_BIN is the program; MODULE_LOOP the example, else it is
built. Part of nightly.sh.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

from figures import figure

REQUESTS = 2_000_000
# The aims: what a request may cost more, in ns, and times the cost of the twin.
FIFO_MORE_NS = 80
FAIR_TIMES = 1.6
LOADING_MS = 200


def cost(loop, name, module, requests, groups):
    """ns of the built-in twin and of the module."""
    words = [loop, name, module, str(requests), *([str(groups)] if groups else [])]
    row = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    columns = [column.strip() for column in row.strip("|").split("|")]
    return float(columns[3]), float(columns[4])


def loading(module):
    """Milliseconds of the whole command that loads a module and simulates next to nothing: without
    compiled code, with it, and with a built-in scheduler instead."""
    iopace = os.path.realpath(os.environ["IOPACE_BIN"])
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "CACHE_DIRECTORY": os.path.join(cache, "kept")}

        def run(scheduler):
            story = os.path.join(cache, "story.toml")
            with open(story, "w") as file:
                file.write(STORY.format(scheduler=scheduler))
            begin = time.monotonic()
            subprocess.run([iopace, "sim", "run", story], capture_output=True, check=True, env=env)
            return 1000 * (time.monotonic() - begin)

        run("fifo")  # the program itself is read from the disk
        first = run(module)
        return first, min(run(module) for _ in range(5)), min(run("fifo") for _ in range(5))


STORY = """
why = "How long does loading take?"
seed = 1
duration = "10ms"
warmup = "1ms"
[disk]
preset = "ssd-nvme"
[scheduler]
name = "{scheduler}"
[[task]]
name = "dd"
kind = "dd-read"
size = "16MiB"
"""


def main():
    folder = os.path.realpath(sys.argv[1])
    requests = REQUESTS // 10 if "short" in sys.argv[2:] else REQUESTS
    loop = os.environ.get("MODULE_LOOP")
    if not loop:
        build = "cargo build -q --release -p iopace-wasm --example module_loop"
        subprocess.run(build.split(), check=True)
        target = os.environ.get("CARGO_TARGET_DIR", "target")
        loop = os.path.join(target, "release/examples/module_loop")
    for name, groups in [("fifo", 0), ("deadline", 0), ("fair", 0), ("fair", 16)]:
        module = os.path.join(folder, f"{name}.wasm")
        own, loaded = cost(loop, name, module, requests, groups)
        label = f"{name} as a module" + (f", {groups} groups" if groups else "")
        more, times = loaded - own, loaded / own
        text = f"{own:.0f} ns built in, {loaded:.0f} loaded: {more:+.0f}, {times:.2f} times"
        if name == "fifo":
            figure(label, text, f"<= +{FIFO_MORE_NS} ns", more <= FIFO_MORE_NS)
        else:
            figure(label, text, f"<= {FAIR_TIMES} times", times <= FAIR_TIMES)
    for name in ["fifo", "fair"]:
        first, cached, without = loading(os.path.join(folder, f"{name}.wasm"))
        first, cached = first - without, cached - without
        text = f"{first:.0f} ms compiled, {cached:.0f} ms from the cache"
        figure(f"loading {name}", text, f"<= {LOADING_MS} ms compiled", first <= LOADING_MS)


if __name__ == "__main__":
    main()
