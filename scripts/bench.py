"""fio's nbd engine against iopace, nbdkit and qemu-nbd, in turn, as ratios. See bench.sh."""

import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = int(os.environ.get("SECONDS_EACH", "2"))
IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
SIZE_MIB = 512

# What is measured: fio's rw, block size, depth, connections, and the ratio to reach.
CELLS = [
    (rw, "4k", depth, jobs, 1.2)
    for rw in ("randread", "randwrite")
    for jobs in (1, 4)
    for depth in (1, 32)
] + [("read", "1m", 4, 1, 1.0), ("write", "1m", 4, 1, 1.0)]


class Server:
    """A server on a Unix socket, ended by its process id."""

    def __init__(self, name, command, uri, socket, after=None):
        self.name, self.uri = name, uri
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(200):
            if os.path.exists(socket):
                break
            time.sleep(0.05)
        time.sleep(0.2)
        if after:
            subprocess.run(after, check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def fio(folder, uri, rw, block, depth, jobs):
    """Requests per second and mean latency in microseconds."""
    os.sync()  # nobody pays for the pages that the server before made dirty
    out = os.path.join(folder, "fio.json")
    command = ["fio", "--name=bench", "--ioengine=nbd", f"--uri={uri}", f"--rw={rw}", f"--bs={block}"]
    command += [f"--iodepth={depth}", f"--numjobs={jobs}", f"--size={SIZE_MIB - 12}M", "--time_based"]
    command += [f"--runtime={SECONDS}", "--group_reporting", "--output-format=json", f"--output={out}"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out) as text:
        text = text.read()
    job = json.loads(text[text.index("{") :])["jobs"][0]
    side = job["read"] if "read" in rw else job["write"]
    return side["iops"], side["lat_ns"]["mean"] / 1000


def servers_on_a_file(folder):
    image = os.path.join(folder, "disk.img")
    with open(image, "wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(1 << 20))
    path = lambda name: os.path.join(folder, name)
    shutil.copy(image, path("k.img"))
    shutil.copy(image, path("q.img"))
    control = path("i.ctl")
    return [
        Server(
            "iopace",
            [IOPACE, "serve", image, "--socket", path("i"), "--control", control],
            f"nbd+unix:///disk?socket={path('i')}",
            control,
            [IOPACE, "sched", "insert", "-a", "deadline", "disk", "--control", control],
        ),
        Server("nbdkit", ["nbdkit", "-f", "-U", path("k"), "file", path("k.img")],
               f"nbd+unix:///?socket={path('k')}", path("k")),
        Server("qemu-nbd", ["qemu-nbd", "-f", "raw", "-t", "-e", "8", "-k", path("q"), path("q.img")],
               f"nbd+unix:///?socket={path('q')}", path("q")),
    ]


def servers_in_memory(folder):
    path = lambda name: os.path.join(folder, name)
    control = path("n.ctl")
    return [
        Server(
            "iopace",
            [IOPACE, "serve", "--emulate", "null", "--direct", "--size", f"{SIZE_MIB}MiB",
             "--socket", path("n"), "--control", control],
            f"nbd+unix:///null?socket={path('n')}",
            control,
            [IOPACE, "sched", "insert", "-a", "deadline", "--control", control],
        ),
        Server("nbdkit", ["nbdkit", "-f", "-U", path("m"), "memory", f"{SIZE_MIB}M"],
               f"nbd+unix:///?socket={path('m')}", path("m")),
    ]


def compare(folder, servers):
    """A row per cell: medians per server and the median ratio to the better peer of each round."""
    rows = []
    for rw, block, depth, jobs, aim in CELLS:
        rounds = []
        for turn in range(ROUNDS):
            # Nobody is always the first one after the others' write-back.
            order = servers[turn % len(servers) :] + servers[: turn % len(servers)]
            rounds.append({s.name: fio(folder, s.uri, rw, block, depth, jobs)[0] for s in order})
        medians = [statistics.median(r[s.name] for r in rounds) for s in servers]
        ratio = statistics.median(
            r["iopace"] / max(v for name, v in r.items() if name != "iopace") for r in rounds
        )
        word = "holds" if ratio >= aim else "falls short"
        cells = [f"{rw} {block}", str(depth), str(jobs)]
        cells += [f"{median / 1000:.1f}" for median in medians]
        rows.append("| " + " | ".join(cells + [f"{ratio:.2f}", f"{aim}", word]) + " |")
        print(rows[-1], flush=True)
    names = " | ".join(f"{s.name}, k/s" for s in servers)
    head = f"| load | depth | connections | {names} | ratio to the better peer | aim | |\n"
    return head + "|---" * (6 + len(servers)) + "|\n" + "\n".join(rows)


def added_latency(folder, server, control):
    """Mean latency at depth 1 with a scheduler less that without one, pair by pair."""
    rows = ["| scheduler | added mean latency, µs | aim |", "|---|---|---|"]
    measure = lambda: fio(folder, server.uri, "randread", "4k", 1, 1)[1]
    for name in ("deadline", "rr"):
        differences = []
        for _ in range(2 * ROUNDS):
            subprocess.run([IOPACE, "sched", "destroy", "--control", control],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            without = measure()
            subprocess.run([IOPACE, "sched", "insert", "-a", name, "--control", control],
                           check=True, stdout=subprocess.DEVNULL)
            differences.append(measure() - without)
        rows.append(f"| {name} | {statistics.median(differences):+.2f} | ≤ 2 |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def main():
    cost_path, groups_path, pace_path, mounts_path, live_path, page_path = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="iopace-bench-") as folder:
        servers = servers_on_a_file(folder)
        try:
            on_file = compare(folder, servers)
        finally:
            for server in servers:
                server.stop()
        servers = servers_in_memory(folder)
        try:
            in_memory = compare(folder, servers)
            added = added_latency(folder, servers[0], os.path.join(folder, "n.ctl"))
        finally:
            for server in servers:
                server.stop()
    with open(cost_path) as text:
        cost = text.read()
    with open(groups_path) as text:
        groups = text.read()
    with open(pace_path) as text:
        pace = text.read()
    with open(mounts_path) as text:
        mounts = text.read()
    with open(live_path) as text:
        live = text.read()
    with open(page_path, "w") as page:
        page.write(PAGE.format(
            cores=os.cpu_count(), kernel=platform.release().split("-")[0], rounds=ROUNDS,
            seconds=SECONDS, on_file=on_file, in_memory=in_memory, added=added, cost=cost, groups=groups,
            pace=pace, mounts=mounts, live=live,
        ))


PAGE = """# Speed

Written by `make bench`: {cores} shared cores, Linux {kernel}, fio's nbd engine over Unix sockets, client
and server on the same cores. {rounds} rounds of {seconds} s each, the servers in turn; medians. Such
machines are noisy: read ratios, not single figures. No test asserts a time.

## A file that is in the page cache

iopace with the scheduler `deadline` inserted, nbdkit's file plugin, qemu-nbd with raw format.

{on_file}

## No disk at all

iopace with the model `null` and `--direct` (every request goes through the engine and `deadline`; the
data is in a memory file), nbdkit's memory plugin.

{in_memory}

## Latency added by a scheduler

Depth 1, 4 KiB random reads on the model `null` with `--direct`, against the same without a scheduler,
in pairs.

{added}

## Groups, live

A limit of 10 MiB/s, reads from the page cache, ten seconds: how far from it (the aim is 1 %). Below it,
who has what of a limit that two share; then the fio job of 2009: two exports of one emulated disk
(`hdd-sata-250g-ncq`, scheduler `fair`), 500 requests each, the second starts 10 s after the first. The
conditions are those of `iopace sim tables slots`; *rise* is read off fio's own bandwidth log in steps of
100 ms, and the aim is 100 ms, half of the disk, or all of it in the last row.

{groups}
## Buffered writes, live

`scripts/pace.py` on the emulated disk `hdd-sata-250g`: ten writers of 128 KiB for a minute (the picture is
in [pace.md](pace.md)); a reader of 8 KiB beside them; a group with a limit and two with weights. On a
machine with other work the clients themselves are late.

{pace}
## A mounted directory

`scripts/bench_mount.py` (as root; `ONLY`, `MOUNTS` and `TMPDIR` choose): the same files on the file system of
`TMPDIR`, the servers in turn, each load with a mount of its own that has cached nothing yet. Seconds of a
fixed amount of work, and in brackets CPU seconds of the server and the program together; medians. The ratio is
the time of the better peer over that of iopace, round by round: above 1, iopace is quicker. The aim is 1.

- **iopace**: `iopace mount DIR`, over the directory itself, default policies.
- **hp**: libfuse's `passthrough_hp` (3.14) as it comes: the kernel writes back later from its own cache, names and
  attributes are kept for a day, data goes by `splice`. *Equal options* compares with **hp-through** instead, the same
  without write-back in the kernel. No option gives iopace that: a write would come without the process it is of.
- **bindfs**: `--multithreaded`, time-outs of an hour and `kernel_cache`.

{mounts}
Where iopace is slower, and why as far as that is known:

- *Writes of 4 KiB against hp as it comes.* With the kernel's write-back cache a program writes into memory and one
  request in 256 reaches the server. iopace has each write at once, with who wrote it: that is what it paces by.
- *Direct reads and writes.* bindfs opens the file below without `O_DIRECT`: its figures are those of the page cache
  below, not of the disk. hp fails at direct writes (`EINVAL`).
- *Reads of data that is cached below.* Supposed, not shown: hp moves pages by `splice`; iopace copies them once more, as the library that
  speaks to the kernel has no `splice`.
- *Many files one after the other.* iopace, as hp, holds a descriptor for each file that the kernel knows.

## Being looked at

`scripts/bench_live.py`: a daemon with 1000 groups, each with an export, a client and a read a second, so that all are in
every histogram and as many as fit in every report; fio in one of them, 4 KiB random reads, scheduler `fair`, the disk
modelled (`null` takes no time). Pairs of runs with and without somebody who looks: a scrape of `/metrics` each second,
100 streams of `/v1/live/stream` that are read and thrown away, both. Who looks runs on the same processors, with the least
priority. *Nobody, again* says what two runs without anybody differ by. Ratios are with over without, the
median of the pairs, and the least and largest of them. The last table is the same daemon with and without time accounting
(`examples/null_device`), model `null`, fio alone.

{live}
## The policy alone

Submit, start and completion through the engine, 32 requests always there, four at the disk
(`scripts/policy_cost.sh`). Nanoseconds are the best of five runs of a million requests; instructions
are counted by callgrind and do not depend on the machine's load. The aim is 200 ns at up to 16 tasks.

{cost}"""

main()
