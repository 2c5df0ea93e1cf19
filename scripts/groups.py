"""Groups, live, with fio: request slots as in 2009, and limits beside two peers.

    groups.py slots [short]     two fio jobs on one emulated disk; the rise from fio's bandwidth log
    groups.py limits            a rate met, by iopace, nbdkit and QEMU; one request beside sixty-four

IOPACE_BIN is the program. Prints a table; `slots short` says of each figure whether it is within its
bound (figures.py).
"""

import glob
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from figures import figure

IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])

# nr_group_requests of both groups and the class of the second: the conditions of 2009.
CONDITIONS = [(500, 500, "BE"), (100, 100, "BE"), (100, 500, "BE"), (500, 500, "RT")]

# Rise in ms and KiB/s of g2, from the mail of 4 Aug 2009.
SOURCE = ["1000-1200, 1063", "1800-2000, 998", "300, 1048", "500-700, 2132"]


class Server:
    """A server, ended by its process id; it is ready when the file is there."""

    def __init__(self, command, ready, folder):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": open(os.path.join(folder, "err"), "w")}
        self.process = subprocess.Popen(command, cwd=folder, **quiet)
        for _ in range(200):
            if os.path.exists(os.path.join(folder, ready)):
                break
            time.sleep(0.05)
        time.sleep(0.3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def fio(folder, text):
    """Runs a job file; the jobs of its JSON, by name."""
    with open(os.path.join(folder, "jobs.fio"), "w") as file:
        file.write(text)
    command = ["fio", "jobs.fio", "--output-format=json", "--output=out.json"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "out.json")) as file:
        out = file.read()
    return {job["jobname"]: job for job in json.loads(out[out.index("{") :])["jobs"]}


def log(folder, name):
    """A bandwidth log: (end of the window in ms, KiB/s)."""
    (path,) = glob.glob(os.path.join(folder, f"{name}_bw.*.log"))
    with open(path) as file:
        return [(int(line.split(",")[0]), int(line.split(",")[1])) for line in file]


def slots_once(caps, klass, delay, runtime):
    """Rise in ms, mean KiB/s and share of g2, from its start (share: a second later)."""
    config = f"""
socket = "s"
control = "c"
[[device]]
name = "disk"
emulate = "hdd-sata-250g-ncq"
size = "4GiB"
direct = true
sched = "fair"
nr-requests = 500
"""
    for name, cap, of_class in (("g1", caps[0], "BE"), ("g2", caps[1], klass)):
        config += f"""
[[export]]
name = "{name}"
device = "disk"
group = "/{name}"
[group."/{name}"]
"io.weight" = 500
"io.nr_group_requests" = {cap}
"io.ioprio_class" = "{of_class}"
"""
    with tempfile.TemporaryDirectory(prefix="iopace-slots-") as folder:
        with open(os.path.join(folder, "iopace.toml"), "w") as file:
            file.write(config)
        jobs = f"""
[global]
ioengine=nbd
rw=randread
bs=4k
iodepth=500
size=128m
runtime={runtime}
time_based
log_avg_msec=100
"""
        for name, offset, start in (("g1", "1g", 0), ("g2", "3g", delay)):
            jobs += f"[{name}]\nuri=nbd+unix:///{name}?socket={folder}/s\noffset={offset}\n"
            jobs += f"startdelay={start}\nwrite_bw_log={name}\n"
        with Server([IOPACE, "serve", "--config", "iopace.toml"], "c", folder):
            fio(folder, jobs)
        g1, g2 = log(folder, "g1"), log(folder, "g2")
    # fio counts from the start of each job.
    end = runtime * 1000 - delay * 1000
    settled = [rate for at, rate in g2 if 1000 < at <= end]
    steady = statistics.mean(settled)
    rise = next(at - 100 for at, rate in g2 if rate >= 0.8 * steady)
    beside = [rate for at, rate in g1 if delay * 1000 + 1000 < at <= runtime * 1000]
    share = sum(settled) / (sum(settled) + sum(beside))
    return max(rise, 0), steady, share


def slots(short):
    delay, runtime = (3, 9) if short else (10, 30)
    print("| condition | source: rise ms, KiB/s | rise ms | g2 KiB/s | share of g2 |")
    print("|---|---|---|---|---|", flush=True)
    conditions = list(enumerate(zip(CONDITIONS, SOURCE), 1))
    for number, ((g1, g2, klass), source) in conditions[:1] + conditions[3:] if short else conditions:
        rise, rate, share = slots_once((g1, g2), klass, delay, runtime)
        print(f"| {number} | {source} | {rise} | {rate:.0f} | {share:.3f} |", flush=True)
        if short:
            best = klass == "BE"
            figure(f"slots {g1}, {g2} {klass}: share of the newcomer", f"{share:.3f}",
                   "0.45 to 0.55" if best else "0.9",
                   0.45 <= share <= 0.55 if best else share >= 0.9)
            figure(f"slots {g1}, {g2} {klass}: rise", f"{rise} ms", "1000 ms", rise <= 1000)


