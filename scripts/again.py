"""Timed tests on machines whose processors others use too."""

import time

# A processor that is taken away for a second spoils a figure now and then; three tries in a row
# fail for another reason.
TRIES = 3


def again(test, missed=0.0):
    """Whether a test holds, done as a whole up to TRIES times; its bounds are always the same. It is
    not done again if processors were missed for less than that part of the time."""
    for number in range(1, TRIES + 1):
        begin = Missed()
        if test():
            return True
        share = begin.share()
        print(f"\nnot within the bounds, try {number} of {TRIES}; ", end="")
        print(f"somebody had no processor for {share * 100:.0f} % of that time\n", flush=True)
        if share < missed:
            break
    return False


class Missed:
    """The time in which a processor was missed, from now on."""

    def __init__(self):
        self.begin, self.before = time.monotonic(), without_processor()

    def share(self):
        """As a part of all of it: of one processor."""
        return (without_processor() - self.before) / (time.monotonic() - self.begin)


def without_processor():
    """Seconds since the start of the machine in which somebody waited for a processor, and in which
    the host had one for others: both as the kernel says, if it does."""
    seconds = 0.0
    try:
        with open("/proc/pressure/cpu") as file:
            seconds = int(file.readline().rsplit("total=", 1)[1]) / 1e6
    except OSError:
        pass
    with open("/proc/stat") as file:
        # cpu user nice system idle iowait irq softirq steal, in hundredths of a second.
        words = file.readline().split()
    return seconds + int(words[8]) / 100
