"""An export as the disk of a machine (vhost-user-blk) beside our own NBD and qemu-storage-daemon.

Run by bench.sh machines, or by hand: IOPACE_BIN=... bench_vhost.py. All servers have the same file,
which is in the page cache, and are measured in turn, ROUNDS (3) times SECONDS_EACH (2). The load
is the example vhost_load: `told` sleeps until the disk calls, as a guest's kernel does, `polled`
looks all the time. iopace has the scheduler `fair` inserted. The last row is a limit of 40 MB/s.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = int(os.environ.get("SECONDS_EACH", "2"))
LIMIT_SECONDS = 10
IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
LOAD = os.environ.get("VHOST_LOAD", os.path.join(os.path.dirname(IOPACE), "examples/vhost_load"))
SIZE = 512 << 20
LIMIT = 40_000_000


class Server:
    """A server that runs until it is stopped."""

    def __init__(self, command, socket, env=None):
        self.socket = socket
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env
        )
        for _ in range(200):
            if os.path.exists(socket):
                return
            if self.process.poll() is not None:
                raise SystemExit(f"bench: {command[0]}: {self.process.stderr.read().decode()}")
            time.sleep(0.02)
        raise SystemExit(f"bench: {command[0]} makes no socket")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


def iopace(folder, image, way, *options):
    """iopace with the scheduler fair, over one way."""
    socket = os.path.join(folder, "iopace.sock")
    way = ["--vhost-user", socket] if way == "vhost" else ["--socket", socket]
    command = [IOPACE, "serve", image, "--sched", "fair", *way, *options]
    command += ["--control", os.path.join(folder, "ctl")]
    return Server(command, socket, {**os.environ, "IOPACE_RUNTIME_DIR": folder})


def peer(folder, image):
    """qemu-storage-daemon; as it reads files best from the page cache, through io_uring."""
    socket = os.path.join(folder, "qsd.sock")
    blockdev = f"driver=file,node-name=disk,filename={image},aio=io_uring,cache.direct=off"
    export = f"type=vhost-user-blk,id=e,node-name=disk,addr.type=unix,addr.path={socket},writable=on"
    command = ["qemu-storage-daemon", "--blockdev", blockdev, "--export", export]
    return Server(command, socket)


def load(server, block, depth, seconds, how, op="read"):
    """Requests per second."""
    words = [LOAD, server.socket, op, str(block), str(depth), str(seconds), how]
    return float(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def nbd(server, depth):
    """The same of fio over NBD."""
    uri = f"nbd+unix:///disk?socket={server.socket}"
    command = ["fio", "--name=b", "--ioengine=nbd", f"--uri={uri}", "--rw=randread", "--bs=4k"]
    command += [f"--iodepth={depth}", "--time_based", f"--runtime={SECONDS}", "--output-format=json"]
    # The engine says something on standard output.
    out = f"{server.socket}.json"
    command += [f"--size={SIZE}", f"--output={out}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out, encoding="utf8") as file:
        return json.load(file)["jobs"][0]["read"]["iops"]


def measure(folder, image):
    """Medians of each row, in thousands of requests per second."""
    rows = {}

    def note(name, depth, value):
        rows.setdefault((name, depth), []).append(value / 1000)

    for _ in range(ROUNDS):
        server = iopace(folder, image, "nbd")
        for depth in (1, 32):
            note("nbd", depth, nbd(server, depth))
        server.stop()
        for name, start in (("iopace", lambda: iopace(folder, image, "vhost")), ("qsd", peer)):
            if name == "qsd":
                if not shutil.which("qemu-storage-daemon"):
                    continue
                server = start(folder, image)
            else:
                server = start()
            for depth in (1, 32):
                for how in ("told", "polled"):
                    note(f"{name} {how}", depth, load(server, 4096, depth, SECONDS, how))
            server.stop()
    return {key: statistics.median(values) for key, values in rows.items()}


def limited(folder, image):
    """How near a limit comes: bytes per second over its bound."""
    server = iopace(folder, image, "vhost")
    control = os.path.join(folder, "ctl")
    words = [IOPACE, "group", "set", "/", "io.max", f"disk rbps={LIMIT}", "--control", control]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    rate = load(server, 65536, 8, LIMIT_SECONDS, "told") * 65536
    server.stop()
    return rate / LIMIT


def main():
    folder = tempfile.mkdtemp(prefix="iopace-vhost-")
    try:
        image = os.path.join(folder, "disk")
        with open(image, "wb") as file:
            for _ in range(SIZE >> 20):
                file.write(os.urandom(1 << 20))
        cells = measure(folder, image)
        ratio = limited(folder, image)
    finally:
        shutil.rmtree(folder)
    print("| random reads of 4 KiB | driver | vhost-user, k/s | NBD, k/s | ratio | aim "
          "| qemu-storage-daemon, k/s | ratio | aim |")
    print("|---|---|---|---|---|---|---|---|---|")
    for depth in (1, 32):
        for how in ("told", "polled"):
            own, other = cells[f"iopace {how}", depth], cells.get((f"qsd {how}", depth))
            plain = cells["nbd", depth]
            there = f"{other:.1f} | {own / other:.2f} | 1.0" if other else "missing | | 1.0"
            print(f"| depth {depth} | {how} | {own:.1f} | {plain:.1f} | {own / plain:.2f} | 2.0 "
                  f"| {there} |")
    print()
    print(f"A limit of {LIMIT // 1_000_000} MB/s, reads of 64 KiB at depth 8 for {LIMIT_SECONDS} s: "
          f"{ratio:.4f} of it passed (aim: 0.99 to 1.01).")


if __name__ == "__main__":
    sys.exit(main())