def limit_servers(folder, image):
    """Name, command, file that says ready, URI, of each: 10 MiB/s, whatever the size."""
    iopace = f"""
socket = "i"
control = "ic"
[[device]]
name = "disk"
file = "{image}"
[[export]]
name = "disk"
device = "disk"
group = "/t"
[group."/t"]
"io.max" = "disk bps=10M"
"""
    with open(os.path.join(folder, "limit.toml"), "w") as file:
        file.write(iopace)
    bits = 8 * 10 * (1 << 20)
    nbdkit = ["nbdkit", "-f", "-U", "k", "--filter=rate", "file", image, f"rate={bits}"]
    throttled = f"driver=throttle,throttle-group=t,file.driver=raw,file.file.driver=file,file.file.filename={image}"
    qemu = ["qemu-nbd", "-t", "-e", "8", "-k", os.path.join(folder, "q"), "--object",
            f"throttle-group,id=t,x-bps-total={10 << 20}", "--image-opts", throttled]
    return [
        ("iopace", [IOPACE, "serve", "--config", "limit.toml"], "ic", f"nbd+unix:///disk?socket={folder}/i"),
        ("nbdkit", nbdkit, "k", f"nbd+unix:///?socket={folder}/k"),
        ("QEMU", qemu, "q", f"nbd+unix:///?socket={folder}/q"),
    ]


def limits():
    with tempfile.TemporaryDirectory(prefix="iopace-limits-") as folder:
        image = os.path.join(folder, "disk.img")
        with open(image, "wb") as file:
            for _ in range(256):
                file.write(os.urandom(1 << 20))
        print("| random reads of | iopace | nbdkit `rate` | QEMU `throttle-group` |")
        print("|---|---|---|---|", flush=True)
        servers = limit_servers(folder, image)
        for block in ("512", "4k", "64k", "1m"):
            cells = []
            for _, command, ready, uri in servers:
                with Server(command, ready, folder):
                    job = f"[job]\nioengine=nbd\nuri={uri}\nrw=randread\nbs={block}\niodepth=8\n"
                    job += "size=250m\nruntime=10\nramp_time=2\ntime_based\n"
                    rate = fio(folder, job)["job"]["read"]["bw_bytes"]
                for name in (ready, "i", "ic"):
                    if os.path.exists(os.path.join(folder, name)):
                        os.remove(os.path.join(folder, name))
                cells.append(f"{100 * rate / (10 << 20) - 100:+.2f} %")
            print(f"| {block} | " + " | ".join(cells) + " |", flush=True)
        print()
        neighbours(folder, image)


def neighbours(folder, image):
    """Depth 1 beside depth 64 below one limit of 2000 requests a second: the part of the first."""
    second = os.path.join(folder, "second.img")
    subprocess.run(["cp", image, second], check=True)
    iopace = 'socket = "i"\ncontrol = "ic"\n[group."/both"]\n"io.max" = "default iops=2000"\n'
    iopace += f'[[device]]\nname = "disk"\nfile = "{image}"\n'
    for name in ("victim", "hog"):
        iopace += f'[group."/both/{name}"]\n[[export]]\nname = "{name}"\ndevice = "disk"\n'
        iopace += f'group = "/both/{name}"\n'
    with open(os.path.join(folder, "both.toml"), "w") as file:
        file.write(iopace)
    qemu = ["qemu-storage-daemon", "--object", "throttle-group,id=t,x-iops-total=2000"]
    for name, path in (("victim", image), ("hog", second)):
        qemu += ["--blockdev", f"driver=file,node-name={name}-f,filename={path}"]
        qemu += ["--blockdev", f"driver=raw,node-name={name}-r,file={name}-f"]
        qemu += ["--blockdev", f"driver=throttle,node-name={name}-t,throttle-group=t,file={name}-r"]
    qemu += ["--nbd-server", "addr.type=unix,addr.path=q"]
    for name in ("victim", "hog"):
        qemu += ["--export", f"nbd,id={name},node-name={name}-t,name={name}"]
    cells = []
    for command, ready, socket in (
        ([IOPACE, "serve", "--config", "both.toml"], "ic", "i"),
        (qemu, "q", "q"),
    ):
        jobs = "[global]\nioengine=nbd\nrw=randread\nbs=4k\nsize=250m\nruntime=10\nramp_time=2\ntime_based\n"
        for name, depth in (("victim", 1), ("hog", 64)):
            jobs += f"[{name}]\nuri=nbd+unix:///{name}?socket={folder}/{socket}\niodepth={depth}\n"
        with Server(command, ready, folder):
            done = fio(folder, jobs)
        rates = [done[name]["read"]["iops"] for name in ("victim", "hog")]
        cells.append(f"{rates[0]:.0f} of {sum(rates):.0f} ({100 * rates[0] / sum(rates):.1f} %)")
    print("| depth 1 beside depth 64, one limit of 2000 requests/s | iopace | QEMU `throttle-group` |")
    print("|---|---|---|")
    print(f"| the first has | {cells[0]} | {cells[1]} |")


def main():
    words = sys.argv[1:]
    if words == ["slots", "short"]:
        return slots(True)
    if words == ["slots"]:
        return slots(False)
    if words == ["limits"]:
        return limits()
    sys.exit(__doc__)


main()
