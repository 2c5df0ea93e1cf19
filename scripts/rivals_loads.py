"""What the sides do, as fio jobs, and what of it counts: completions within one window of
wall-clock time that is the same for all sides. rivals.py has the overview."""

import glob
import os
import signal
import subprocess
import time

from rivals_stands import PATIENCE, Failed, end, stand

# Region: which quarter of the disk.
LOADS = {
    "small": {"rw": "randread", "bs": "16k", "iodepth": 1, "region": 2},
    "light": {"rw": "randread", "bs": "16k", "iodepth": 1, "region": 2, "thinktime": 100_000},
    "sequential-read": {"rw": "read", "bs": "128k", "iodepth": 1},
    "sequential-write": {"rw": "write", "bs": "128k", "iodepth": 4},
    "random-64": {"rw": "randread", "bs": "16k", "iodepth": 64},
    "programs-64": {"rw": "randread", "bs": "16k", "iodepth": 1, "numjobs": 64},
    "random-write": {"rw": "randwrite", "bs": "16k", "iodepth": 32},
    "bulk-read": {"rw": "read", "bs": "512k", "iodepth": 4},
    "bulk-write": {"rw": "write", "bs": "512k", "iodepth": 4},
    "random-4": {"rw": "randread", "bs": "16k", "iodepth": 4},
}

# The big programs that the small one is put beside.
MIXES = ["sequential-read", "sequential-write", "random-64", "programs-64", "random-write"]


def job(place, side, more):
    """The job file of a side at a stand; `more` options take the place of the load's."""
    load = side.load
    options = {"region": 0, "numjobs": 1} | LOADS[load] | more
    offset, length = place.part(options.pop("region"))
    if "write" in options["rw"]:
        length = min(length, place.WRITTEN)
    text = f"[{load}]\n{place.fio(side)}offset={offset}\nsize={length}\n"
    text += "\n".join(f"{name}={value}" for name, value in options.items())
    # `exec_prerun` notes that a job begins: the window begins when all have.
    return text + f"""
time_based
runtime=600
thread=1
norandommap
randrepeat=1
random_generator=tausworthe64
write_lat_log={load}
log_unix_epoch=1
disable_slat=1
disable_clat=1
exec_prerun=echo | tee -a {load}.begun
"""


class Client:
    """fio as one side."""

    def __init__(self, place, side, **more):
        self.side, self.folder = side, os.path.join(place.folder, f"fio-{side.name}")
        os.mkdir(self.folder)
        with open(os.path.join(self.folder, "job.fio"), "w", encoding="ascii") as file:
            file.write(job(place, side, more))
        self.said = open(os.path.join(self.folder, "said"), "w+", encoding="utf-8")
        command = ["fio", "job.fio", "--output-format=terse", "--output=report"]
        self.process = place.start(side, command, cwd=self.folder, stdout=self.said,
                                   stderr=subprocess.STDOUT)

    def has_begun(self):
        if self.process.poll() is not None:
            raise Failed(f"fio of {self.side.name}: {self.words()}")
        note = os.path.join(self.folder, f"{self.side.load}.begun")
        jobs = LOADS[self.side.load].get("numjobs", 1)
        return os.path.exists(note) and os.path.getsize(note) >= jobs

    def words(self):
        self.said.seek(0)
        return self.said.read().strip()[-300:]

    def finish(self):
        """After SIGINT fio waits for what is under way, and writes its logs."""
        status = end(self.process, signal.SIGINT, 2 * PATIENCE)
        if status not in (0, 128) or glob.glob(os.path.join(self.folder, "*.log")) == []:
            raise Failed(f"fio of {self.side.name}: status {status}: {self.words()}")

    def completions(self, window):
        """(ms since 1970, ns, bytes) of each request that was done in the window, in order."""
        begin, finish = (int(1000 * at) for at in window)
        found = []
        for path in glob.glob(os.path.join(self.folder, "*_lat.*.log")):
            with open(path, "rb") as lines:
                for line in lines:
                    at, took, _, size = line.split(b",", 4)[:4]
                    if begin <= int(at) < finish:
                        found.append((int(at), int(took), int(size)))
        return sorted(found)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.said.close()


def wait_for(is_so, what, patience=PATIENCE):
    until = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > until:
            raise Failed(f"{what} has not begun after {patience} s")
        # SLEEP: between two looks at what others have noted.
        time.sleep(0.02)


def take_window(warmup, seconds):
    """Waits until the window is over; its bounds on the clock of the wall."""
    begin = time.time() + warmup
    # SLEEP: the load runs meanwhile; what completes in the window is counted.
    time.sleep(warmup + seconds + 0.05)
    return begin, begin + seconds


def percentile(values, permille):
    """Of a sorted list; None if there is nothing."""
    return values[min(len(values) * permille // 1000, len(values) - 1)] if values else None


def figures(found, seconds):
    """Rates and latencies of what was done in a window of so many seconds; nothing is a zero."""
    latencies = sorted(took for _, took, _ in found)
    return {
        "count": len(found),
        "ops_s": len(found) / seconds,
        "mb_s": sum(size for _, _, size in found) / seconds / 1e6,
        "p50_ms": (percentile(latencies, 500) or 0) / 1e6 if latencies else None,
        "p99_ms": (percentile(latencies, 990) or 0) / 1e6 if latencies else None,
    }


def compete(row, disk, sides, folder, warmup, seconds):
    """All sides at once; figures by side, and what schedules."""
    clients = []
    with stand(row, disk, sides, folder) as place:
        try:
            said = place.said()
            for side in sides:
                clients.append(Client(place, side))
            wait_for(lambda: all(client.has_begun() for client in clients), "fio")
            window = take_window(warmup, seconds)
            for client in clients:
                client.process.send_signal(signal.SIGINT)
            for client in clients:
                client.finish()
            found = {client.side.name: client.completions(window) for client in clients}
        finally:
            for client in clients:
                client.close()
    return {"scheduler": said,
            "sides": {name: figures(done, seconds) for name, done in found.items()}}
