#!/usr/bin/env python3
"""Whether being looked at disturbs I/O: a daemon with 1000 groups that all do something, and fio's
p99 and throughput beside scrapes of /metrics and a hundred open streams of live data, in pairs.

    scripts/bench_live.py [windows|disturbance|memory|accounting]...

Writes tables for docs/benchmarks.md. IOPACE_BIN is the program, ACCOUNTED the example
`null_device` of iopace-daemon (for `accounting`). PAIRS (5), SECONDS_EACH (2), LISTEN (180, seconds
of `memory`), WINDOWS (20, seconds of each run of `windows`). Ratios are with over without, of each
pair; in brackets the least and the largest.
"""

import atexit
import bisect
import json
import os
import random
import resource
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

IOPACE = os.environ.get("IOPACE_BIN", "target/release/iopace")
ACCOUNTED = os.environ.get("ACCOUNTED", "target/release/examples/null_device")
PAIRS = int(os.environ.get("PAIRS", "5"))
SECONDS = os.environ.get("SECONDS_EACH", "2")
LISTEN = int(os.environ.get("LISTEN", "180"))
NOBODY_S = 0.05  # what windows are compared in which nobody looks
WINDOWS = int(os.environ.get("WINDOWS", "20"))
GROUPS, STREAMS, SIZE = 1000, 100, 256 << 20


class Nbd:
    """As little of an NBD client as reads 4 KiB."""

    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.take(18)
        self.socket.sendall(struct.pack(">I", 3))  # fixed newstyle, no zeroes
        name = export.encode()
        option = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self.socket.sendall(b"IHAVEOPT" + struct.pack(">II", 7, len(option)) + option)
        while True:
            _, _, kind, length = struct.unpack(">QIII", self.take(20))
            self.take(length)
            if kind == 1:
                return
            assert kind < 1 << 31, f"export {export} is refused"

    def take(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            assert piece, "the daemon has hung up"
            data += piece
        return data

    def read(self):
        offset = random.randrange(SIZE // 4096) * 4096
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, offset, 4096))
        self.take(16 + 4096)


class Daemon:
    """One device; each of a thousand groups has an export and a client."""

    def __init__(self, folder, model):
        self.folder = folder
        self.socket, self.control = os.path.join(folder, "s"), os.path.join(folder, "ctl")
        config = os.path.join(folder, "c.toml")
        with open(config, "w") as file:
            file.write(f'[[device]]\nname = "disk"\nemulate = "{model}"\ndirect = true\n')
            file.write(f'size = "{SIZE >> 20}MiB"\nsched = "fair"\n')
            for number in range(GROUPS):
                path = f"/tenants/t{number // 100}/g{number:04}"
                file.write(f'[[export]]\nname = "e{number}"\ndevice = "disk"\ngroup = "{path}"\n')
                file.write(f'[group."{path}"]\n"io.weight" = "{100 + number % 7}"\n')
        words = ["--socket", self.socket, "--control", self.control, "-q"]
        self.process = subprocess.Popen([IOPACE, "serve", "--config", config, *words],
                                        stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # if something fails before it is stopped
        assert self.process.stdout.readline().startswith("nbd"), "the daemon did not start"
        self.ended = threading.Event()
        self.clients = [Nbd(self.socket, f"e{number}") for number in range(1, GROUPS)]
        self.worker = threading.Thread(target=self.touch, daemon=True)
        self.worker.start()
        time.sleep(3)

    def touch(self):
        """Each group reads once a second, so that each is in every report and every histogram."""
        while not self.ended.is_set():
            begin = time.monotonic()
            for client in self.clients:
                client.read()
                if self.ended.wait(0.3 / GROUPS):
                    return
            self.ended.wait(max(0, 1 - (time.monotonic() - begin)))

    def rss_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

    def seconds_of_looking(self):
        """Processor time of the threads that look, answer and make texts: none of them does I/O."""
        ticks, tasks = 0, f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            try:
                with open(f"{tasks}/{task}/stat") as stat:
                    name, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
            except OSError:  # it has ended
                continue
            if int(task) == self.process.pid or name.startswith(("aside", "live", "tokio")):
                ticks += sum(map(int, rest.split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.ended.set()
        self.worker.join()
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0, "the daemon did not end well"


def ask(control, path):
    """Sends a request and leaves the answer to the caller."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(control)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    return client


def scrape(control):
    with ask(control, "/metrics") as client:
        length = 0
        while piece := client.recv(1 << 20):
            length += len(piece)
        return length


def look(control, scrapes, streams):
    """What looks, as a process of its own: scrapes every second, streams read and thrown away. It
    steps aside: browsers and Prometheus are elsewhere, and what the daemon does for them counts."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    selector = selectors.DefaultSelector()
    for _ in range(streams):
        client = ask(control, "/v1/live/stream")
        client.setblocking(False)
        selector.register(client, selectors.EVENT_READ)
    buffer, due, busy = bytearray(1 << 20), time.monotonic(), []
    print("ready", flush=True)
    while True:
        if scrapes and time.monotonic() >= due:
            begin, due = time.time(), due + 1
            scrape(control)
            print(begin, time.time(), flush=True)
        ready = selector.select(max(0.01, due - time.monotonic()) if scrapes else 0.1)
        for key, _ in ready:
            assert key.fileobj.recv_into(buffer), "a stream has ended"
        # A burst is over when nothing has come for a tenth of a second.
        if ready:
            busy = [busy[0] if busy else time.time(), time.time()]
        elif busy and not scrapes:
            print(*busy, flush=True)
            busy = []


class Looker:
    def __init__(self, daemon, scrapes, streams):
        words = ["look", daemon.control, str(int(scrapes)), str(streams)]
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, __file__, *words], stdout=self.said)
        while not self.lines():
            assert self.process.poll() is None, "the looker has failed"
            time.sleep(0.05)
        time.sleep(1.2)  # the first report and the first scrape

    def lines(self):
        self.said.seek(0)
        return self.said.read().splitlines(keepends=False)

    def windows(self):
        """When it was at work, from and to, in seconds."""
        return [tuple(map(float, line.split())) for line in self.lines()[1:]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.process.poll() is None, "the looker has failed"
        self.process.kill()
        self.process.wait()


def fio(folder, uri, depth):
    """Requests per second and p99 in µs of random reads of 4 KiB."""
    out = os.path.join(folder, "fio.json")
    command = ["fio", "--name=bench", "--ioengine=nbd", f"--uri={uri}", "--rw=randread", "--bs=4k"]
    command += [f"--iodepth={depth}", f"--size={SIZE - (12 << 20)}", "--time_based"]
    command += [f"--runtime={SECONDS}", "--output-format=json", f"--output={out}"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out) as text:
        text = text.read()
    read = json.loads(text[text.index("{") :])["jobs"][0]["read"]
    return read["iops"], read["clat_ns"]["percentile"]["99.000000"] / 1000


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.2f} to {max(values):.2f})"


