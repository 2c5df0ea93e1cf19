#!/usr/bin/env python3
"""Two builds of iopace beside each other: the same loads, in turn, as ratios.

    scripts/bench_pairs.py --old BINARY [--new BINARY] [--rounds N] [--only WORD]... [--format json]

Root only, as most rows go through a mount. A row is a fixed amount of work. Each round has every
row once with either build, and the order changes from round to round. Ratios are the median of the
old build over that of the new one, so less than 1 is slower now; in brackets the least and largest
ratio of one round. Processor time is that of the daemon alone. System calls and page faults of the
daemon are counted by perf (where there is one) in a round that is not timed: those of a mount hardly
depend on what else the machine does, those of NBD do, with the size of batches. TMPDIR says on
which file system.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
SIZE = 256 * MIB
FILES = 2000
USER = 12345  # of no account: a user who is not root
COUNTED = ["raw_syscalls:sys_enter", "page-faults"]
DIRECT = ["--ioengine=libaio", "--direct=1"]


class Daemon:
    """A build that serves; its processor time so far."""

    def __init__(self, command, env=None):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, env={**os.environ, **(env or {})},
                                        stdout=subprocess.DEVNULL, stderr=self.errors)

    def wait_for(self, is_ready):
        for _ in range(6000):
            if is_ready():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)  # SLEEP: between two looks whether it serves
        self.errors.seek(0)
        said = self.errors.read().strip()
        raise SystemExit(f"bench: {' '.join(self.process.args)} does not serve: {said}")

    def cpu(self):
        # CPUCLOCK_SCHED of the process: all its threads, those that have ended too.
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def end(self):
        self.process.terminate()
        self.process.wait()

    def counted(self, work, events=COUNTED):
        """Does the work; how often each event came meanwhile, as far as that can be counted. An
        event may be followed by a space and a filter."""
        with tempfile.NamedTemporaryFile("r") as out:
            command = ["perf", "stat", "-x,", "-o", out.name]
            for event in events:
                name, _, only = event.partition(" ")
                command += ["-e", name] + (["--filter", only] if only else [])
            perf = subprocess.Popen([*command, "-p", str(self.process.pid)],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.5)  # SLEEP: perf does not say when it begins
            try:
                work()
            finally:
                perf.send_signal(signal.SIGINT)
                perf.wait()
            lines = [line.split(",") for line in out if "," in line]
        counts = [int(cells[0]) if cells[0].isdigit() else None for cells in lines]
        return counts if len(counts) == len(events) else [None] * len(events)


def in_child(work, uid):
    """Seconds of the work in a process of its own, as this user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if uid:
                os.setgroups([uid])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            begin = time.monotonic()
            work()
            os.write(writer, repr(time.monotonic() - begin).encode())
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        wall = answer.read()
    if status:
        raise SystemExit("bench: a load has failed")
    return float(wall)


def sync(folder):
    subprocess.run(["sync", "-f", folder], check=True)  # the rest of the machine may take long


