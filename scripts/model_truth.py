"""The same fio jobs live and simulated: how far is the model from what happens?

    model_truth.py [short] [--disks A,B] [--mixes A,B] [--seconds N]

The mixes of `make rivals` (a small reader beside each kind of big one), a reader beside a writer,
and commits beside bulk I/O, each on emulated disks behind a live daemon and in virtual time, under
its defaults (`fair`) and as one queue (`elevator`); then on a real file (disk `own`) behind the
daemon and on the model that `iopace calibrate` has fitted to it. IOPACE_BIN is the program. Rates
and 99th percentiles stand beside each other, and the worst of each is named at the end. The short
form is one mix, two schedulers and no real file; it says whether the order of the schedulers is the
same and each rate within BOUND (figures.py).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile

from figures import figure

IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
DISKS = ["hdd-sata-250g", "hdd-sata-250g-ncq", "ssd-sata", "own"]
# A loaded machine delays clients; what a disk of milliseconds gives them moves little.
BOUND = 1.3
# Aims in percent, for rates and for 99th percentiles: on emulated disks, on the machine's own.
AIMS = {True: (3, 10), False: (10, 20)}
MIB = 1 << 20
# Writes go to so much, again and again: what an emulated disk keeps is in memory.
WRITTEN = "256m"
# Fewer requests of a side, live and simulated, say nothing: of a rate, and of a 99th percentile.
FEW = (30, 100)

SMALL = ("small", "rw=randread\nbs=16k\niodepth=1\noffset={third}\nsize={n}")
COMMITS = ("commits", "rw=write\nbs=16k\niodepth=1\nfsync=1\noffset={third}\nsize={w}")


def big(rw, bs, depth, more=""):
    size = "{w}" if "write" in rw else "{n}"
    return ("big", f"rw={rw}\nbs={bs}\niodepth={depth}\noffset=0\nsize={size}{more}")


# Jobs by mix: name, options. `{n}` is the size of a part of the disk.
MIXES = {
    "sequential-read": [SMALL, big("read", "128k", 1)],
    "sequential-write": [SMALL, big("write", "128k", 4)],
    "random-64": [SMALL, big("randread", "16k", 64)],
    "programs-64": [SMALL, big("randread", "16k", 1, "\nnumjobs=64")],
    "random-write": [SMALL, big("randwrite", "16k", 32)],
    "reader-beside-writer": [("small", "rw=read\nbs=128k\niodepth=1\noffset={third}\nsize={n}"),
                             big("write", "128k", 1)],
    "commits-beside-read": [COMMITS, big("read", "512k", 4)],
    "commits-beside-write": [COMMITS, big("write", "512k", 4)],
}


def words(text):
    return text.split(",")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("form", nargs="?", choices=["short"])
    parser.add_argument("--disks", type=words, default=DISKS)
    parser.add_argument("--mixes", type=words, default=list(MIXES))
    parser.add_argument("--seconds", type=int, default=5)
    chosen = parser.parse_args()
    for name, known in (("disks", DISKS), ("mixes", MIXES)):
        if not set(getattr(chosen, name)) <= set(known):
            parser.error(f"--{name}: of {', '.join(known)}")
    return chosen


def block(options):
    """The block size of a job of depth 1; of a deeper one the disk never waits for a client, and
    fio lets such a job run dry before each pause."""
    if "iodepth=1\n" not in options:
        return None
    return next(line[3:] for line in options.split("\n") if line.startswith("bs="))


def text(mix, part, head, seconds, clients=None):
    """The job file; jobs of depth 1 think for as long as a client takes for their block size."""
    lines = f"[global]\n{head}\ndirect=1\ntime_based\nruntime={seconds}\nnorandommap\n"
    if "nbd" in head:
        lines += "thread=1\nlat_percentiles=1\nclat_percentiles=0\n"
    third = f"{2 * int(part[:-1])}{part[-1]}"
    for name, options in MIXES[mix]:
        lines += f"[{name}]\n" + options.format(n=part, third=third, w=WRITTEN) + "\n"
        if clients and block(options):
            lines += f"thinktime={clients[block(options)]}\n"
    return lines


def serve_fio(folder, job, scheduler, words):
    """The jobs of fio's report; `job` is the text of a job file but for where it connects."""
    command = [IOPACE, "serve", *words, "--direct"]
    command += ["--socket", "s", "--no-control", "--sched", scheduler]
    with open(os.path.join(folder, "err"), "w") as err:
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=err)
    try:
        uri = server.stdout.readline().decode().strip()
        if not uri.startswith("nbd+unix"):
            sys.exit(open(os.path.join(folder, "err")).read() or "the server did not start")
        with open(os.path.join(folder, "live.fio"), "w") as file:
            file.write(job(f"ioengine=nbd\nuri={uri}"))
        fio = ["fio", "live.fio", "--output-format=json", "--output=out.json"]
        subprocess.run(fio, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    with open(os.path.join(folder, "out.json")) as file:
        out = file.read()
    return json.loads(out[out.index("{") :])["jobs"]


def client_us(folder, size):
    """What fio, the socket and the daemon take per request: a disk that takes no time, depth 1."""
    job = f"direct=1\ntime_based\nruntime=1\n[client]\nrw=randread\nbs={size}\nsize=1g\n"
    words = ["--emulate", "null", "--size", "1GiB"]
    (client,) = serve_fio(folder, lambda head: f"[global]\n{head}\n{job}", "fifo", words)
    return max(round(client["read"]["runtime"] * 1e3 / max(client["read"]["total_ios"], 1)), 1)


def clients_us(folder, mixes):
    sizes = {block(options) for mix in mixes for _, options in MIXES[mix]} - {None}
    return {size: client_us(folder, size) for size in sorted(sizes)}


def p99_ms(job):
    """Of reads and writes; no job here has both, and the simulator counts no flushes either."""
    (one,) = [job[kind]["lat_ns"] for kind in ("read", "write") if job[kind]["total_ios"]] or [{}]
    return one["percentile"]["99.000000"] / 1e6 if "percentile" in one else None


def live(folder, mix, part, scheduler, words, seconds):
    """(MB/s, p99 in ms, requests) of each job, by fio against a daemon of its own. Of several
    programs of a job there is no common percentile."""
    jobs = serve_fio(folder, lambda head: text(mix, part, head, seconds), scheduler, words)
    found = {}
    for name, _ in MIXES[mix]:
        same = [job for job in jobs if job["jobname"] == name]
        moved = [(job["read"]["io_bytes"] + job["write"]["io_bytes"])
                 / max(job["read"]["runtime"], job["write"]["runtime"], 1) / 1e3 for job in same]
        count = sum(job["read"]["total_ios"] + job["write"]["total_ios"] for job in same)
        found[name] = (sum(moved), p99_ms(same[0]) if len(same) == 1 else None, count)
    return found


def simulated(folder, mix, part, scheduler, disk, clients, seconds):
    """The same in virtual time; a client thinks as long as a real one takes, which a real one
    counts as latency."""
    with open(os.path.join(folder, "sim.fio"), "w") as file:
        file.write(text(mix, part, "filename=disk\nioengine=libaio", seconds, clients))
    command = [IOPACE, "sim", "replay", "sim.fio", "--disk", disk, "--sched", scheduler]
    command += ["--strict", "--format", "json"]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    (report,) = json.loads(done.stdout)
    found = {}
    for job, options in MIXES[mix]:
        client = clients.get(block(options), 0)
        streams = [one for name, one in report["streams"].items() if name.startswith(job)]
        rate = sum(one["bytes"] for one in streams) / seconds / 1e6
        p99 = streams[0]["latency"]["p99_ms"] + client / 1e3 if len(streams) == 1 else None
        found[job] = (rate, p99, sum(one["ops"] for one in streams))
    return found


def error(real, model, place):
    """Of the rate or the p99, in percent of the real one; None where there is none to speak of."""
    if max(real[2], model[2]) < FEW[place] or not real[place] or model[place] is None:
        return None
    return (model[place] - real[place]) / real[place] * 100


def shown(real, model, place):
    percent = error(real, model, place)
    if percent is None:
        return "few" if real[2] < FEW[place] else ""
    return f"{percent:+.1f} %"


def compare(folder, mixes, part, schedulers, words, disk, title, seconds):
    """One table of a disk; gives (scheduler, mix, job) -> (live, simulated)."""
    print(f"\n## {title}\n")
    print("| mix | scheduler | client, us | job | live, MB/s | simulated | difference "
          "| live p99, ms | simulated | difference |")
    print("|---|---|---:|---|---:|---:|---:|---:|---:|---:|")
    found = {}
    for scheduler in schedulers:
        # Before and after: other load on the machine comes and goes.
        before = clients_us(folder, mixes)
        rows = [(mix, live(folder, mix, part, scheduler, words, seconds)) for mix in mixes]
        after = clients_us(folder, mixes)
        clients = {size: (took + after[size]) // 2 for size, took in before.items()}
        for mix, real in rows:
            model = simulated(folder, mix, part, scheduler, disk, clients, seconds)
            for job, options in MIXES[mix]:
                client = clients.get(block(options), "")
                one, other = real[job], model[job]
                waits = ["" if side[1] is None else f"{side[1]:.2f}" for side in (one, other)]
                print(f"| {mix} | {scheduler} | {client} | {job} | {one[0]:.2f} | {other[0]:.2f} "
                      f"| {shown(one, other, 0)} | {waits[0]} | {waits[1]} "
                      f"| {shown(one, other, 1)} |", flush=True)
                found[scheduler, mix, job] = (real[job], model[job])
    worst(title, found, AIMS[title.startswith("emulated")])
    return found


def worst(title, found, aims):
    """The mean error, the worst case by name, and how many are within the aim."""
    for place, (what, aim) in enumerate(zip(("rates", "p99"), aims)):
        errors = {key: error(real, model, place) for key, (real, model) in found.items()}
        errors = {key: abs(one) for key, one in errors.items() if one is not None}
        if errors:
            key = max(errors, key=errors.get)
            within = sum(one <= aim for one in errors.values())
            print(f"\n{title}, {what}: mean difference {sum(errors.values()) / len(errors):.1f} %; "
                  f"{within} of {len(errors)} within {aim} %; the worst is {key[2]} of {key[1]} "
                  f"under {key[0]}, {errors[key]:.1f} %", flush=True)


def short(folder):
    """A few seconds: the bounds of `make nightly`."""
    disk, mix, schedulers = DISKS[0], "sequential-read", ["elevator", "rr"]
    words = ["--emulate", disk, "--size", "32GiB"]
    found = compare(folder, [mix], "8g", schedulers, words, disk, f"emulated {disk}", 3)
    for (scheduler, _, job), (one, other) in found.items():
        real, model = one[0], other[0]
        figure(f"model against live: {scheduler} {job}", f"{real:.2f} live, {model:.2f} MB/s",
               f"within {BOUND}", model / BOUND <= real <= model * BOUND)
    order = [sorted(schedulers, key=lambda s: found[s, mix, "big"][side][0]) for side in (0, 1)]
    figure("model against live: order of the schedulers", " < ".join(order[0]),
           " < ".join(order[1]), order[0] == order[1])


def real_file(folder, chosen):
    path, model = os.path.join(folder, "file.img"), os.path.join(folder, "file.toml")
    with open(path, "wb") as file:
        for _ in range(1024):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    command = [IOPACE, "calibrate", path, "--write", "--overwrite", "--out", model]
    command += ["--time", "20s", "--format", "json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    print(f"\nmodel of a real file: {report['model']}, ", end="")
    print(f"mean error of {len(report['figures'])} figures", end=" ")
    print(f"{report['mean_error_permille'] / 10} %")
    for note in report["notes"]:
        print(f"note: {note}")
    schedulers = ["elevator", "fair"]
    compare(folder, chosen.mixes, "250m", schedulers, [path], model, "a real file", chosen.seconds)


def main():
    chosen = arguments()
    with tempfile.TemporaryDirectory(prefix="iopace-truth-", dir=os.environ.get("TMPDIR")) as place:
        if chosen.form == "short":
            short(place)
            return
        for disk in chosen.disks:
            if disk == "own":
                real_file(place, chosen)
                continue
            words = ["--emulate", disk, "--size", "32GiB"]
            compare(place, chosen.mixes, "8g", ["elevator", "fair"], words, disk,
                    f"emulated {disk}", chosen.seconds)


main()
