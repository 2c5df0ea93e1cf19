"""A directory behind `iopace mount`, passthrough_hp and bindfs, in turn, as ratios.

Run as root by bench.sh, or by hand: IOPACE_BIN=... PASSTHROUGH_HP=... bench_mount.py [OUT].
TMPDIR says on which file system, ROUNDS (3) how often, ONLY (all) which loads, MOUNTS (all) which
mounts. A figure is seconds of a fixed amount of work, with a mount of its own that has cached
nothing; CPU seconds are those of the server and of the program together.
"""

import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(os.environ.get("ROUNDS", "3"))
ONLY = os.environ.get("ONLY", "").split()
MOUNTS = os.environ.get("MOUNTS", "").split()
IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
HP = os.environ.get("PASSTHROUGH_HP", "")
MIB = 1 << 20
BIG = 256 * MIB
SMALL_WRITES = 64 * MIB
NAMES = 5000
ENTRIES = 10000
FAILED = (math.inf, math.inf)
FOLDERS, FILES = 100, 40  # of the tree


def servers(data, at, own):
    """Each is a command, its environment and where it shows the directory.

    hp writes back later from the kernel's cache, keeps names and attributes for a day and moves
    data by splice(2); hp-through is the same without the first. With
    bindfs, O_DIRECT is not direct below.
    """
    run = os.path.join(own, "run")
    os.makedirs(run, exist_ok=True)
    env = {"XDG_RUNTIME_DIR": run}
    options = [word for word in os.environ.get("IOPACE_OPTIONS", "").split() if word]
    over = [IOPACE, "mount", data, "--foreground", "--control", os.path.join(own, "ctl"), *options]
    timeouts = "attr_timeout=3600,entry_timeout=3600,negative_timeout=3600,kernel_cache"
    bindfs = ["bindfs", "-f", "--multithreaded", "-o", timeouts, data, at]
    all_of_them = {"iopace": (over, env, data), "elsewhere": (over[:3] + [at] + over[3:], env, at)}
    if HP:
        hp = [HP, "--foreground", data, at]
        all_of_them["hp"] = (hp, {}, at)
        all_of_them["hp-through"] = (hp, {"NO_WRITEBACK_CACHE": "1"}, at)
    if shutil.which("bindfs"):
        all_of_them["bindfs"] = (bindfs, {}, at)
    return {name: one for name, one in all_of_them.items() if not MOUNTS or name in MOUNTS}


