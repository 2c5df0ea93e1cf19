"""Hosts that share one array: a load on each, failures in the middle, and a report.

Run by cluster.sh, as root. Each host is a network namespace with an `iopace serve nbd://array/...`
and fio at its socket, which writes to a range of its own and reads all of it back with checksums.
The array is an emulated disk of an iopace over TCP; three members of etcd stand beside it. Parts:

  steady     nothing happens
  partition  the first host is cut off, for longer than it takes to find out, CUT_SECONDS (120)
  short      the first host is cut off for less
  stopped    the daemon of the first host is stopped (SIGSTOP) for as long, and goes on
  array      the array is killed and started again
  member     a member of etcd is cut off, for a host must not notice
  host       the daemon of the first host is killed; the others go on

The report has the bytes per second of each host in steps of 100 ms: how many steps had none, the
median and the longest time without any. fio must end without an error, but for the first host of
`host`. HOSTS (3), SECONDS_EACH (10) of each part before, within and after the failure, together
three times as long and CUT_SECONDS. MODEL (ssd-sata), SIZE (2GiB), RATE (8m) of each host, so that
the array is not what limits.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

from cluster_farm import Failed, Farm

HOSTS = int(os.environ.get("HOSTS", "3"))
SECONDS = float(os.environ.get("SECONDS_EACH", "10"))
MODEL = os.environ.get("MODEL", "ssd-sata")
SIZE = os.environ.get("SIZE", "2GiB")
RATE = os.environ.get("RATE", "8m")
STEP = 0.1  # seconds
# Longer than it takes to find out that the array is gone, ten seconds.
LONG_CUT = float(os.environ.get("CUT_SECONDS", "120"))
SHORT_CUT = 3
RANGE_MIB = 128


class Load:
    """fio on a host."""

    def __init__(self, daemon, number, seconds):
        self.output = os.path.join(daemon.node.folder, "fio.json")
        uri = f"nbd+unix:///volume?socket={daemon.node.folder}/volume.sock"
        self.process = daemon.node.start("fio", [
            "fio", "--name=load", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bs=16k",
            "--iodepth=8", f"--rate={RATE}", f"--offset={number * RANGE_MIB}m",
            f"--size={RANGE_MIB}m", "--verify=crc32c", "--verify_backlog=64", "--time_based",
            f"--runtime={seconds}", "--fsync=64", "--output-format=json",
            f"--output={self.output}"])

    def result(self, patience):
        """Its errors, and the MiB that it has written."""
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "does not end", 0
        try:
            with open(self.output, encoding="utf-8") as file:
                job = json.load(file)["jobs"][0]
        except (OSError, ValueError, LookupError):
            return f"ended with {self.process.returncode}", 0
        error = job["error"] or self.process.returncode
        return f"error {error}" if error else "", job["write"]["io_bytes"] >> 20


class Sampler:
    """The bytes of each host, each 100 ms, in threads of their own."""

    def __init__(self, daemons):
        self.is_over = threading.Event()
        self.samples = [[] for _ in daemons]
        self.threads = [threading.Thread(target=self.watch, args=pair)
                        for pair in zip(daemons, self.samples)]
        for thread in self.threads:
            thread.start()

    def watch(self, daemon, samples):
        at = time.monotonic()
        while not self.is_over.is_set():
            report = daemon.report()
            if report:
                total = report["read"]["bytes"] + report["write"]["bytes"]
                samples.append((time.monotonic(), total))
            at = max(at + STEP, time.monotonic())
            self.is_over.wait(at - time.monotonic())

    def end(self):
        """For each host: its rates in bytes per second, each with its seconds."""
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        return [[((bytes1 - bytes0) / (at1 - at0), at1 - at0)
                 for (at0, bytes0), (at1, bytes1) in zip(one, one[1:]) if bytes1 >= bytes0]
                for one in self.samples]


def longest_pause(rates):
    """The longest time in a row without a byte."""
    longest = pause = 0
    for rate, seconds in rates:
        pause = pause + seconds if rate == 0 else 0
        longest = max(longest, pause)
    return longest


def partition(farm, seconds=LONG_CUT):
    farm.hosts[0].node.cut()
    time.sleep(seconds)
    farm.hosts[0].node.join()


def stopped(farm):
    process = farm.hosts[0].process
    process.send_signal(signal.SIGSTOP)
    time.sleep(LONG_CUT)
    process.send_signal(signal.SIGCONT)


def array(farm):
    farm.array.kill()
    time.sleep(SHORT_CUT)
    farm.array.start()


def member(farm):
    farm.members[0].cut()
    time.sleep(SECONDS)
    farm.members[0].join()


def host(farm):
    farm.hosts[0].kill()
    time.sleep(SECONDS)


PARTS = {
    "steady": lambda farm: time.sleep(SECONDS),
    "partition": partition,
    "short": lambda farm: partition(farm, SHORT_CUT),
    "stopped": stopped,
    "array": array,
    "member": member,
    "host": host,
}


def run(part):
    """One part on a farm of its own; whether it went as it must."""
    seconds = int(3 * SECONDS + LONG_CUT)
    with Farm(HOSTS, MODEL, SIZE) as farm:
        loads = [Load(daemon, number, seconds) for number, daemon in enumerate(farm.hosts)]
        sampler = Sampler(farm.hosts)
        time.sleep(SECONDS)
        PARTS[part](farm)
        if part == "host":
            # fio waits for ever for a server that is gone.
            loads[0].process.kill()
        results = [load.result(seconds + 60) for load in loads]
        rates = sampler.end()
        remotes = [(daemon.report() or {}).get("remote", {}) for daemon in farm.hosts]
    print(f"\n{part}\n{'host':>6} {'MiB written':>12} {'median MB/s':>12} {'steps':>6} "
          f"{'empty':>6} {'longest pause s':>16} {'reconnects':>11}  result")
    is_right = True
    for number, ((error, written), one, remote) in enumerate(zip(results, rates, remotes)):
        is_meant = part == "host" and number == 0
        is_right &= bool(error) == is_meant
        median = statistics.median(rate for rate, _ in one) / 1e6 if one else 0
        empty = sum(rate == 0 for rate, _ in one)
        print(f"{number:>6} {written:>12} {median:>12.2f} {len(one):>6} {empty:>6} "
              f"{longest_pause(one):>16.1f} {remote.get('reconnects_count', '-'):>11}  "
              f"{error or 'no error'}")
    print(f"{part}: {'as it must be' if is_right else 'NOT as it must be'}", flush=True)
    return is_right


def main():
    parts = sys.argv[1:] or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        raise SystemExit(f"cluster: no part {unknown[0]}; there are: {', '.join(PARTS)}")
    # What has been made is cleared away then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        wrong = [part for part in parts if not run(part)]
    except Failed as failed:
        raise SystemExit(f"cluster: {failed}") from None
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
