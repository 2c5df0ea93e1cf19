"""Hosts of one volume with limits and weights in common, as they are and in failures.

Run by cluster.sh, as root, on the farm of cluster_farm.py. Parts:

  limit       all hosts in one group with a limit; loads begin and end
  weights     each host in a group of its own, weights 100 to 400; loads begin and end
  guarantee   a guarantee of a group on one host, beside groups of larger weight on the others
  no-etcd     the limit, while all members of etcd stand still for longer than a session
  one-member  the limit, while one member of three is lost
  cut         the limit, while a host does not reach etcd, but the array
  stopped     the limit, while a daemon is stopped for longer than its session
  killed      the limit; a daemon is killed and started again

Beside the parts with a failure fio writes on each host and reads all of it back with checksums; no
byte may be lost. The limit: the sum of all hosts in any second (bytes that the engines have
counted) over the limit; the stated burst is a request of each host and 20 ms of the limit. Back: the
time after the failure until the sum is 0.9 of the limit again. HOSTS (8), LIMIT_MB (16),
SECONDS_EACH (120) of a failure.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from cluster_farm import IOPACE, Failed, Farm, wait_for
from figures import figure

HOSTS = int(os.environ.get("HOSTS", "8"))
LIMIT = int(os.environ.get("LIMIT_MB", "16")) * 1_000_000
MODEL = os.environ.get("MODEL", "ssd-sata")
BLOCK = 16 << 10
# Requests a second of the array whose queue is shared: few enough for any machine to ask for more.
IOPS = int(os.environ.get("IOPS", "2000"))
# Only what holds on any machine.
SHORT = os.environ.get("SHORT") == "1"
STEP = 0.1  # seconds between two looks
SESSION = 5
RANGE_MIB = 64
BURST = HOSTS * BLOCK + LIMIT * 0.02


def iopace(daemon, *words):
    """A command to a daemon; what it prints."""
    done = subprocess.run([IOPACE, *words, "--control", daemon.control], capture_output=True,
                          text=True, check=False, timeout=60)
    if done.returncode:
        raise Failed(f"iopace {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def fio(farm, number, seconds, verify=False, depth=16):
    """A load on a host: reads at random, or writes that are read back."""
    node = farm.hosts[number].node
    uri = f"nbd+unix:///volume?socket={node.folder}/volume.sock"
    words = ["fio", f"--name=load{number}", "--ioengine=nbd", f"--uri={uri}", f"--bs={BLOCK}",
             f"--iodepth={depth}", f"--offset={number * RANGE_MIB}m", f"--size={RANGE_MIB}m",
             "--time_based", f"--runtime={seconds}", f"--output={node.folder}/fio.out"]
    kind = (["--rw=randwrite", "--verify=crc32c", "--verify_backlog=64", "--fsync=256"]
            if verify else ["--rw=randread"])
    return node.start("fio", words + kind)


class Watch:
    """The bytes of each host at each look."""

    def __init__(self, farm):
        self.farm, self.is_over = farm, threading.Event()
        self.samples = [[(time.monotonic(), 0)] for _ in farm.hosts]
        self.threads = [threading.Thread(target=self.look, args=(number,), daemon=True)
                        for number in range(len(farm.hosts))]
        for thread in self.threads:
            thread.start()

    def look(self, number):
        samples, base, last = self.samples[number], 0, None
        while not self.is_over.is_set():
            report = self.farm.hosts[number].report()
            if report:
                total = report["read"]["bytes"] + report["write"]["bytes"]
                if last is None or total < last:
                    # The first look, or another process: it counts from here.
                    base = samples[-1][1] - (total if last is None else 0)
                last = total
                samples.append((time.monotonic(), base + total))
            self.is_over.wait(STEP)

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def bytes_at(self, number, at):
        """What a host had moved by then; between two looks evenly."""
        samples = self.samples[number]
        before = samples[0]
        for sample in list(samples):
            if sample[0] > at:
                part = (at - before[0]) / max(sample[0] - before[0], 1e-9)
                return before[1] + max(part, 0) * (sample[1] - before[1])
            before = sample
        return before[1]

    def rate(self, number, since, until):
        return (self.bytes_at(number, until) - self.bytes_at(number, since)) / (until - since)

    def rates(self, since, until):
        return [self.rate(number, since, until) for number in range(len(self.samples))]

    def most(self, since, until):
        """The largest sum of all hosts in any second."""
        most, at = 0, since
        while at + 1 <= until:
            most = max(most, sum(self.rates(at, at + 1)))
            at += STEP
        return most


def never_more(part, most):
    """Whether the limit was never exceeded by more than the stated burst."""
    return figure(f"{part}: most in a second, of the limit", f"{most / LIMIT:.3f}",
                  f"<= 1 and the burst, {1 + BURST / LIMIT:.2f}", most <= LIMIT + BURST)


def with_limit():
    farm = Farm(HOSTS, MODEL, "2GiB", ["/vms"] * HOSTS)
    iopace(farm.hosts[0], "group", "set", "--cluster", "/vms", "io.max", f"pool bps={LIMIT}")

    def has_limit(daemon):
        told = json.loads(iopace(daemon, "cluster", "status", "--format", "json"))
        return bool(told["volumes"][0]["limits"])
    for daemon in farm.hosts:
        wait_for("the limit", lambda daemon=daemon: has_limit(daemon))
    return farm


def limit_part():
    with with_limit() as farm:
        watch = Watch(farm)
        begin = time.monotonic()
        loads = [fio(farm, number, 30) for number in range(HOSTS // 2)]
        time.sleep(10)
        # The others begin, and end before the first.
        loads += [fio(farm, number, 10) for number in range(HOSTS // 2, HOSTS)]
        time.sleep(22)
        watch.end()
        for load in loads:
            load.wait(30)
        most = watch.most(begin, begin + 30)
        few, many, again = [sum(watch.rates(begin + since, begin + until)) / LIMIT
                            for since, until in [(4, 10), (14, 20), (24, 29)]]
        each = watch.rates(begin + 14, begin + 20)
        holds = never_more("limit", most)
        if SHORT:
            # How much of it is used is the machine's matter too.
            return holds
        text = f"{few:.3f} by {HOSTS // 2} hosts, {many:.3f} by {HOSTS}, {again:.3f} by half again"
        spread = max(each) / max(min(each), 1)
        holds &= figure("limit: used of it", text, ">= 0.95", min(few, many, again) >= 0.95)
        return figure("limit: largest part of equal hosts over the smallest", f"{spread:.2f}",
                      "<= 1.10", spread <= 1.1) and holds


def weights_part():
    groups = [f"/g{number}" for number in range(HOSTS)]
    weights = [100 * (1 + number % 4) for number in range(HOSTS)]
    with Farm(HOSTS, MODEL, "2GiB", groups, IOPS) as farm:
        for group, weight in zip(groups, weights):
            iopace(farm.hosts[0], "group", "set", "--cluster", group, "io.weight", str(weight))
        time.sleep(2)
        watch = Watch(farm)
        begin = time.monotonic()
        first = HOSTS // 2
        loads = [fio(farm, number, 40, depth=64) for number in range(first)]
        time.sleep(12)
        loads += [fio(farm, number, 14, depth=64) for number in range(first, HOSTS)]
        time.sleep(29)
        watch.end()
        for load in loads:
            load.wait(30)
        holds = True
        alone = sum(watch.rates(begin + 6, begin + 12))
        for name, hosts, since, until in [("half", first, 5, 12), ("all", HOSTS, 17, 25),
                                          ("half again", first, 31, 38)]:
            rates = watch.rates(begin + since, begin + until)[:hosts]
            due = [sum(rates) * weight / sum(weights[:hosts]) for weight in weights[:hosts]]
            print("       ", " ".join(f"{rate / 1e6:.2f}/{part / 1e6:.2f}"
                                     for rate, part in zip(rates, due)), "MB/s, due", flush=True)
            worst = max(abs(rate / part - 1) for rate, part in zip(rates, due))
            holds &= figure(f"weights, {name} of {HOSTS} hosts, from 5 s after: worst off its due",
                            f"{worst * 100:.1f} %", "<= 5 %", worst <= 0.05)
            used = sum(rates) / alone
            holds &= figure(f"weights, {name}: all, of what the first half had", f"{used:.3f}",
                            ">= 0.95", used >= 0.95)
        return holds


def guarantee_part():
    # Half of the array is guaranteed to a group that its weight gives a small part.
    owed = IOPS // 2
    groups = ["/db" if number == 0 else "/vms" for number in range(HOSTS)]
    with Farm(HOSTS, MODEL, "2GiB", groups, IOPS) as farm:
        iopace(farm.hosts[0], "group", "set", "--cluster", "/vms", "io.weight", "400")
        loads = [fio(farm, number, 30, depth=64) for number in range(HOSTS)]
        watch = Watch(farm)
        begin = time.monotonic()
        time.sleep(8)
        iopace(farm.hosts[0], "group", "set", "--cluster", "/db", "io.min", f"pool riops={owed}")
        time.sleep(18)
        watch.end()
        for load in loads:
            load.wait(30)
        every = sum(watch.rates(begin + 4, begin + 8)) / BLOCK
        before, after = [watch.rate(0, begin + since, begin + until) / BLOCK
                         for since, until in [(4, 8), (13, 26)]]
        whole = sum(watch.rates(begin + 13, begin + 26)) / BLOCK
        print(f"        guarantee: {before:.0f} of {every:.0f} requests/s by weight", flush=True)
        # The array gives no more than it can, on a machine that is busy.
        due = min(owed, whole / 2)
        holds = figure("guarantee: of half of the array", f"{after / due:.3f}", ">= 0.95",
                       after >= 0.95 * due)
        return figure("guarantee: all, of what they had before", f"{whole / every:.3f}",
                      ">= 0.95", whole >= 0.95 * every) and holds


def failing(part, fail, mend, seconds, host=None):
    """The limit while something fails: never more, nothing lost, and back within ten seconds."""
    with with_limit() as farm:
        watch = Watch(farm)
        time.sleep(1)
        begin = time.monotonic()
        whole = int(seconds + 40)
        loads = {number: fio(farm, number, whole, verify=True) for number in range(HOSTS)
                 if part != "killed" or number != host}
        time.sleep(10)
        fail(farm)
        failed = time.monotonic()
        time.sleep(seconds)
        mend(farm)
        mended = time.monotonic()
        time.sleep(20)
        watch_until = time.monotonic()
        wrong = []
        for number, load in loads.items():
            if load.wait(whole + 60):
                log = os.path.join(farm.hosts[number].node.folder, "fio.out")
                with open(log, encoding="utf-8") as file:
                    print(f"host {number}: {file.read()[-300:]}", flush=True)
                wrong.append(number)
        watch.end()
        most = watch.most(begin, watch_until)
        dark = sum(watch.rates(failed + SESSION, mended)) / LIMIT if seconds > SESSION else None
        back = None
        for tenth in range(0, 190):
            at = mended + tenth / 10
            if sum(watch.rates(at, at + 1)) >= 0.9 * LIMIT:
                back = tenth / 10
                break
        holds = never_more(part, most)
        if dark is not None:
            # No bound from below: it is what the static parts are.
            print(f"        {part}: {dark:.3f} of the limit after sessions had ended", flush=True)
        shown = "never" if back is None else f"{back:.1f} s"
        holds &= figure(f"{part}: 0.9 of the limit is used again after", shown, "<= 10 s",
                        back is not None and back <= 10)
        return figure(f"{part}: hosts with an error or a wrong byte", len(wrong) or "0", "0",
                      not wrong) and holds


def signal_members(farm, members, number):
    for member in members:
        member.processes[-1].send_signal(number)


def stop(farm):
    farm.hosts[0].process.send_signal(signal.SIGSTOP)


def go_on(farm):
    farm.hosts[0].process.send_signal(signal.SIGCONT)


SECONDS = int(os.environ.get("SECONDS_EACH", "120"))
PARTS = {
    "limit": limit_part,
    "weights": weights_part,
    "guarantee": guarantee_part,
    "no-etcd": lambda: failing(
        "no-etcd", lambda farm: signal_members(farm, farm.members, signal.SIGSTOP),
        lambda farm: signal_members(farm, farm.members, signal.SIGCONT), SECONDS),
    "one-member": lambda: failing(
        "one-member", lambda farm: farm.members[0].cut(), lambda farm: farm.members[0].join(),
        SECONDS),
    "cut": lambda: failing(
        "cut", lambda farm: farm.hosts[0].node.lose(farm.members),
        lambda farm: farm.hosts[0].node.find(farm.members), SECONDS),
    "stopped": lambda: failing("stopped", stop, go_on, SECONDS),
    "killed": lambda: failing(
        "killed", lambda farm: farm.hosts[0].kill(), lambda farm: farm.hosts[0].start(), SECONDS,
        host=0),
}


def main():
    parts = sys.argv[1:] or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        raise SystemExit(f"cluster: no part {unknown[0]}; there are: {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = [PARTS[part]() for part in parts]
    except Failed as failed:
        raise SystemExit(f"cluster: {failed}") from None
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