class Mount:
    """A server that runs and has mounted."""

    def __init__(self, command, env, at):
        self.at, before = at, os.stat(at).st_dev
        self.process = subprocess.Popen(
            command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(500):
            if os.stat(at).st_dev != before:
                return
            if self.process.poll() is not None:
                raise SystemExit(f"bench: {' '.join(command)} ended: {self.process.returncode}")
            time.sleep(0.01)
        raise SystemExit(f"bench: {' '.join(command)} does not mount")

    def cpu(self):
        """User and system time so far, in seconds."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        subprocess.run(["umount", self.at], check=False)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()


def pieces(path, block, size, write=False):
    """Reads or writes a file from its beginning on."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if write else os.O_RDONLY
    file, buffer = os.open(path, flags, 0o644), bytearray(os.urandom(block))
    for _ in range(size // block):
        if write:
            os.write(file, buffer)
        else:
            os.readv(file, [buffer])
    os.close(file)


def fio(folder, rw, jobs, more):
    command = ["fio", "--name=b", f"--filename={folder}/big", f"--rw={rw}", "--bs=4k", "--thread"]
    command += [f"--numjobs={jobs}", f"--size={BIG // jobs}", f"--offset_increment={BIG // jobs}"]
    command += ["--randseed=7", "--fadvise_hint=random", *more]
    subprocess.run(command, cwd="/", check=True, stdout=subprocess.DEVNULL)


def psync(rw, jobs, mib):
    return lambda folder: fio(folder, rw, jobs, ["--ioengine=psync", f"--io_size={mib * MIB // jobs}"])


def direct(rw, depth, mib):
    more = ["--ioengine=libaio", "--direct=1", f"--iodepth={depth}", f"--io_size={mib * MIB}"]
    return lambda folder: fio(folder, rw, 1, more)


def create(folder):
    os.mkdir(f"{folder}/new")
    for number in range(NAMES):
        file = os.open(f"{folder}/new/{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(file, b"some bytes")
        os.close(file)


def stat(folder):
    for number in range(NAMES):
        os.stat(f"{folder}/many/{number}")


def stat_again(folder):
    for _ in range(4):
        stat(folder)


def small_reads(folder):
    for number in range(NAMES):
        file = os.open(f"{folder}/many/{number}", os.O_RDONLY)
        os.read(file, 4096)
        os.close(file)


def unlink(folder):
    for number in range(NAMES):
        os.unlink(f"{folder}/gone/{number}")


def fill(folder):
    def before():
        os.mkdir(folder)
        for number in range(NAMES):
            with open(f"{folder}/{number}", "w") as file:
                file.write("some bytes")

    return before


def listing(folder):
    for _ in range(5):
        os.listdir(f"{folder}/entries")


def long_listing(folder):
    for entry in os.scandir(f"{folder}/entries"):
        entry.stat(follow_symlinks=False)


def git(*words):
    def run(folder):
        subprocess.run(["git", "-C", f"{folder}/{words[0]}", *words[1:]], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


def tar(folder):
    pipe = f"tar -C {folder}/tree -c . | cat >/dev/null"
    subprocess.run(["sh", "-c", pipe], check=True, stderr=subprocess.DEVNULL)


def drop_below(_):
    """All that the kernel has of any file."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("1")


def warm_below(below):
    file = os.open(below, os.O_RDONLY)
    while os.read(file, MIB):
        pass
    os.close(file)


# Name, work, what is done below before the mount, what below when it is mounted, what is removed.
def loads(data, own):
    gone, again = f"{data}/gone", f"{data}/again"
    clone = lambda: subprocess.run(
        ["git", "clone", "-qns", f"{own}/repository", again], check=True, stderr=subprocess.DEVNULL)
    big, new = lambda d: f"{d}/big", lambda d: f"{d}/written"
    all_of_them = [
        ("sequential read, warm below", lambda d: pieces(big(d), MIB, BIG), None, warm_below, []),
        ("sequential read, cold below", lambda d: pieces(big(d), MIB, BIG), None, drop_below, []),
        ("sequential write, 1 MiB", lambda d: pieces(new(d), MIB, BIG, True), None, None, ["written"]),
        ("sequential write, 4 KiB", lambda d: pieces(new(d), 4096, SMALL_WRITES, True), None, None,
         ["written"]),
        ("random read 4 KiB", psync("randread", 1, 64), None, warm_below, []),
        ("random read 4 KiB, 4 jobs", psync("randread", 4, 128), None, warm_below, []),
        ("random write 4 KiB", psync("randwrite", 1, 64), None, warm_below, []),
        ("random write 4 KiB, 4 jobs", psync("randwrite", 4, 128), None, warm_below, []),
        ("random read 4 KiB, direct, depth 1", direct("randread", 1, 16), None, None, []),
        ("random read 4 KiB, direct, depth 16", direct("randread", 16, 32), None, None, []),
        ("random write 4 KiB, direct, depth 1", direct("randwrite", 1, 8), None, None, []),
        ("random write 4 KiB, direct, depth 16", direct("randwrite", 16, 16), None, None, []),
        (f"create {NAMES} files", create, None, None, ["new"]),
        (f"stat {NAMES} files", stat, None, None, []),
        ("stat them, 4 times", stat_again, None, None, []),
        (f"read {NAMES} files", small_reads, None, None, []),
        (f"list {ENTRIES} names, 5 times", listing, None, None, []),
        (f"list {ENTRIES} files with attributes", long_listing, None, None, []),
        (f"git checkout, {FOLDERS * FILES} files", git("again", "checkout", "-q", "HEAD"), clone, None,
         ["again"]),
        ("git status", git("tree", "status", "--short"), None, None, []),
        ("tar of the tree", tar, None, None, []),
        # The last one: ext4 looks long for an inode that was not freed a while ago.
        (f"unlink {NAMES} files", unlink, fill(gone), None, ["gone"]),
    ]
    return [load for load in all_of_them if not ONLY or any(word in load[0] for word in ONLY)]


def prepare(data, own):
    """Files, a large directory and a repository, the same for all."""
    os.makedirs(f"{data}/entries")
    with open(f"{data}/big", "wb") as file:
        for _ in range(BIG // MIB):
            file.write(os.urandom(MIB))
    os.link(f"{data}/big", f"{data}/../big")
    fill(f"{data}/many")()
    for number in range(ENTRIES):
        os.close(os.open(f"{data}/entries/{number}", os.O_CREAT | os.O_WRONLY))
    repository, draw = f"{own}/repository", random.Random(7)
    for folder in range(FOLDERS):
        os.makedirs(f"{repository}/{folder % 10}/{folder}")
        for number in range(FILES):
            with open(f"{repository}/{folder % 10}/{folder}/{number}", "wb") as file:
                file.write(draw.randbytes(draw.randrange(200, 12000)))
    words = ["git", "-C", repository, "-c", "user.name=b", "-c", "user.email=b@b"]
    for more in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run(words + more, check=True)
    subprocess.run(["git", "clone", "-qs", repository, f"{data}/tree"], check=True)
    os.sync()
    time.sleep(1.1)  # files as old as git's index are read again
    git("tree", "status")(data)


def timed(work, folder, server):
    """Wall and CPU seconds of the work, in a process of its own."""
    os.sync()  # nobody pays for the pages that the one before made dirty
    reader, writer = os.pipe()
    used = server.cpu()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            begin = time.monotonic()
            work(folder)
            os.write(writer, str(time.monotonic() - begin).encode())
            status = 0
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        wall = answer.read()
    if status:
        return FAILED  # and so do passthrough_hp and bindfs at some, see the page
    return float(wall), server.cpu() - used + usage.ru_utime + usage.ru_stime


def measure(load, server, data):
    _, work, before, mounted, removed = load
    command, env, at = server
    if before:
        before()
    mount = Mount(command, env, at)
    try:
        if mounted:
            # By a name of the big file past the mount: nobody has the directory open, as iopace
            # keeps less for a directory that others have.
            mounted(f"{data}/../big")
        return timed(work, at, mount)
    finally:
        mount.end()
        for name in removed:
            os.rename(os.path.join(data, name), tempfile.mktemp(dir=f"{data}/../old"))


def ratio(rounds, which, peers):
    """The best of the peers against ours, round by round: above 1, ours is quicker."""
    peers = [name for name in peers if name in rounds[0]]
    if not peers or "iopace" not in rounds[0]:
        return "-"
    best = [min(one[name][which] for name in peers) / one["iopace"][which] for one in rounds]
    if math.isinf(max(best)):
        return "-"
    return f"{statistics.median(best):.2f}"


def main():
    rows = []
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: mounts are measured as root, with /dev/fuse")
        if len(sys.argv) > 1:
            with open(sys.argv[1], "w") as out:
                out.write("Not measured: that needs root and `/dev/fuse`.\n")
        return
    with tempfile.TemporaryDirectory(prefix="iopace-bench-") as own:
        data, at = os.path.join(own, "data"), os.path.join(own, "at")
        os.mkdir(at)
        os.mkdir(os.path.join(own, "old"))
        prepare(data, own)
        known = servers(data, at, own)
        for load in loads(data, own):
            rounds = []
            for turn in range(ROUNDS):
                order = list(known)[turn % len(known):] + list(known)[:turn % len(known)]
                rounds.append({name: measure(load, known[name], data) for name in order})
            median = lambda name, which: statistics.median(one[name][which] for one in rounds)
            shown = lambda n: f"{median(n, 0):.2f} ({median(n, 1):.2f})".replace("inf (inf)", "fails")
            cells = [load[0]] + [shown(name) for name in known]
            for peers in (["hp", "bindfs"], ["hp-through", "bindfs"]):
                if "direct" in load[0]:
                    peers.remove("bindfs")  # it is not: what it does is other work
                cells += [f"{ratio(rounds, 0, peers)} ({ratio(rounds, 1, peers)})"]
            rows.append("| " + " | ".join(cells) + " |")
            print(rows[-1], flush=True)
    head = f"| load | {' | '.join(known)} | ratio | ratio, equal options |\n"
    head += "|---" * (3 + len(known)) + "|\n"
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as out:
            out.write(head + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