def signed(values):
    return f"{statistics.median(values):+.2f} ({min(values):+.2f} to {max(values):+.2f})"


def processor(process):
    """Seconds of processor time that it has used."""
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


LOOKS = [("nobody, again", False, 0), ("a scrape each second", True, 0),
         (f"{STREAMS} streams", False, STREAMS), ("both", True, STREAMS)]


def disturbance():
    print("| disk | depth | beside | k/s without | throughput | p99 µs without | p99 | "
          "processor of the daemon's lookers |")
    print("|---|---|---|---|---|---|---|---|")
    for model in ("null", "ssd-nvme"):
        with tempfile.TemporaryDirectory(prefix="iopace-live-") as folder:
            daemon = Daemon(folder, model)
            uri = f"nbd+unix:///e0?socket={daemon.socket}"
            for depth in (1, 32):
                for name, scrapes, streams in LOOKS:
                    disturbed(daemon, (model, depth, name), uri, scrapes, streams)
            daemon.stop()


def disturbed(daemon, row, uri, scrapes, streams):
    model, depth, name = row
    pairs, used = [], []
    for pair in range(PAIRS):
        results = {}
        for looked in ([False, True], [True, False])[pair % 2]:
            if looked and (scrapes or streams):
                with Looker(daemon, scrapes, streams):
                    before, begin = daemon.seconds_of_looking(), time.monotonic()
                    results[looked] = fio(daemon.folder, uri, depth)
                    used.append((daemon.seconds_of_looking() - before) / (time.monotonic() - begin))
            else:
                results[looked] = fio(daemon.folder, uri, depth)
        pairs.append((results[False], results[True]))
    without = [statistics.median(values) for values in zip(*(pair[0] for pair in pairs))]
    ratios = [[on[i] / off[i] for off, on in pairs] for i in (0, 1)]
    busy = f"{100 * statistics.median(used):.0f} %" if used else "-"
    print(f"| {model} | {depth} | {name} | {without[0] / 1000:.1f} | {spread(ratios[0])} | "
          f"{without[1]:.0f} | {spread(ratios[1])} | {busy} |", flush=True)


def windows():
    """The same within one run: latencies while somebody looks beside those half a second later."""
    print("| disk | depth | while | p99 µs half a second later | p99 | throughput | windows, ms each |")
    print("|---|---|---|---|---|---|---|")
    for model in ("null", "ssd-nvme"):
        with tempfile.TemporaryDirectory(prefix="iopace-live-") as folder:
            daemon = Daemon(folder, model)
            for depth in (1, 32):
                log = logged(daemon, depth)
                begin = log[0][0] / 1000
                nobody = [(begin + second, begin + second + NOBODY_S) for second in range(1, WINDOWS)]
                compared((model, depth, "nobody looks"), log, nobody)
                for name, scrapes, streams in LOOKS[1:3]:
                    with Looker(daemon, scrapes, streams) as looker:
                        log = logged(daemon, depth)
                        found = looker.windows()
                    compared((model, depth, name), log, found)
            daemon.stop()


