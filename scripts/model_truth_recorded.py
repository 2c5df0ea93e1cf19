"""Live load, recorded and replayed under the recorded settings: how far is the replay off?

    model_truth.sh recorded [--disks A,B] [--loads A,B] [--seconds N] [--page FILE] [--from FILE]

fio's clients on emulated disks behind a live daemon, under its default scheduler and under
`elevator`. When the load has settled 'iopace record' records, and 'iopace sim replay' replays what it wrote.
Each task has a row: its rate, mean latency and 99th percentile live, and the difference of the
replay; behind a slash that of the model alone, whose completions are noticed on time. IOPACE_BIN is
the program.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from figures import put

IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
DISKS = ["hdd-sata-250g", "hdd-sata-250g-ncq", "ssd-sata"]
SCHEDULERS = ["auto", "elevator"]
AIM_PERCENT = 10
# The scheduler and the window have learnt the load by then, and the disk's cache is as full as the
# load keeps it: 8 MiB of small writes take some ten seconds.
SETTLE_S = 2
SETTLE_WRITES_S = 12

READER = "[reader]\nrw=randread\nbs=16k\niodepth=1\noffset=16g\nsize=8g\n"
LOADS = {
    "random beside sequential": READER + "[big]\nrw=read\nbs=128k\niodepth=1\nsize=8g\n",
    "reader beside writer": READER + "[writer]\nrw=write\nbs=128k\niodepth=4\nsize=256m\n",
    "four depths": "".join(
        f"[depth{depth}]\nrw=randread\nbs=16k\niodepth={depth}\noffset={place}g\nsize=4g\n"
        for place, depth in enumerate((1, 4, 16, 64))),
    "thinking beside random writes": READER + "thinktime=20ms\n"
        "[writes]\nrw=randwrite\nbs=16k\niodepth=32\nsize=256m\n",
    "half writes and bursts": "[mixed]\nrw=randrw\nbs=8k\niodepth=2\nsize=256m\n"
        "[bursts]\nrw=read\nbs=64k\niodepth=8\noffset=8g\nsize=4g\n"
        "thinktime=300ms\nthinktime_blocks=200\n",
}


def words(text):
    return text.split(",")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--disks", type=words, default=DISKS)
    parser.add_argument("--loads", type=words, default=list(LOADS))
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--page", help="write the table of this page anew")
    parser.add_argument("--from", dest="source", help="the rows that another run printed")
    return parser.parse_args()


def replayed(folder, disk, scheduler, load, seconds):
    """The reports of the replays of one load: as late as live, and on time."""
    has_writes = "rw=write" in LOADS[load] or "rw=rand" in LOADS[load].replace("rw=randread", "")
    settle = SETTLE_WRITES_S if has_writes else SETTLE_S
    command = [IOPACE, "serve", "--emulate", disk, "--size", "32GiB", "--direct"]
    command += ["--socket", "s", "--control", "c", "--sched", scheduler]
    with open(os.path.join(folder, "err"), "w") as err:
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=err)
    try:
        uri = server.stdout.readline().decode().strip()
        if not uri.startswith("nbd+unix"):
            sys.exit(open(os.path.join(folder, "err")).read() or "the server did not start")
        head = f"[global]\nioengine=nbd\nuri={uri}\nthread=1\ntime_based\nnorandommap\n"
        with open(os.path.join(folder, "job.fio"), "w") as file:
            file.write(f"{head}runtime={settle + seconds + 1}\n{LOADS[load]}")
        fio = subprocess.Popen(["fio", "job.fio"], cwd=folder, stdout=subprocess.DEVNULL)
        time.sleep(settle)
        record = [IOPACE, "record", "--for", f"{seconds}s", "-o", "r", "--force"]
        record += ["--control", "c"]
        subprocess.run(record, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        fio.wait()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    replay = [IOPACE, "sim", "replay", "r", "--format", "json"]
    reports = []
    for more in ([], ["--on-time"]):
        done = subprocess.run(replay + more, cwd=folder, check=True, stdout=subprocess.PIPE)
        reports.append(json.loads(done.stdout)[0])
    return reports


def rows(disk, load, reports):
    """A line of the table for each task."""
    alone = {row["name"]: row["off_percent"] for row in reports[1]["rows"]}
    for row in reports[0]["rows"]:
        if row["kind"] != "task":
            continue
        live, off, model = row["recorded"], row["off_percent"], alone[row["name"]]
        told = ["/".join("-" if one[key] is None else f"{one[key]:+.1f}" for one in (off, model))
                for key in ("per_s", "mean", "p99")]
        yield (f"| {disk} | {load} | {reports[0]['scheduler']} | {row['name']} "
               f"| {live['per_s']:.1f} | {told[0]} | {live['mean_ns'] / 1e6:.3f} "
               f"| {told[1]} | {live['p99_ns'] / 1e6:.3f} | {told[2]} |")


def errors(lines):
    """The mistakes of means and 99th percentiles: by disk and load, a pair of lists, as late as
    live and on time; of each how large, and where."""
    found = {}
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 10 or cells[0] not in DISKS:
            continue
        disk, load, scheduler, task = cells[:4]
        pair = found.setdefault((disk, load), ([], []))
        for what, cell in (("mean", cells[7]), ("p99", cells[9])):
            for side, off in zip(pair, cell.split("/")):
                if off != "-":
                    side.append((abs(float(off)), f"{what} of {task}, {scheduler}"))
    return found


def within(side):
    return f"{sum(off <= AIM_PERCENT for off, _ in side)} of {len(side)}"


def summary(found):
    for how, which in (("as late as live", 0), ("on time", 1)):
        side = [(off, where, *key) for key, pair in found.items() for off, where in pair[which]]
        worst = max(side)
        yield (f"{how}: {within([one[:2] for one in side])} means and 99th percentiles within "
               f"{AIM_PERCENT} %; the worst is {worst[0]:.1f} %: {', '.join(worst[1:])}")


def page(found):
    """The table of the page: a row for each disk and load."""
    yield "| disk | load | within 10 %, as late as live | the worst | within 10 %, on time | the worst |"
    yield "|---|---|---|---|---|---|"
    for (disk, load), pair in found.items():
        cells = []
        for side in pair:
            off, where = max(side)
            cells += [within(side), f"{off:.0f} %, {where}"]
        yield f"| `{disk}` | {load} | {' | '.join(cells)} |"


def measured(chosen):
    yield "| disk | load | scheduler | task | per s | off, % | mean, ms | off, % | p99, ms | off, % |"
    yield "|---|---|---|---|---:|---:|---:|---:|---:|---:|"
    with tempfile.TemporaryDirectory(prefix="iopace-truth-", dir=os.environ.get("TMPDIR")) as place:
        for disk in chosen.disks:
            for load in chosen.loads:
                for scheduler in SCHEDULERS:
                    yield from rows(disk, load, replayed(place, disk, scheduler, load, chosen.seconds))


def main():
    chosen = arguments()
    lines = []
    for line in open(chosen.source) if chosen.source else measured(chosen):
        lines.append(line.rstrip())
        if not chosen.source:
            print(line, flush=True)
    found = errors(lines)
    text = [*summary(found), ""]
    print("\n" + "\n".join(text), end="")
    if chosen.page:
        with open(chosen.page) as file:
            old = file.read()
        text = "\n".join(["", *page(found), "", *summary(found), ""])
        with open(chosen.page, "w") as file:
            file.write(put(old, "recorded", text))


main()
