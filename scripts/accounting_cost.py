#!/usr/bin/env python3
"""What time accounting costs per request: pairs of runs of the policy with and without it.

    scripts/accounting_cost.py [REQUESTS [PAIRS]]

Processor time of the whole run and not the clock, so that a busy machine does not count, and the
median of the differences of the pairs. Instructions are counted by callgrind where it is
installed. The aim is 300 ns.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
PAIRS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
# Scheduler, tasks and groups, each group with a request there at any time.
CASES = [("fifo", 1, 0), ("fifo", 16, 0), ("fair", 16, 0), ("fair", 16, 16), ("fair", 1000, 1000)]
WITHOUT = "--no-accounting"


def build():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    command = "cargo build --release -q -p iopace-core --example policy_loop"
    subprocess.run(command.split(), check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return os.path.join(target, "release/examples/policy_loop")


def words(case, requests, *flags):
    scheduler, tasks, groups = case
    return [scheduler, str(tasks), str(requests), *([str(groups)] if groups else []), *flags]


def nanos(loop, case, *flags):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [loop, *words(case, REQUESTS, *flags)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    return (after - before) / REQUESTS * 1e9


def instructions(loop, case, *flags):
    def of(requests):
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", loop]
        command = [*tool, *words(case, requests, *flags)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        return int(next(line for line in said.splitlines() if "Collected" in line).split()[-1])

    return round((of(20_000) - of(10_000)) / 10_000)


def main():
    loop = build()
    print("| scheduler | tasks | groups | ns without | ns more | instructions without | more |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        pairs = []
        for pair in range(PAIRS):
            # Which one is first changes, so that a machine that gets busier favours neither.
            flags = [[WITHOUT], []] if pair % 2 else [[], [WITHOUT]]
            times = {len(each): nanos(loop, case, *each) for each in flags}
            pairs.append((times[0], times[1]))
        more = statistics.median(with_it - without for with_it, without in pairs)
        least = min(without for _, without in pairs)
        counts = "- | -"
        if shutil.which("valgrind"):
            without = instructions(loop, case, WITHOUT)
            counts = f"{without} | {instructions(loop, case) - without}"
        print(f"| {' | '.join(map(str, case))} | {least:.0f} | {more:.0f} | {counts} |")


if __name__ == "__main__":
    main()
