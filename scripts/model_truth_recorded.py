"""Live load, recorded and replayed under the recorded settings: how far is the replay off?

    model_truth.sh recorded [--disks A,B] [--loads A,B] [--seconds N]

fio's clients on emulated disks behind a live daemon, under its default scheduler and under
`elevator`. After two seconds 'iopace record' records, and 'iopace sim replay' replays what it wrote.
Each task has a row: its rate, mean latency and 99th percentile live, and the difference of the
replay. IOPACE_BIN is the program.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
DISKS = ["hdd-sata-250g", "hdd-sata-250g-ncq", "ssd-sata"]
SCHEDULERS = ["auto", "elevator"]
AIM_PERCENT = 10
# The scheduler and the window have learnt the load by then.
SETTLE_S = 2

READER = "[reader]\nrw=randread\nbs=16k\niodepth=1\noffset=16g\nsize=8g\n"
LOADS = {
    "random beside sequential": READER + "[big]\nrw=read\nbs=128k\niodepth=1\nsize=8g\n",
    "reader beside writer": READER + "[writer]\nrw=write\nbs=128k\niodepth=4\nsize=256m\n",
    "four depths": "".join(
        f"[depth{depth}]\nrw=randread\nbs=16k\niodepth={depth}\noffset={place}g\nsize=4g\n"
        for place, depth in enumerate((1, 4, 16, 64))),
}


def words(text):
    return text.split(",")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--disks", type=words, default=DISKS)
    parser.add_argument("--loads", type=words, default=list(LOADS))
    parser.add_argument("--seconds", type=int, default=6)
    return parser.parse_args()


def replayed(folder, disk, scheduler, load, seconds):
    """The report of the replay of one load."""
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
            file.write(f"{head}runtime={SETTLE_S + seconds + 1}\n{LOADS[load]}")
        fio = subprocess.Popen(["fio", "job.fio"], cwd=folder, stdout=subprocess.DEVNULL)
        time.sleep(SETTLE_S)
        record = [IOPACE, "record", "--for", f"{seconds}s", "-o", "r", "--force"]
        record += ["--control", "c"]
        subprocess.run(record, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        fio.wait()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    replay = [IOPACE, "sim", "replay", "r", "--format", "json"]
    done = subprocess.run(replay, cwd=folder, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)[0]


def main():
    chosen = arguments()
    print("| disk | load | scheduler | task | per s | off, % | mean, ms | off, % | p99, ms | off, % |")
    print("|---|---|---|---|---:|---:|---:|---:|---:|---:|")
    errors = []
    with tempfile.TemporaryDirectory(prefix="iopace-truth-", dir=os.environ.get("TMPDIR")) as place:
        for disk in chosen.disks:
            for load in chosen.loads:
                for scheduler in SCHEDULERS:
                    report = replayed(place, disk, scheduler, load, chosen.seconds)
                    for row in report["rows"]:
                        if row["kind"] != "task":
                            continue
                        live, off = row["recorded"], row["off_percent"]
                        told = ["-" if off[key] is None else f"{off[key]:+.1f}"
                                for key in ("per_s", "mean", "p99")]
                        print(f"| {disk} | {load} | {report['scheduler']} | {row['name']} "
                              f"| {live['per_s']:.1f} | {told[0]} | {live['mean_ns'] / 1e6:.3f} "
                              f"| {told[1]} | {live['p99_ns'] / 1e6:.3f} | {told[2]} |", flush=True)
                        for key in ("mean", "p99"):
                            if off[key] is not None:
                                errors.append((abs(off[key]), key, row["name"], load, disk,
                                               report["scheduler"]))
    within = sum(one[0] <= AIM_PERCENT for one in errors)
    worst = max(errors)
    print(f"\n{within} of {len(errors)} means and 99th percentiles within {AIM_PERCENT} %; the worst "
          f"is {worst[0]:.1f} %: {worst[1]} of {worst[2]}, {worst[3]}, {worst[4]}, {worst[5]}")


main()
