"""Timed tests on machines whose processors others use too."""

import time

# A processor that is taken away for a second spoils a figure now and then; three tries in a row
# fail for another reason.
TRIES = 3

# Unless the host has taken processors away for so much of the time: such a try is none, up to so
# many in all.
STOLEN, TRIES_MOST = 0.05, 8


def again(test, missed=0.0):
    """Whether a test holds, done as a whole up to TRIES times, not counting those that were stolen;
    its bounds are always the same. It is not done again if processors were missed for less than
    that part of the time."""
    tries = 0
    for _ in range(TRIES_MOST):
        begin = Missed()
        if test():
            return True
        share, stolen = begin.share(), begin.stolen()
        tries += stolen < STOLEN
        print(f"\nnot within the bounds, {tries} of {TRIES} tries; of that time", end="")
        print(f" {stolen * 100:.0f} % were stolen, and somebody had no processor for", end="")
        print(f" {share * 100:.0f} %\n", flush=True)
        if share < missed or tries == TRIES:
            break
    return False


class Missed:
    """The time in which a processor was missed, from now on."""

    def __init__(self):
        self.begin, self.before = time.monotonic(), (waited(), taken())

    def share(self):
        """As a part of all of it: of one processor."""
        return self.stolen() + (waited() - self.before[0]) / (time.monotonic() - self.begin)

    def stolen(self):
        """The part of it in which the host had one for others."""
        return (taken() - self.before[1]) / (time.monotonic() - self.begin)


def waited():
    """Seconds since the start of the machine in which somebody waited for a processor, if it is
    said."""
    try:
        with open("/proc/pressure/cpu") as file:
            return int(file.readline().rsplit("total=", 1)[1]) / 1e6
    except OSError:
        return 0.0


def taken():
    """Seconds since then in which the host had a processor for others."""
    with open("/proc/stat") as file:
        # cpu user nice system idle iowait irq softirq steal, in hundredths of a second.
        words = file.readline().split()
    return int(words[8]) / 100
