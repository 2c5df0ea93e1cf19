"""Timed tests on machines whose processors others use too."""

# A processor that is taken away for a second spoils a figure now and then; three tries in a row
# fail for another reason.
TRIES = 3


def again(test):
    """Whether a test holds, done as a whole up to TRIES times; its bounds are always the same."""
    for number in range(1, TRIES + 1):
        if test():
            return True
        print(f"\nnot within the bounds, try {number} of {TRIES}\n", flush=True)
    return False
