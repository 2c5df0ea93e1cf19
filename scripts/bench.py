"""Puts what was measured into a page: bench.py PAGE [nbd] [NAME=FILE ...]. See bench.sh.

Each part of the page stands between two marks, which name it; all else is left as it is. `nbd` is
measured here: fio's nbd engine against iopace, nbdkit and qemu-nbd, in turn, as ratios.
"""

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

from figures import put

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
    """Mean latency at depth 1 with a scheduler less that with fifo, pair by pair."""
    rows = ["| scheduler | added mean latency, µs | aim |", "|---|---|---|"]
    measure = lambda: fio(folder, server.uri, "randread", "4k", 1, 1)[1]
    # One is inserted, see the servers.
    exchange = lambda name: subprocess.run(
        [IOPACE, "sched", "configure", "-a", name, "--control", control],
        check=True, stdout=subprocess.DEVNULL)
    for name in ("deadline", "rr", "fair"):
        differences = []
        for _ in range(2 * ROUNDS):
            exchange("fifo")
            without = measure()
            exchange(name)
            differences.append(measure() - without)
        rows.append(f"| {name} | {statistics.median(differences):+.2f} | ≤ 2 |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def nbd():
    """The parts of the page that are measured here, by name."""
    with tempfile.TemporaryDirectory(prefix="iopace-bench-") as folder:
        servers = servers_on_a_file(folder)
        try:
            parts = {"file": compare(folder, servers)}
        finally:
            for server in servers:
                server.stop()
        servers = servers_in_memory(folder)
        try:
            parts["memory"] = compare(folder, servers)
            parts["added"] = added_latency(folder, servers[0], os.path.join(folder, "n.ctl"))
        finally:
            for server in servers:
                server.stop()
    parts["machine"] = (
        f"{os.cpu_count()} shared cores, Linux {platform.release().split('-')[0]}, {ROUNDS} rounds of "
        f"{SECONDS} s each."
    )
    return parts


def main():
    path, *given = sys.argv[1:]
    parts = {}
    for word in given:
        name, _, file = word.partition("=")
        if word == "nbd":
            parts.update(nbd())
            continue
        with open(file) as text:
            parts[name] = text.read()
    with open(path) as page:
        page = page.read()
    for name, text in parts.items():
        page = put(page, name, text)
    with open(path, "w") as out:
        out.write(page)


main()
