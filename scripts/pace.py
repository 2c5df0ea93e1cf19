"""Buffered writes, live, with fio, on an emulated disk of 7200 rpm: what pacing promises.

    pace.py writers [short]     ten writers: fairness, pauses, dirty memory in its band
    pace.py reader [short]      a reader beside ten writers, with each window policy
    pace.py groups [short]      a group with a limit, and two groups with weights

IOPACE_BIN is the program; FIGURES a folder for the pictures. Prints tables. The short form takes
seconds and says of each figure whether it is within its bound (figures.py).
"""

import csv
import glob
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from figures import figure

IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
MIB = 1 << 20
WRITERS = 10


class Server:
    """A daemon with one emulated disk, ended by its process id."""

    # Pace and window alone: the scheduler has no part in what they give.
    PACE_ALONE = ("--sched", "elevator")

    def __init__(self, folder, *words, groups=(), sched=PACE_ALONE):
        self.folder = folder
        command = [IOPACE, "serve", "--emulate", "hdd-sata-250g", "--size", "24GiB"]
        command += ["--socket", "s", "--control", "c", *sched, *words]
        for name in ("s", "c"):
            if os.path.exists(os.path.join(folder, name)):
                os.remove(os.path.join(folder, name))
        err = open(os.path.join(folder, "err"), "w")
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=err)
        self.uri = self.process.stdout.readline().decode().strip()
        if not self.uri.startswith("nbd+unix"):
            self.process.wait()
            sys.exit(open(os.path.join(folder, "err")).read() or "the server did not start")
        for group, name, value in groups:
            self.iopace("group", "create", group)
            self.iopace("group", "set", group, name, value)

    def iopace(self, *words):
        command = [IOPACE, *words, "--control", "c"]
        done = subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode()

    def of(self, group):
        """The export as a client of a group asks for it."""
        path, socket = self.uri.removeprefix("nbd+unix:///").split("?")
        return f"nbd+unix:///{path}@{group}?{socket}"

    def device(self):
        return json.loads(self.iopace("pace", "status", "--format", "json"))[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Fio:
    """fio in the background; `jobs` waits for it and gives the jobs of its report by name."""

    def __init__(self, folder, text):
        self.folder = folder
        for path in glob.glob(os.path.join(folder, "*_bw.*.log")):
            os.remove(path)
        with open(os.path.join(folder, "jobs.fio"), "w") as file:
            file.write(text)
        command = ["fio", "jobs.fio", "--output-format=json", "--output=out.json"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)

    def jobs(self):
        if self.process.wait() != 0:
            sys.exit("fio failed")
        with open(os.path.join(self.folder, "out.json")) as file:
            out = file.read()
        return {job["jobname"]: job for job in json.loads(out[out.index("{") :])["jobs"]}

    def seconds(self, name, step):
        """A bandwidth log: bytes in the second that begins every `step` ms."""
        (path,) = glob.glob(os.path.join(self.folder, f"{name}_bw.*.log"))
        with open(path) as file:
            rows = [[int(cell) for cell in line.split(",")[:2]] for line in file]
        # What was written until when; a loaded machine writes its log late.
        until = [(0, 0.0)]
        for at, rate in rows:
            before, sum = until[-1]
            if at > before:
                until.append((at, sum + rate * 1024 * (at - before) / 1000))

        def written(at, place):
            while until[place][0] < at:
                place += 1
            (begin, low), (end, high) = until[max(place - 1, 0)], until[place]
            return place, low + (high - low) * (at - begin) / max(end - begin, 1)

        sums, low, high = [], 0, 0
        for begin in range(0, until[-1][0] - 1000 + 1, step):
            low, first = written(begin, low)
            high, last = written(begin + 1000, high)
            sums.append(last - first)
        return sums


def writers_text(uri, runtime, step):
    """Ten dd: one after the other in a region of its own, 128 KiB each."""
    text = f"[global]\nioengine=nbd\nuri={uri}\nrw=write\nbs=128k\nsize=1g\n"
    text += f"runtime={runtime}\ntime_based\nlog_avg_msec={step}\n"
    for number in range(WRITERS):
        text += f"[w{number}]\noffset={number}g\nwrite_bw_log=w{number}\n"
    return text


def jain(values):
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def windows(steps, length, skip):
    """Sums over every stretch of `length` steps after the first `skip`."""
    kept = steps[skip:]
    return [sum(kept[at : at + length]) for at in range(len(kept) - length + 1)]


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def trace(server, seconds, picture):
    """`iopace pace trace` in the background."""
    command = [IOPACE, "pace", "trace", "--control", "c", "--for", f"{seconds}s", "--format", "csv"]
    if picture and os.environ.get("FIGURES"):
        folder = os.path.realpath(os.environ["FIGURES"])
        command += ["--svg", os.path.join(folder, picture + ".svg")]
    return subprocess.Popen(command, cwd=server.folder, stdout=subprocess.PIPE)


def writers(folder, short):
    runtime = 20 if short else 60
    settled = 5
    with Server(folder) as server:
        looks = trace(server, runtime, "live-writers")
        fio = Fio(folder, writers_text(server.uri, runtime, 1000))
        seen = list(csv.DictReader(io.StringIO(looks.communicate()[0].decode())))
        jobs = fio.jobs()
        pauses = server.device()["pace"]["pauses"]
    steps = [fio.seconds(f"w{number}", 1000) for number in range(WRITERS)]
    seconds = min(len(one) for one in steps)
    steps = [one[:seconds] for one in steps]
    fives = list(zip(*(windows(one, 5, settled) for one in steps)))
    totals = [sum(one[settled:]) for one in steps]
    spread = (max(totals) - min(totals)) / statistics.mean(totals)
    cov = [statistics.pstdev(one[settled:]) / statistics.mean(one[settled:]) for one in steps]
    waits = [jobs[f"w{number}"]["write"]["clat_ns"] for number in range(WRITERS)]
    p99 = max(wait["percentile"]["99.000000"] for wait in waits) / 1e6
    longest = max(wait["max"] for wait in waits) / 1e6
    late = [look for look in seen if float(look["at_ms"]) >= settled * 1000]
    parts = [float(look["dirty_bytes"]) / float(look["limit_bytes"]) for look in late]
    least_fair = min(jain(five) for five in fives)
    row("ten writers", "measured", "aim")
    row("---", "---", "---")
    row("Jain's index over any 5 s, least", f"{least_fair:.4f}", "0.999")
    row("difference of totals", f"{100 * spread:.2f} %", "1 % after 60 s")
    row("coefficient of variation over 1 s, largest", f"{100 * max(cov):.1f} %", "5 %")
    row("a write at the client, p99", f"{p99:.1f} ms", "-")
    row("a write at the client, longest", f"{longest:.0f} ms", "-")
    row("pause, p99", f"{pauses['p99_ns'] / 1e6:.1f} ms", "10 ms")
    row("pause, longest", f"{pauses['max_ns'] / 1e6:.0f} ms", "-")
    row("dirty memory, part of the limit", f"{min(parts):.2f} to {max(parts):.2f}", "0.75 to 1")
    row("all together", f"{sum(totals) / (seconds - settled) / 1e6:.1f} MB/s", "-")
    if short:
        figure("ten writers: Jain's index, any 5 s", f"{least_fair:.4f}", "0.98", least_fair >= 0.98)
        figure("ten writers: dirty memory, part of the limit", f"{min(parts):.2f} to {max(parts):.2f}",
               "0.5 to 1", max(parts) <= 1.0 and min(parts) >= 0.5)
        figure("ten writers: longest write", f"{longest:.0f} ms", "1000 ms", longest <= 1000)


READER = """[r]
ioengine=nbd
uri={uri}
rw=randread
bs=8k
offset=16g
size=8g
iodepth=1
thinktime=200
time_based
runtime={runtime}
startdelay={delay}
"""
# Beside the writers: what the daemon is started with, of its windows and of its schedulers.
BESIDE = {
    "window `fixed`": (("--window-policy", "fixed"), Server.PACE_ALONE),
    "window `latency`": (("--window-policy", "latency"), Server.PACE_ALONE),
    "no option": ((), ()),
}


def reads_and_writes(folder, words, sched, has_reader, has_writers, settle, runtime):
    """What fio says of the reader, and the bytes a second of all writers while it reads."""
    with Server(folder, *words, sched=sched) as server:
        delay = settle if has_writers else 0
        text = writers_text(server.uri, settle + runtime + 1, 1000) if has_writers else ""
        if has_reader:
            text += READER.format(uri=server.uri, runtime=runtime, delay=delay)
        fio = Fio(folder, text)
        jobs = fio.jobs()
    reads = jobs["r"]["read"] if has_reader else None
    if not has_writers:
        return reads, None
    steps = [fio.seconds(f"w{number}", 1000) for number in range(WRITERS)]
    return reads, sum(sum(one[settle : settle + runtime]) for one in steps) / runtime


def reader(folder, short):
    """A reader beside ten writers, and both alone. The part of the disk's time that the reader does
    not use is left for the writers: that part of their rate alone."""
    times = (6, 8) if short else (15, 30)
    alone, _ = reads_and_writes(folder, (), Server.PACE_ALONE, True, False, *times)
    _, all_of_it = reads_and_writes(folder, (), Server.PACE_ALONE, False, True, *times)
    # It asks one after the other: alone it has the disk busy but for the time that it thinks.
    busy = alone["iops"] * alone["clat_ns"]["mean"] / 1e9
    row("a reader beside ten writers", "reads/s", "of alone", "writers MB/s", "of what is left")
    row("---", "---", "---", "---", "---")
    row("the reader alone", f"{alone['iops']:.1f}", "1.00", "-", "-")
    row("the writers alone", "-", "-", f"{all_of_it / 1e6:.1f}", "1.00")
    kept, of_left, texts = {}, {}, {}
    for name, (words, sched) in BESIDE.items():
        reads, written = reads_and_writes(folder, words, sched, True, True, *times)
        kept[name] = reads["iops"] / alone["iops"]
        left = max(1 - kept[name] * busy, 0.0)
        of_left[name] = written / (left * all_of_it) if left else float("inf")
        texts[name] = f"{of_left[name]:.2f}: {written / 1e6:.1f} MB/s in {left:.2f} of the time"
        row(name, f"{reads['iops']:.1f}", f"{kept[name]:.2f}", f"{written / 1e6:.1f}",
            f"{of_left[name]:.2f}")
    if short:
        fixed = kept["window `fixed`"]
        for name in list(BESIDE)[1:]:
            figure(f"a reader beside ten writers, {name}: of alone",
                   f"{kept[name]:.2f}, fixed window {fixed:.2f}",
                   "0.90 and more than with a fixed window", kept[name] >= 0.90 and kept[name] > fixed)
            figure(f"ten writers beside a reader, {name}: of what it leaves", texts[name], "0.90",
                   of_left[name] >= 0.90)


def capped(folder, short):
    """Bytes in any second, at the client and at the disk, against the limit."""
    # Write-back begins after some four seconds.
    runtime, settle, rate = (12 if short else 40), 3, 10_000_000
    limits = [("/capped", "io.max", "default wbps=10MB"), ("/free", "io.weight", "100")]
    with Server(folder, groups=limits) as server:
        text = f"[global]\nioengine=nbd\nrw=write\nbs=64k\nsize=4g\ntime_based\nruntime={runtime}\n"
        text += f"log_avg_msec=100\n[capped]\nuri={server.of('/capped')}\nwrite_bw_log=capped\n"
        text += f"[free]\nuri={server.of('/free')}\noffset=4g\nwrite_bw_log=free\n"
        fio, disk = Fio(folder, text), []
        for _ in range(runtime - 1):
            time.sleep(1)
            stat = json.loads(server.iopace("group", "stat", "/capped", "--format", "json"))
            disk.append((time.monotonic(), written(stat)))
        fio.jobs()
    every = fio.seconds("capped", 100)
    start, client = statistics.mean(every[30:70]), every[settle * 10 :]
    off = [100 * (bytes / rate - 1) for bytes in client]
    (begin, first), (end, last) = disk[settle], disk[-1]
    at_disk = (last - first) / (end - begin)
    pairs = zip(disk[settle:], disk[settle + 1 :])
    seconds = [(after - before) / (then - at) for (at, before), (then, after) in pairs]
    free = statistics.mean(fio.seconds("free", 1000)[settle:])
    row("a group with `wbps=10MB`", "measured", "aim")
    row("---", "---", "---")
    row("the client, any second", f"{min(off):+.2f} % to {max(off):+.2f} %", "±1 %")
    row("the client, mean", f"{sum(client) / len(client) / 1e6:.3f} MB/s", "10 MB/s")
    row("the client, mean from 3 to 8 s", f"{start / 1e6:.3f} MB/s", "10 MB/s")
    row("the disk, mean", f"{at_disk / 1e6:.3f} MB/s", "10 MB/s")
    row("the disk, by seconds", f"{min(seconds) / 1e6:.1f} to {max(seconds) / 1e6:.1f} MB/s", "-")
    row("who writes beside it", f"{free / 1e6:.1f} MB/s", "what is left")
    mean = sum(client) / len(client)
    if short:
        figure("wbps=10MB: the client's mean", f"{mean / 1e6:.3f} MB/s", "9.5 to 10.1 MB/s",
               0.95 * rate <= mean <= 1.01 * rate)
        figure("wbps=10MB: any second, most", f"{max(off):+.2f} %", "+2 %", max(off) <= 2)
        figure("wbps=10MB: mean from 3 to 8 s", f"{start / 1e6:.3f} MB/s", "9.5 MB/s",
               start >= 0.95 * rate)


def written(stat):
    """Bytes that a group had the only device write."""
    (group,) = stat["groups"]
    (device,) = group["devices"]
    return device["wbytes"]


def weighed(folder, short):
    """Part of the heavier of two groups, 1 to 3."""
    runtime, settle = (15, 5) if short else (40, 10)
    weights = [("/one", "io.weight", "100"), ("/three", "io.weight", "300")]
    with Server(folder, groups=weights) as server:
        text = f"[global]\nioengine=nbd\nrw=write\nbs=64k\nsize=4g\ntime_based\n"
        text += f"runtime={runtime}\nlog_avg_msec=1000\n"
        for number, name in enumerate(("one", "three")):
            text += f"[{name}]\nuri={server.of('/' + name)}\noffset={4 * number}g\n"
            text += f"write_bw_log={name}\n"
        fio = Fio(folder, text)
        fio.jobs()
    one, three = (statistics.mean(fio.seconds(name, 1000)[settle:]) for name in ("one", "three"))
    share = three / (one + three)
    row("two groups that write, weights 1 to 3", "measured", "aim")
    row("---", "---", "---")
    row("share of the second", f"{100 * share:.1f} %", "75 ±2 %")
    row("both", f"{(one + three) / 1e6:.1f} MB/s", "-")
    if short:
        figure("two writers, weights 1 to 3: share", f"{100 * share:.1f} %", "65 to 85 %",
               0.65 <= share <= 0.85)


def groups(folder, short):
    capped(folder, short)
    print()
    weighed(folder, short)


def main():
    words = sys.argv[1:]
    jobs = {"writers": writers, "reader": reader, "groups": groups}
    if words[:1] == [] or words[0] not in jobs or words[1:] not in ([], ["short"]):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="iopace-pace-") as folder:
        jobs[words[0]](folder, words[1:] == ["short"])


main()
