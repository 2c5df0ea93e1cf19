"""Three members of etcd on one directory, a steady load of puts, and what their own metrics say.

etcd.py has the overview; `etcd_members.py --put NOTE RATE PORT...` is the program that puts.
"""

import base64
import http.client
import json
import os
import socket
import sys
import threading
import time
import urllib.request

from rivals_cgroups import Failed
from rivals_stands import PATIENCE, end

# What a control plane of containers writes: some 1 KiB, tens of times a second.
VALUE = base64.b64encode(b"v" * 1024).decode()
KEYS = 1000
PUTTERS = 4

FSYNC = "etcd_disk_wal_fsync_duration_seconds"
COMMIT = "etcd_disk_backend_commit_duration_seconds"
CHANGES = "etcd_server_leader_changes_seen_total"
LEADER = "etcd_server_has_leader"


def free_ports(count):
    """Ports of loopback that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Members:
    """The members of a cluster, each with a directory of its own in `at`; all else is etcd's
    default: heartbeats each 100 ms, an election after a second without one."""

    def __init__(self, place, side, at, count):
        self.processes, self.logs = [], []
        ports = free_ports(2 * count)
        self.ports = ports[:count]
        urls = [(f"http://127.0.0.1:{one}", f"http://127.0.0.1:{other}")
                for one, other in zip(ports[:count], ports[count:])]
        cluster = ",".join(f"m{number}={peer}" for number, (_, peer) in enumerate(urls))
        for number, (client, peer) in enumerate(urls):
            log = open(os.path.join(place.folder, f"etcd-{number}.log"), "w+", encoding="utf-8")
            command = ["etcd", "--name", f"m{number}", "--data-dir", os.path.join(at, f"m{number}")]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            command += ["--initial-cluster", cluster, "--log-level", "warn", "--logger", "zap"]
            self.logs.append(log)
            self.processes.append(place.start(side, command, stdout=log, stderr=log))

    def metrics(self):
        """What each member says: name with labels, to value."""
        return [read_metrics(port) for port in self.ports]

    def are_ready(self):
        for process, log in zip(self.processes, self.logs):
            if process.poll() is not None:
                log.seek(0)
                raise Failed(f"etcd ended with {process.returncode}: {log.read().strip()[-300:]}")
        try:
            return all(found.get(LEADER) == 1 for found in self.metrics())
        except OSError:
            return False

    def close(self):
        for process in self.processes:
            end(process)
        for log in self.logs:
            log.close()


def read_metrics(port):
    found = {}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("etcd_"):
                name, value = line.rsplit(" ", 1)
                found[name] = float(value)
    return found


class Histogram:
    """What came to a histogram of etcd between two looks at it: counts by upper bound, in ms."""

    def __init__(self, name, before, after):
        self.counts, last = [], 0.0
        buckets = [key for key in after if key.startswith(f"{name}_bucket")]
        bound = lambda key: float(key.split('le="')[1].split('"')[0])
        for key in sorted(buckets, key=bound):
            until = after[key] - before.get(key, 0.0)
            self.counts.append((1000 * bound(key), until - last))
            last = until

    def __add__(self, other):
        both = Histogram.__new__(Histogram)
        both.counts = [(bound, one + two) for (bound, one), (_, two) in zip(self.counts, other.counts)]
        return both

    def count(self):
        return sum(count for _, count in self.counts)

    def quantile(self, part):
        """As `histogram_quantile` of Prometheus has it: even within a bucket."""
        left, low = part * self.count(), 0.0
        if not self.count():
            return None
        for bound, count in self.counts:
            if count and left <= count:
                return low if bound == float("inf") else low + (bound - low) * left / count
            left, low = left - count, bound if bound != float("inf") else low
        return low

    def longest(self):
        """The bound of the last bucket that has something."""
        return max((bound for bound, count in self.counts if count), default=None)


def figures(before, after):
    """Of all members: time of an fsync of the log and of a commit of the database, and elections."""
    pairs = list(zip(before, after))
    fsyncs = [Histogram(FSYNC, *pair) for pair in pairs]
    commits = [Histogram(COMMIT, *pair) for pair in pairs]
    fsync, commit = (sum(rest, first) for first, *rest in (fsyncs, commits))
    return {"fsyncs": fsync.count(), "fsync_p50_ms": fsync.quantile(0.5),
            "fsync_p99_ms": fsync.quantile(0.99), "fsync_longest_ms": fsync.longest(),
            "worst_member_p99_ms": max((one.quantile(0.99) or 0.0) for one in fsyncs),
            "commit_p99_ms": commit.quantile(0.99),
            "elections": max(two.get(CHANGES, 0) - one.get(CHANGES, 0) for one, two in pairs)}


def put(note, rate, ports):
    """Puts so many times a second in all, from PUTTERS connections, until it is ended. Each notes
    when its put was done and how long it took; a put that is late is not made up for."""
    with open(note, "a", encoding="ascii", buffering=1) as notes:
        threads = [threading.Thread(target=putter, args=(notes, number, PUTTERS / rate, ports),
                                    daemon=True) for number in range(PUTTERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def putter(notes, number, pause, ports):
    port, client, turn = ports[number % len(ports)], None, 0
    next_at = time.monotonic() + number * pause / PUTTERS
    while True:
        # SLEEP: the pace of the load.
        time.sleep(max(0.0, next_at - time.monotonic()))
        next_at = max(next_at + pause, time.monotonic())
        key = base64.b64encode(f"/registry/{(turn * PUTTERS + number) % KEYS}".encode()).decode()
        turn += 1
        before = time.monotonic_ns()
        try:
            client = client or http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            client.request("POST", "/v3/kv/put", json.dumps({"key": key, "value": VALUE}))
            answer = client.getresponse()
            answer.read()
            is_done = answer.status == 200
        except (OSError, http.client.HTTPException):
            client, is_done = None, False
        took = time.monotonic_ns() - before
        print(time.time_ns(), took, int(is_done), file=notes)


class Putter:
    """The program that puts, as a side; its notes are counted in a window."""

    def __init__(self, place, side, ports, rate):
        self.note = os.path.join(place.folder, "puts")
        words = [sys.executable, os.path.realpath(__file__), "--put", self.note, str(rate)]
        self.process = place.start(side, [*words, *map(str, ports)])

    def lines(self):
        if not os.path.exists(self.note):
            return []
        with open(self.note, encoding="ascii") as notes:
            return [[int(word) for word in line.split()] for line in notes if line.endswith("\n")]

    def has_begun(self):
        if self.process.poll() is not None:
            raise Failed(f"the program that puts ended with {self.process.returncode}")
        return any(is_done for _, _, is_done in self.lines())

    def figures(self, window):
        begin, finish = (int(1e9 * at) for at in window)
        found = [(took, is_done) for at, took, is_done in self.lines() if begin <= at < finish]
        done = sorted(took for took, is_done in found if is_done)
        p99 = done[min(len(done) * 99 // 100, len(done) - 1)] / 1e6 if done else None
        return {"puts_s": len(done) / (window[1] - window[0]), "put_p99_ms": p99,
                "puts_failed": len(found) - len(done)}

    def close(self):
        end(self.process)


if __name__ == "__main__" and sys.argv[1:2] == ["--put"]:
    put(sys.argv[2], float(sys.argv[3]), [int(word) for word in sys.argv[4:]])