def logged(daemon, depth):
    """Time and latency in ns of each request of a run."""
    log = os.path.join(daemon.folder, "log")
    uri = f"nbd+unix:///e0?socket={daemon.socket}"
    words = f"--rw=randread --bs=4k --iodepth={depth} --size={SIZE - (12 << 20)} --time_based "
    words += f"--runtime={WINDOWS} --write_lat_log={log} --log_unix_epoch=1 --disable_slat=1"
    command = ["fio", "--name=bench", "--ioengine=nbd", f"--uri={uri}", *words.split()]
    subprocess.run(command, cwd=daemon.folder, check=True, stdout=subprocess.DEVNULL)
    with open(f"{log}_lat.1.log") as lines:
        return sorted(tuple(map(int, line.split(",", 2)[:2])) for line in lines)


def compared(row, log, found):
    model, depth, name = row
    times, during, later = [at for at, _ in log], [], []
    length_ms = 0
    for begin, end in found:
        begin, end = int(1000 * begin), int(1000 * end) + 1
        if begin < times[0] or end + 500 > times[-1] or end - begin >= 500:
            continue
        for shift, into in ((0, during), (500, later)):
            first = bisect.bisect_left(times, begin + shift)
            into.append([ns for _, ns in log[first : bisect.bisect_left(times, end + shift)]])
        length_ms += end - begin
    p99 = lambda parts: sorted(sum(parts, []))[99 * sum(map(len, parts)) // 100] / 1000
    rates = [len(one) / len(other) for one, other in zip(during, later) if other]
    print(f"| {model} | {depth} | {name} | {p99(later):.0f} | {p99(during) / p99(later):.2f} | "
          f"{sum(map(len, during)) / sum(map(len, later)):.2f} (median {statistics.median(rates):.2f}) | "
          f"{len(during)}, {length_ms // len(during)} |", flush=True)


def memory():
    with tempfile.TemporaryDirectory(prefix="iopace-live-") as folder:
        daemon = Daemon(folder, "null")
        begin = daemon.rss_mib()
        with Looker(daemon, True, 10):
            time.sleep(LISTEN)
            listened = daemon.rss_mib()
        with ask(daemon.control, "/v1/live?history=120") as client:
            history = sum(iter(lambda: len(client.recv(1 << 20)), 0))
        length = scrape(daemon.control)
        times = []
        for _ in range(5):
            before = time.monotonic()
            scrape(daemon.control)
            times.append(time.monotonic() - before)
        print(f"Memory (RSS) with {GROUPS} groups and clients that all read: {begin:.0f} MiB after "
              f"3 s, {listened:.0f} MiB after {LISTEN} s of a scrape each second and 10 streams, "
              f"{daemon.rss_mib():.0f} MiB after the history of {history / 2**20:.1f} MiB was asked "
              f"for. A scrape is {length / 2**20:.1f} MiB and takes "
              f"{1000 * statistics.median(times):.0f} ms.", flush=True)
        daemon.stop()


def accounting():
    """The same device with and without time accounting, each in a process of its own."""
    print("| depth | k/s without | throughput with | µs more per request | "
          "processor µs per request without | more |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="iopace-live-") as folder:
        started = []
        for number, words in enumerate(([], ["--no-accounting"])):
            path = os.path.join(folder, f"s{number}")
            process = subprocess.Popen([ACCOUNTED, path, *words], stdout=subprocess.PIPE, text=True)
            uri = process.stdout.readline().strip()
            assert uri.startswith("nbd+unix"), "the daemon did not start"
            started.append((process, uri))
        for depth in (1, 32):
            pairs, busy = [], {}
            for pair in range(2 * PAIRS):
                rates = {}
                for side in ([0, 1], [1, 0])[pair % 2]:
                    process, uri = started[side]
                    before = processor(process)
                    rates[side] = fio(folder, uri, depth)[0]
                    # fio reads what it says a second of, for as many seconds.
                    used = processor(process) - before
                    busy.setdefault(side, []).append(1e6 * used / (rates[side] * int(SECONDS)))
                pairs.append(rates)
            ratios = [rates[0] / rates[1] for rates in pairs]
            more = [1e6 / rates[0] - 1e6 / rates[1] for rates in pairs]
            without = statistics.median(rates[1] for rates in pairs)
            print(f"| {depth} | {without / 1000:.1f} | {spread(ratios)} | "
                  f"{signed(more)} | {statistics.median(busy[1]):.2f} | "
                  f"{signed([on - off for on, off in zip(busy[0], busy[1])])} |", flush=True)
        for process, _ in started:
            process.kill()
            process.wait()


def main():
    if sys.argv[1:2] == ["look"]:
        look(sys.argv[2], sys.argv[3] == "1", int(sys.argv[4]))
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    parts = {"windows": windows, "disturbance": disturbance, "memory": memory, "accounting": accounting}
    for name in sys.argv[1:] or parts:
        parts[name]()
        print(flush=True)


main()