def fio(*words):
    command = ["fio", "--name=pairs", "--randseed=7", "--output-format=json", *words]
    out = subprocess.run(command, cwd="/", check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    jobs = json.loads(out[out.index("{"):])["jobs"]
    return max(job["job_runtime"] for job in jobs) / 1000


class NbdRow:
    """fio's nbd engine against both builds, which serve all the while."""

    stays = True

    def __init__(self, kind, rw, block, depth, count, connections=1):
        self.kind, self.operations = kind, count
        self.name = f"NBD, {kind}: {rw} {block >> 10} KiB, depth {depth}"
        self.words = ["--ioengine=nbd", f"--rw={rw}", f"--bs={block}", f"--iodepth={depth}",
                      f"--size={SIZE}", f"--io_size={count // connections * block}",
                      "--norandommap", f"--numjobs={connections}"]
        if connections > 1:
            self.name += f", {connections} connections"

    def serve(self, build, folder):
        own = os.path.join(folder, f"{build.name}-{self.kind}".replace(" ", "-"))
        socket = own + ".nbd"
        command = [build.path, "serve", "--socket", socket, "--control", own + ".ctl"]
        if self.kind == "no disk":
            command += ["--emulate", "null", "--direct", "--size", str(SIZE)]
            export = "null"
        else:
            image, export = own + ".img", os.path.basename(own)
            if not os.path.exists(image):
                with open(image, "wb") as file:
                    for _ in range(SIZE // MIB):
                        file.write(os.urandom(MIB))
                    os.fsync(file.fileno())
            command += [image] + (["--direct"] if self.kind == "direct" else [])
        daemon = Daemon(command)
        daemon.wait_for(lambda: os.path.exists(socket))
        self.uri = {**getattr(self, "uri", {}), build.name: f"nbd+unix:///{export}?socket={socket}"}
        return daemon

    def run(self, daemon, build):
        return fio(*self.words, f"--uri={self.uri[build.name]}")


class MountRow:
    """Work in a directory behind a mount that has cached nothing."""

    stays = False

    def __init__(self, name, operations, work, uid=0, before=None, elsewhere=False):
        self.name = "mount elsewhere: " * elsewhere + name + ", as a user" * bool(uid)
        self.operations, self.work, self.uid = operations, work, uid
        self.before, self.elsewhere = before, elsewhere

    def serve(self, build, folder):
        data, at = os.path.join(folder, "data"), os.path.join(folder, "at")
        self.shown = shown = at if self.elsewhere else data
        if self.before:
            in_child(lambda: empty(data), 0)
            in_child(lambda: self.before(data), self.uid)
        sync(folder)
        outside = os.stat(shown).st_dev
        places = [data, at] if self.elsewhere else [data]
        command = [build.path, *build.mount, *places, "--foreground"]
        daemon = Daemon([*command, "--control", os.path.join(folder, "ctl")],
                        {"XDG_RUNTIME_DIR": os.path.join(folder, "run")})
        try:
            daemon.wait_for(lambda: os.stat(shown).st_dev != outside)
        except SystemExit:
            self.end(daemon)
            raise
        return daemon

    def run(self, daemon, _):
        if isinstance(self.work, list):
            return fio(f"--filename={self.shown}/big", f"--size={SIZE}", *self.work)
        return in_child(lambda: self.work(self.shown), self.uid)

    def end(self, daemon):
        subprocess.run(["umount", self.shown], check=False)
        try:
            daemon.process.wait(30)
        except subprocess.TimeoutExpired:
            daemon.end()


def fill(folder):
    os.mkdir(f"{folder}/own")
    for number in range(FILES):
        with open(f"{folder}/own/{number}", "w") as file:
            file.write("some bytes")


def empty(folder):
    if os.path.exists(f"{folder}/own"):
        for name in os.listdir(f"{folder}/own"):
            os.unlink(f"{folder}/own/{name}")
        os.rmdir(f"{folder}/own")


def create(folder):
    os.mkdir(f"{folder}/own")
    for number in range(FILES):
        file = os.open(f"{folder}/own/{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(file, b"some bytes")
        os.close(file)


def unlink(folder):
    for number in range(FILES):
        os.unlink(f"{folder}/own/{number}")


def stat(folder):
    for number in range(FILES):
        os.stat(f"{folder}/many/{number}")


def chmod(folder):
    for number in range(FILES):
        os.chmod(f"{folder}/own/{number}", 0o600)


def open_close(folder):
    for _ in range(3):
        for number in range(FILES):
            os.close(os.open(f"{folder}/many/{number}", os.O_RDONLY))


def program(*words):
    def run(folder):
        subprocess.run([word.replace("@", folder) for word in words], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


def rows():
    reads = ["--rw=randread", "--bs=4k", "--norandommap", *DIRECT]
    writes = ["--rw=randwrite", "--bs=4k", "--norandommap"]
    amount = lambda count: f"--io_size={count * 4096}"
    status = program("git", "-C", "@/tree", "status")
    tar = program("sh", "-c", "tar -C @/tree -c . | cat")
    all_of_them = [
        NbdRow("page cache", "randread", 4096, 1, 40000),
        NbdRow("page cache", "randread", 4096, 32, 200000),
        NbdRow("page cache", "randwrite", 4096, 32, 100000),
        NbdRow("page cache", "read", MIB, 4, 4000),
        NbdRow("page cache", "write", MIB, 4, 2000),
        NbdRow("direct", "randread", 4096, 1, 10000),
        NbdRow("direct", "randread", 4096, 32, 60000),
        NbdRow("direct", "randwrite", 4096, 32, 20000),
        NbdRow("no disk", "randread", 4096, 32, 200000),
        NbdRow("no disk", "randwrite", 4096, 32, 200000),
        NbdRow("no disk", "read", MIB, 4, 4000),
    ]
    for depth, count in (1, 5000), (16, 30000), (32, 30000):
        words = [*reads, f"--iodepth={depth}", amount(count)]
        all_of_them.append(MountRow(f"direct random read 4 KiB, depth {depth}", count, words))
    four = ["--numjobs=4", "--thread", "--group_reporting"]
    all_of_them += [
        MountRow("direct random read 4 KiB, 4 programs", 20000, [*reads, *four, amount(5000)]),
        MountRow("random write 4 KiB", 20000, [*writes, "--ioengine=psync", amount(20000)]),
        MountRow("random write 4 KiB, 4 programs", 40000,
                 [*writes, "--ioengine=psync", *four, amount(10000)]),
        MountRow("random write 4 KiB, direct, depth 16", 5000,
                 [*writes, *DIRECT, "--iodepth=16", amount(5000)]),
    ]
    for uid in 0, USER:
        all_of_them += [
            MountRow("create", FILES, create, uid, empty),
            MountRow("look-up and stat", FILES, stat, uid),
            MountRow("open and close", 3 * FILES, open_close, uid),
            MountRow("chmod", FILES, chmod, uid, fill),
            MountRow("unlink", FILES, unlink, uid, fill),
        ]
    return all_of_them + [
        MountRow("open and close", 3 * FILES, open_close, elsewhere=True),
        MountRow("git status", 1, status),
        MountRow("tar of a tree", 1, tar),
    ]


def prepare(folder):
    """Files that every user can see, and a repository of 2,000 files."""
    os.chmod(folder, 0o755)
    for name in "data", "at", "run":
        os.mkdir(os.path.join(folder, name))
    data = os.path.join(folder, "data")
    os.chmod(data, 0o777)
    with open(f"{data}/big", "wb") as file:
        for _ in range(SIZE // MIB):
            file.write(os.urandom(MIB))
    fill(data)
    os.rename(f"{data}/own", f"{data}/many")
    tree = f"{data}/tree"
    for number in range(FILES):
        os.makedirs(f"{tree}/{number % 50}", exist_ok=True)
        with open(f"{tree}/{number % 50}/{number}", "wb") as file:
            file.write(os.urandom(4000))
    git = ["git", "-C", tree, "-c", "user.name=b", "-c", "user.email=b@b"]
    for words in ["init", "-q"], ["add", "."], ["commit", "-qm", "all"]:
        subprocess.run(git + words, check=True)
    os.sync()
    time.sleep(1.1)  # SLEEP: git reads files anew that are as old as its index
    subprocess.run([*git, "status"], check=True, stdout=subprocess.DEVNULL)


class Build:
    """An iopace, before or after."""

    def __init__(self, name, path):
        self.name, self.path = name, os.path.realpath(path)
        # Others may be so busy that what they have open cannot be looked at in time.
        text = subprocess.run([path, "mount", "--help"], stdout=subprocess.PIPE, text=True).stdout
        self.mount = ["mount"] + ["--wait=50"] * ("--wait" in text)


def measure(row, builds, folder, rounds):
    """Wall and processor seconds of each round, and the counts of one that was not timed."""
    taken, counts = {build.name: [] for build in builds}, {}
    daemons = {build.name: row.serve(build, folder) for build in builds} if row.stays else {}
    try:
        for turn in range(rounds + 1):
            for build in builds if turn % 2 else builds[::-1]:
                daemon = daemons.get(build.name) or row.serve(build, folder)
                try:
                    sync(folder)  # no build pays for the pages that the other made dirty
                    if turn == 0 and shutil.which("perf"):
                        counts[build.name] = daemon.counted(lambda: row.run(daemon, build))
                    used = daemon.cpu()
                    if turn:
                        wall = row.run(daemon, build)
                        taken[build.name].append((wall, daemon.cpu() - used))
                finally:
                    if not row.stays:
                        row.end(daemon)
    finally:
        for daemon in daemons.values():
            daemon.end()
    return taken, counts


def summary(row, taken, counts):
    """Medians and ratios of one row."""
    found = {"name": row.name, "operations": row.operations, "rounds": len(taken["old"])}
    for which, key in (0, "wall"), (1, "cpu"):
        old, new = ([one[which] for one in taken[name]] for name in ("old", "new"))
        medians = statistics.median(old), statistics.median(new)
        pairs = [a / b for a, b in zip(old, new)]
        found[key] = {
            "old_us": medians[0] / row.operations * 1e6,
            "new_us": medians[1] / row.operations * 1e6,
            "ratio": medians[0] / medians[1],
            "least": min(pairs),
            "largest": max(pairs),
        }
    for which, key in (0, "system_calls"), (1, "page_faults"):
        of = {name: counts.get(name, [None] * 2)[which] for name in ("old", "new")}
        found[key] = {name: None if n is None else n / row.operations for name, n in of.items()}
    return found


COLUMNS = ["load", "µs per operation before", "after", "ratio",
           "µs of the daemon's processor before", "after", "ratio",
           "system calls before", "after", "page faults before", "after"]
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def line(found):
    cells = [found["name"]]
    for key in "wall", "cpu":
        side = found[key]
        cells += [f"{side['old_us']:.1f}", f"{side['new_us']:.1f}"]
        cells += [f"{side['ratio']:.2f} ({side['least']:.2f} to {side['largest']:.2f})"]
    for key in "system_calls", "page_faults":
        counts = (found[key][name] for name in ("old", "new"))
        cells += ["-" if count is None else f"{count:.2f}" for count in counts]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", required=True, help="the build before")
    parser.add_argument("--new", default=os.environ.get("IOPACE_BIN", "target/release/iopace"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", help="rows whose name has this in it")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    given = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        raise SystemExit("bench: pairs are measured as root, with /dev/fuse")
    # Whoever ends this ends the daemons too, and the mounts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended"))
    builds = [Build("old", given.old), Build("new", given.new)]
    results = []
    if given.format == "table":
        print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="iopace-pairs-") as folder:
        prepare(folder)
        for row in rows():
            if given.only and not any(word in row.name for word in given.only):
                continue
            results.append(summary(row, *measure(row, builds, folder, given.rounds)))
            shown = sys.stdout if given.format == "table" else sys.stderr
            print(line(results[-1]), file=shown, flush=True)
    if given.format == "json":
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
