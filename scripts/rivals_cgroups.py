"""The blkio cgroups of the programs that compete. rivals.py has the overview."""

import os
import time


class Failed(Exception):
    """Why a stand cannot be made, or what a program said when it failed."""


def put(path, value):
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))
    except OSError as error:
        raise Failed(f"{path}: {value} is refused: {error.strerror}") from error


class Cgroups:
    """One blkio cgroup per side, of version 1, or 2 where the io controller is there."""

    V1, V2 = "/sys/fs/cgroup/blkio", "/sys/fs/cgroup"

    def __init__(self, sides):
        self.is_v1 = os.path.exists(os.path.join(self.V1, "cgroup.procs"))
        if not self.is_v1:
            controllers = os.path.join(self.V2, "cgroup.controllers")
            if not os.path.exists(controllers) or " io" not in " " + open(controllers).read():
                raise Failed("no blkio cgroups: neither /sys/fs/cgroup/blkio nor the io controller")
            put(os.path.join(self.V2, "cgroup.subtree_control"), "+io")
        self.top = os.path.join(self.V1 if self.is_v1 else self.V2, f"iopace-rivals-{os.getpid()}")
        self.sides, self.paths = sides, {}

    def make(self):
        """They are made before the scheduler is exchanged: BFQ adds its files to all that are there."""
        os.mkdir(self.top)
        if not self.is_v1:
            put(os.path.join(self.top, "cgroup.subtree_control"), "+io")
        for side in self.sides:
            path = os.path.join(self.top, side.name)
            os.mkdir(path)
            self.paths[side.name] = path

    def weigh(self):
        """Weights hold under BFQ only: no other scheduler of the kernel knows them."""
        file = "blkio.bfq.weight" if self.is_v1 else "io.bfq.weight"
        for side in self.sides:
            path = os.path.join(self.paths[side.name], file)
            if os.path.exists(path):
                put(path, side.weight)

    def remove(self):
        remove_cgroups(os.getpid())


def remove_cgroups(pid):
    """Removes the cgroups that the process of that number has made."""
    for root in (Cgroups.V1, Cgroups.V2):
        top = os.path.join(root, f"iopace-rivals-{pid}")
        for path in [folder for folder, _, _ in os.walk(top, topdown=False)]:
            for _ in range(100):
                try:
                    os.rmdir(path)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    # SLEEP: a process that has just ended is still counted.
                    time.sleep(0.05)
