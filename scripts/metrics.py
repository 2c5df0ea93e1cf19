#!/usr/bin/env python3
"""The metrics of a real daemon under load: what is scraped adds up, and promtool reads it.

    scripts/metrics.py scrape|promtool|alerts

IOPACE_BIN is the program. `scrape` needs fio. The others need promtool (Debian's package
prometheus) and say so in a line `skipped: ...` if it is not there.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

IOPACE = os.environ.get("IOPACE_BIN", "target/release/iopace")
HERE = os.path.dirname(os.path.abspath(__file__))
RULES = os.path.join(HERE, "../contrib/prometheus")
# As Prometheus 2.42 asks.
ACCEPT = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
CONFIG = """
[[device]]
name = "cached"
emulate = "ssd-nvme"
size = "256MiB"
dirty-limit = "16MiB"

[[device]]
name = "bare"
emulate = "null"
direct = true
size = "256MiB"
sched = "fair"

[[export]]
name = "cached"
device = "cached"
group = "/a/writers"

[[export]]
name = "bare"
device = "bare"
group = "/a/readers"

[group."/a/writers"]

[group."/a/readers"]
"io.max" = "bare riops=2000"
"""


class Daemon:
    """A daemon with load on two devices, in groups, one of them with a limit."""

    def __init__(self, folder):
        self.folder = folder
        config, self.token = os.path.join(folder, "c.toml"), os.path.join(folder, "token")
        with open(config, "w") as file:
            file.write(CONFIG)
        self.socket, self.control = (os.path.join(folder, name) for name in ("s", "ctl"))
        words = ["--socket", self.socket, "--control", self.control, "--http", "0"]
        command = [IOPACE, "serve", "--config", config, *words, "--http-token-file", self.token]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        welcome = ""
        while not welcome.endswith("stop: Ctrl-C\n"):
            line = self.process.stdout.readline()
            assert line, f"the daemon did not start: {welcome}"
            welcome += line
        self.port = int(re.search(r"^dashboard: http://127\.0\.0\.1:(\d+)/", welcome, re.M)[1])

    def fio(self, export, rw, seconds):
        uri = f"nbd+unix:///{export}?socket={self.socket}"
        words = f"--rw={rw} --bs=4k --iodepth=16 --size=200M --time_based --runtime={seconds}"
        command = ["fio", "--name=load", "--ioengine=nbd", f"--uri={uri}", *words.split()]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL)

    def load(self, seconds):
        loads = [self.fio("cached", "randwrite", seconds), self.fio("bare", "randread", seconds)]
        assert all(load.wait() == 0 for load in loads), "fio failed"

    def scrape(self, accept=ACCEPT, token=True):
        """As Prometheus does: over the port, with the token from its file."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics")
        request.add_header("Accept", accept)
        if token:
            with open(self.token) as file:
                request.add_header("Authorization", f"Bearer {file.read().strip()}")
        with urllib.request.urlopen(request) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0, "the daemon did not end well"


def parse(text):
    """Samples by name and labels."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        key = (name, *sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")))
        assert key not in samples, f"{line} twice"
        samples[key] = float(value)
    return samples


def total(samples, name, **wanted):
    wanted = set(wanted.items())
    return sum(v for (n, *labels), v in samples.items() if n == name and wanted <= set(labels))


def near(one, other, what):
    assert abs(one - other) <= 1e-6 * max(one, other, 1), f"{what}: {one} and {other}"


def adds_up(samples, device):
    """Parts are those of their sums, in each of the ways in which the same is told."""
    value = lambda name, **labels: total(samples, name, device=device, **labels)
    requests = value("iopace_device_requests_total")
    near(value("iopace_device_latency_seconds_count"), requests, "latencies")
    near(value("iopace_device_stage_latency_seconds_count", stage="disk"), requests, "disk times")
    paced = value("iopace_device_paced_writes_total")
    near(value("iopace_device_stage_latency_seconds_count", stage="pace"), paced, "pauses")
    sums = [value(f"iopace_device_{name}") for name in ("wait_seconds_total", "stage_seconds_total")]
    near(*sums, "reasons and stages")
    near(value("iopace_device_stage_latency_seconds_sum"), sums[0], "stages as histograms")
    top = {"group": "/"}
    near(value("iopace_group_requests_total", **top), requests, "requests of the root")
    near(value("iopace_group_wait_seconds_total", **top), sums[0], "times of the root")
    below = value("iopace_group_requests_total", group="/a")
    near(below, sum(value("iopace_group_requests_total", group=f"/a/{g}") for g in ("writers", "readers")), "a")
    assert value("iopace_device_requests_waiting") == 0, "something is left"
    return requests, paced


def settled(daemon):
    """What is scraped when nothing is on its way: what is dirty is written back now and then."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        samples = parse(daemon.scrape()[1])
        if total(samples, "iopace_device_requests_waiting") == 0:
            return samples
        time.sleep(0.1)
    raise AssertionError("something is left")


def scrape(daemon):
    try:
        daemon.scrape(token=False)
        raise AssertionError("without a token")
    except urllib.error.HTTPError as error:
        assert error.code == 401, error
    kind, text = daemon.scrape()
    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n"), kind
    before = parse(text)
    # Long enough that a scrape finds it at work, though a processor is taken away.
    loads = [daemon.fio("cached", "randwrite", 6), daemon.fio("bare", "randread", 6)]
    amid = {}
    while not total(amid, "iopace_device_requests_waiting", reason="budget"):
        time.sleep(0.1)
        amid = parse(daemon.scrape()[1])
        assert loads[1].poll() is None, "nothing waits for the limit under load"
    command = [IOPACE, "sched", "insert", "-a", "deadline", "cached", "--control", daemon.control]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert all(load.wait() == 0 for load in loads), "fio failed"
    after = settled(daemon)
    for name in set(key[0] for key in before if key[0].endswith(("_total", "_count", "_bucket"))):
        for key in (key for key in before if key[0] == name):
            assert before[key] <= amid[key] <= after[key], f"{key} does not grow"
    requests, _ = adds_up(after, "bare")
    _, paced = adds_up(after, "cached")
    assert requests > 1000 and paced > 1000, (requests, paced)
    waited = total(after, "iopace_group_wait_seconds_total", group="/a/readers", reason="budget")
    assert waited > 1, f"the limit has held nothing up: {waited} s"
    assert total(after, "iopace_events_total", device="cached", kind="exchanged") == 1
    print(f"{len(after)} samples, {requests:.0f} requests, {paced:.0f} paced writes")


def promtool(daemon):
    daemon.load(2)
    kind, text = daemon.scrape("text/plain")
    assert kind.startswith("text/plain"), kind
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(checked.stdout)
    assert checked.returncode == 0 and not checked.stdout.strip(), "promtool complains"


def alerts():
    for words in (["check", "rules", "iopace.rules.yml"], ["test", "rules", "iopace.rules.test.yml"]):
        subprocess.run(["promtool", *words], cwd=RULES, check=True)


def main():
    what = sys.argv[1]
    if what != "scrape" and not shutil.which("promtool"):
        print(f"skipped: {what}: promtool is not installed (make setup)")
        return
    if what == "alerts":
        alerts()
        return
    with tempfile.TemporaryDirectory(prefix="iopace-metrics-") as folder:
        daemon = Daemon(folder)
        try:
            {"scrape": scrape, "promtool": promtool}[what](daemon)
        finally:
            daemon.stop()


main()
