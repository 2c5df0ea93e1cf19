"""fio's two jobs in two groups: the table of the group request slots (2009)."""

import glob
import json
import os
import statistics

from harness import MIB, Mount, Table, run, say

TOOLS = ("fio",)
DISK = "hdd-sata-250g-ncq"
USERS = {"g1": 60001, "g2": 60002}

# nr_group_requests of g1 and g2, class of g2; rise in ms and KiB/s of g2: mail of 4 Aug 2009.
CONDITIONS = [
    ("none", 500, 500, "BE", "-"),
    ("fair", 500, 500, "BE", "1000-1200, 1063"),
    ("fair", 100, 100, "BE", "1800-2000, 998"),
    ("fair", 100, 500, "BE", "300, 1048"),
    ("fair", 500, 500, "RT", "500-700, 2132"),
]

# The conditions of the mail; users instead of echoing numbers of processes into cgroups.
JOBS = """
[global]
directory={directory}
ioengine=libaio
direct=1
rw=randread
iodepth=500
size=128m
runtime={runtime}
time_based
bwavgtime=200
log_avg_msec=200
[g1]
uid=60001
write_bw_log=g1
[g2]
uid=60002
startdelay={delay}
write_bw_log=g2
"""


def log(folder, name):
    (path,) = glob.glob(os.path.join(folder, f"{name}_bw.*.log"))
    with open(path) as file:
        return [(int(line.split(",")[0]), int(line.split(",")[1])) for line in file]


def once(folder, condition, delay, runtime):
    """Rise in ms, KiB/s and share of g2 from a second after its start."""
    scheduler, cap1, cap2, klass, _ = condition
    for path in glob.glob(os.path.join(folder, "*_bw.*.log")):
        os.remove(path)
    words = ["--emulate", DISK, "--nr-requests", "500", "--window-policy", "fixed"]
    words += ["--sched", "elevator" if scheduler == "none" else scheduler]
    groups = []
    for name, cap, of_class in (("g1", cap1, "BE"), ("g2", cap2, klass)):
        words += ["--rule", f"user={USERS[name]}:/{name}"]
        groups += [(f"/{name}", "io.weight", "500"), (f"/{name}", "io.ioprio_class", of_class)]
        groups += [(f"/{name}", "io.nr_group_requests", str(cap))]
    with Mount(folder, *words, groups=groups) as mount:
        mount.settle(os.path.join(mount.path, f"{name}.0.0") for name in USERS)
        with open(os.path.join(folder, "jobs.fio"), "w") as file:
            file.write(JOBS.format(directory=mount.path, runtime=runtime, delay=delay))
        run(["fio", "jobs.fio", "--output-format=json", "--output=out.json"], cwd=folder)
    g1, g2 = log(folder, "g1"), log(folder, "g2")
    # fio counts from the start of each job; g1 runs on without g2 for nobody's use.
    together = (runtime - delay) * 1000
    steady = [rate for at, rate in g2 if 1000 < at <= together]
    beside = [rate for at, rate in g1 if delay * 1000 + 1000 < at <= runtime * 1000]
    mean = statistics.mean(steady)
    rise = next((at - 200 for at, rate in g2 if rate >= 0.8 * mean), None)
    share = sum(steady) / max(sum(steady) + sum(beside), 1)
    return max(rise or 0, 0), mean, share


def slots(folder, short):
    delay, runtime = (2, 6) if short else (3, 10)
    store = os.path.join(folder, "store")
    os.makedirs(store)
    os.chmod(folder, 0o777)
    for name in USERS:
        path = os.path.join(store, f"{name}.0.0")
        run(["dd", "if=/dev/urandom", f"of={path}", "bs=1M", "count=128"])
        os.chmod(path, 0o666)
    os.chmod(store, 0o777)
    table = Table(
        "fio, two jobs in two groups (request slots, 2009)",
        "scheduler", "slots of g1, g2", "class of g2", "source: rise ms, KiB/s",
        "rise ms", "g2 KiB/s", "share of g2",
    )
    conditions = CONDITIONS[4:] if short else CONDITIONS
    for condition in conditions:
        scheduler, cap1, cap2, klass, source = condition
        say(f"fio, {scheduler}, slots {cap1} and {cap2}, g2 {klass}")
        rise, rate, share = once(folder, condition, delay, runtime)
        cells = (f"{cap1}, {cap2}", klass, source, f"{rise:.0f}", f"{rate:.0f}", f"{share:.3f}")
        table.row(scheduler, *cells)
        if klass == "RT":
            table.hold(share > 0.75, f"a group of class RT has {share:.2f}")
        else:
            table.hold(0.35 < share < 0.65, f"one of two equal groups has {share:.2f}")
    return table
