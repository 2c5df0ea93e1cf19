"""The places where programs compete for one disk: a loop device under a scheduler of the kernel, or
iopace over NBD, as loop devices, or as a mount. rivals.py has the overview.

Each stand is a context: what it starts and makes is gone when it ends. `fio(side)` gives the lines
of a job file that lead to the disk, `start(side, command)` starts a program as that side.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import time
from collections import namedtuple

from rivals_cgroups import Cgroups, Failed, put

IOPACE = os.path.realpath(os.environ.get("IOPACE_BIN", "iopace"))
PATIENCE = 30  # seconds until a start counts as failed
MIB = 1 << 20

# `depth` is what the disk itself takes at a time: the loop device must not take more, or what waits
# in it is past the kernel's scheduler. The loop driver goes no lower than 4 and no higher than 128.
Disk = namedtuple("Disk", "name has_head depth")
DISKS = {disk.name: disk for disk in (
    Disk("hdd-sata-250g-ncq", True, 31),
    Disk("hdd-sata-250g", True, 4),
    Disk("ssd-sata", False, 31),
    Disk("ssd-nvme", False, 128),
    Disk("own", False, None),
)}
# A file on the machine's own disk, which rivals.py makes: all of the disk "own" that is used.
OWN = "IOPACE_RIVALS_FILE"

# A program that competes: `load` is a key of LOADS (rivals_loads.py).
Side = namedtuple("Side", "name load weight", defaults=(100,))

# `ionice`: the big side is started with `ionice -c3`, or its group has that class; `nice`: it is
# started with `iopace nice`.
Row = namedtuple("Row", "name kind scheduler groups ionice nice",
                 defaults=(None, True, False, False))
ROWS = {row.name: row for row in (
    Row("kernel-none", "kernel", "none"),
    Row("kernel-mq-deadline", "kernel", "mq-deadline"),
    Row("kernel-mq-deadline-ionice", "kernel", "mq-deadline", True, True),
    Row("kernel-kyber", "kernel", "kyber"),
    Row("kernel-mq-deadline-nice", "kernel", "mq-deadline", nice=True),
    Row("kernel-bfq", "kernel", "bfq"),
    Row("kernel-bfq-ionice", "kernel", "bfq", True, True),
    Row("kernel-bfq-nice", "kernel", "bfq", nice=True),
    Row("iopace", "nbd", None, False),
    Row("iopace-groups", "nbd"),
    Row("iopace-idle", "nbd", None, True, True),
    Row("iopace-fair", "nbd", "fair"),
    Row("iopace-rr", "nbd", "rr"),
    Row("iopace-loop", "loop"),
    Row("iopace-mount", "mount"),
    Row("iopace-mount-ionice", "mount", None, True, True),
    Row("iopace-mount-nice", "mount", nice=True),
)}


def die_with_us():
    """In a child: it ends when this process is gone, however that went."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
                          start_new_session=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:3])}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def end(process, how=signal.SIGTERM, wait=PATIENCE):
    """Ends a program that we started; a second signal, and SIGKILL at last."""
    for number in (how, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(wait)
        except subprocess.TimeoutExpired:
            continue
    return None


def own_queue(path):
    """The settings of the block device below a file."""
    number = os.stat(path).st_dev
    node = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    for place in (node, os.path.dirname(node)):
        if os.path.exists(f"{place}/queue/scheduler"):
            return f"{place}/queue"
    raise Failed(f"{path} is not on a block device with a scheduler")


def chosen_scheduler(queue):
    with open(f"{queue}/scheduler", encoding="ascii") as file:
        return file.read().split("[")[1].split("]")[0]


class Stand:
    """What all have: a folder, the row, the disk and the sides."""

    def __init__(self, row, disk, sides, folder):
        self.row, self.disk, self.sides, self.folder = row, disk, sides, folder
        self.control = os.path.join(folder, "control")

    def __exit__(self, *_):
        self.close()

    def __enter__(self):
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    # Writers stay within so many bytes: an emulated disk is in memory.
    WRITTEN = 4 << 30

    def is_own(self):
        return self.disk.depth is None

    def source(self):
        """What `iopace serve` has of the disk."""
        return [os.environ[OWN]] if self.is_own() else ["--emulate", self.disk.name]

    def part(self, region):
        """Offset and length of a quarter of the disk."""
        size = os.path.getsize(os.environ[OWN]) if self.is_own() else self.status()["size_bytes"]
        quarter = size // 4 // MIB * MIB
        return region * quarter, quarter

    def iopace(self, *words):
        return run(IOPACE, *words, "--control", self.control)

    def status(self):
        """What the daemon says of its disk: size, scheduler, window."""
        (device,) = json.loads(self.iopace("sched", "status", "--format", "json"))
        return device

    def said(self):
        """In words: which scheduler and window are at work."""
        device = self.status()
        scheduler = device["scheduler"]
        name = scheduler["algorithm" if scheduler["inserted"] else "base"]
        return f"{name}, window {device['window']['policy']}"

    def prefix(self, side):
        """What the program of a side is started with."""
        if side.name == "big" and self.row.nice:
            return [IOPACE, "nice", "--quiet", "--control", self.control]
        return ["ionice", "-c3"] if self.row.ionice and side.name == "big" else []

    def start(self, side, command, **more):
        return subprocess.Popen(self.prefix(side) + command, preexec_fn=die_with_us,
                                start_new_session=True, **more)

    def serve(self, *words, ready=None):
        """`iopace serve` or `mount` in the foreground; `ready` says when it is there."""
        errors = os.path.join(self.folder, "err")
        with open(errors, "w", encoding="utf-8") as err:
            self.server = subprocess.Popen(
                [IOPACE, *words, "--control", self.control], cwd=self.folder, text=True,
                stdout=subprocess.PIPE, stderr=err, preexec_fn=die_with_us,
                start_new_session=True)
        line = "" if ready else self.server.stdout.readline().strip()
        until = time.monotonic() + PATIENCE
        while ready and not ready() and self.server.poll() is None and time.monotonic() < until:
            # SLEEP: between two looks at what the daemon makes.
            time.sleep(0.02)
        if (ready and not ready()) or not (ready or line):
            with open(errors, encoding="utf-8") as file:
                raise Failed(f"iopace {words[0]}: {file.read().strip()[-300:]}")
        return line

    def make_groups(self):
        for side in self.sides:
            self.iopace("group", "create", f"/{side.name}")
            self.iopace("group", "set", f"/{side.name}", "io.weight", str(side.weight))
            if self.row.ionice and side.name == "big":
                self.iopace("group", "set", f"/{side.name}", "io.ioprio_class", "IDLE")

    server = None

    def close(self):
        if self.server is not None:
            end(self.server)


class Kernel(Stand):
    """A loop device whose requests go straight to the emulated disk, under a scheduler of the
    kernel; each side in a blkio cgroup of its own."""

    device, cgroups = None, None
    queue, before = None, None

    def open(self):
        self.cgroups = Cgroups(self.sides)
        self.cgroups.make()
        if self.is_own():
            self.queue = own_queue(os.environ[OWN])
            self.before = chosen_scheduler(self.queue)
        else:
            self.attach()
        if self.row.scheduler != chosen_scheduler(self.queue):
            put(f"{self.queue}/scheduler", self.row.scheduler)
        self.cgroups.weigh()

    def attach(self):
        words = ["attach", "--emulate", self.disk.name, "--sched", "fifo", "--window-policy", "fixed"]
        words += ["--direct", "--log", os.path.join(self.folder, "log")]
        self.device = self.iopace(*words).strip()
        with open(os.path.join(self.folder, "loop"), "w", encoding="ascii") as file:
            file.write(self.device)
        self.queue = f"/sys/block/{os.path.basename(self.device)}/queue"
        put(f"{self.queue}/rotational", int(self.disk.has_head))
        # Without a scheduler this is the number of requests that the driver takes at a time, and it
        # stays when a scheduler is inserted.
        put(f"{self.queue}/scheduler", "none")
        put(f"{self.queue}/nr_requests", self.disk.depth)

    def fio(self, _):
        words = f"allow_mounted_write=1\nfilename={self.device}\n"
        if self.is_own():
            words = f"allow_file_create=0\nfilename={os.environ[OWN]}\n"
        return f"ioengine=libaio\ndirect=1\n{words}"

    def start(self, side, command, **more):
        procs = os.path.join(self.cgroups.paths[side.name], "cgroup.procs")

        def enter():
            die_with_us()
            with open(procs, "w", encoding="ascii") as file:
                file.write("0" if not self.cgroups.is_v1 else str(os.getpid()))

        return subprocess.Popen(self.prefix(side) + command, preexec_fn=enter,
                                start_new_session=True, **more)

    def said(self):
        return chosen_scheduler(self.queue)

    def close(self):
        if self.before and self.before != chosen_scheduler(self.queue):
            put(f"{self.queue}/scheduler", self.before)
        if self.device:
            detach(self.device)
            os.unlink(os.path.join(self.folder, "loop"))
        if self.cgroups:
            self.cgroups.remove()


class Nbd(Stand):
    """`iopace serve`, each side with connections of its own, as a group of its own."""

    def open(self):
        words = ["serve", *self.source(), "--direct"]
        words += ["--socket", os.path.join(self.folder, "s")]
        words += ["--sched", self.row.scheduler] if self.row.scheduler else []
        self.uri, self.socket = self.serve(*words).split("?")
        if self.row.groups:
            self.make_groups()

    def fio(self, side):
        group = f"@/{side.name}" if self.row.groups else ""
        return f"ioengine=nbd\nuri={self.uri}{group}?{self.socket}\n"


class Loop(Stand):
    """A loop device per side, each an export of its group on one disk: the transport of the rows of
    the kernel, with the scheduler in iopace."""

    def open(self):
        self.devices, files = {}, os.path.join(self.folder, "files")
        os.mkdir(files)
        text = f'socket = "s"\ncontrol = "control"\nfuse = "{files}"\n'
        kind, name = ("file", os.environ[OWN]) if self.is_own() else ("emulate", self.disk.name)
        text += f'[[device]]\nname = "disk"\n{kind} = "{name}"\ndirect = true\n'
        for side in self.sides:
            text += f'[group."/{side.name}"]\n"io.weight" = {side.weight}\n'
            text += f'[[export]]\nname = "{side.name}"\ndevice = "disk"\ngroup = "/{side.name}"\n'
        with open(os.path.join(self.folder, "iopace.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        last = os.path.join(files, self.sides[-1].name)
        errors = os.path.join(self.folder, "err")
        with open(errors, "w", encoding="utf-8") as err:
            self.server = subprocess.Popen([IOPACE, "serve", "--config", "iopace.toml"], stderr=err,
                                           cwd=self.folder, stdout=subprocess.DEVNULL,
                                           preexec_fn=die_with_us, start_new_session=True)
        until = time.monotonic() + PATIENCE
        while not os.path.exists(last):
            if self.server.poll() is not None or time.monotonic() > until:
                with open(errors, encoding="utf-8") as file:
                    raise Failed(f"iopace serve --fuse: {file.read().strip()[-300:]}")
            # SLEEP: between two looks at what the daemon makes.
            time.sleep(0.02)
        for side in self.sides:
            words = ["-f", "--show", "--direct-io=on", "--sector-size", "4096"]
            device = run("losetup", *words, os.path.join(files, side.name)).strip()
            self.devices[side.name] = device

    def fio(self, side):
        return f"ioengine=libaio\ndirect=1\nfilename={self.devices[side.name]}\n"

    def close(self):
        for device in self.devices.values():
            subprocess.run(["losetup", "-d", device], check=False, capture_output=True)
        self.devices = {}
        super().close()


class Mount(Stand):
    """`iopace mount` of a directory, as slow as the disk; a sparse file per side is its quarter."""

    def open(self):
        free = shutil.disk_usage(self.folder).free
        if free < 2 * self.WRITTEN:
            raise Failed(f"{self.folder}: {free >> 30} GiB free, a mount needs {self.WRITTEN >> 29} GiB")
        self.store, self.path = (os.path.join(self.folder, name) for name in ("store", "mnt"))
        for path in (self.store, self.path):
            os.mkdir(path)
        words = ["mount", self.store, self.path, "--foreground"]
        words += [] if self.is_own() else self.source()
        self.quarter = None if self.is_own() else capacity(self.disk) // 4 // MIB * MIB
        for side in self.sides:
            path = os.path.join(self.store, side.name)
            if self.is_own():
                os.link(os.environ[OWN], path)
            else:
                with open(path, "wb") as file:
                    file.truncate(self.quarter)
        words += ["--sched", self.row.scheduler] if self.row.scheduler else []
        self.serve(*words, ready=lambda: os.path.ismount(self.path))

    def part(self, region):
        return super().part(region) if self.is_own() else (0, self.quarter)

    def fio(self, side):
        file = os.path.join(self.path, side.name)
        return f"ioengine=libaio\ndirect=1\nallow_file_create=0\nfilename={file}\n"

    def close(self):
        super().close()
        if os.path.ismount(self.path):
            subprocess.run(["umount", "-l", self.path], check=False)
        shutil.rmtree(self.store, ignore_errors=True)


def capacity(disk):
    """The bytes of a modelled disk."""
    (model,) = json.loads(run(IOPACE, "models", disk.name, "--format", "json"))
    return next(one["value"] for one in model["parameters"] if one["name"] == "capacity")


STANDS = {"kernel": Kernel, "nbd": Nbd, "loop": Loop, "mount": Mount}


def stand(row, disk, sides, folder):
    return STANDS[row.kind](row, disk, sides, folder)


def apart(folder):
    """Daemons of this process and its children keep their files there: nobody else sees them."""
    place = os.path.join(folder, "run")
    os.makedirs(place, exist_ok=True)
    os.chmod(place, 0o700)
    for name in ("IOPACE_RUNTIME_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        os.environ[name] = place


def detach(device):
    """Ends a loop device of ours, whoever uses it."""
    done = subprocess.run([IOPACE, "detach", "--force", device], capture_output=True, text=True,
                          timeout=4 * PATIENCE, check=False, start_new_session=True)
    if done.returncode != 0:
        print(f"rivals: {device} is left behind: {done.stderr.strip()}", flush=True)
