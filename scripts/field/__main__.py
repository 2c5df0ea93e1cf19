"""The programs of the four sources, unmodified, through `iopace mount`; see docs/field.md.

    field [geom] [slots] [postmark] [rsync] [commits] [plain] [--short] [--format json]

IOPACE_BIN is the program. Prints tables, or JSON; progress goes to standard error. The short form
takes seconds each and says of each test whether its figures are within their bounds (figures.py).
What needs a tool that is not installed is skipped aloud. As root.
"""

import json
import os
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from figures import figure
import harness
import geom
import postmark
import real
import slots
import throttle

TESTS = {
    "geom": (geom.geom, geom.TOOLS),
    "slots": (slots.slots, slots.TOOLS),
    "postmark": (postmark.postmark, postmark.TOOLS),
    "rsync": (throttle.throttle, throttle.TOOLS),
    "commits": (real.emulated, real.TOOLS),
    "plain": (real.plain, real.TOOLS),
}


def interrupted(number, _):
    raise KeyboardInterrupt(number)


def perform(name, short):
    """The table of one test, or None if it was skipped."""
    test, tools = TESTS[name]
    absent = harness.missing(*tools)
    if absent:
        print(f"skipped: {name}: {', '.join(absent)} not installed (make setup)", flush=True)
        return None
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="iopace-field-") as folder:
        try:
            table = test(folder, short)
        finally:
            harness.stop_all()
    harness.say(f"{name}: {time.monotonic() - began:.0f} s")
    return table


def main():
    words = sys.argv[1:]
    short = "--short" in words
    as_json = "json" in words and "--format" in words
    names = [word for word in words if word not in ("--short", "--format", "json")]
    if any(name not in TESTS for name in names):
        sys.exit(__doc__)
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        print("skipped: field: needs root and /dev/fuse")
        return 0
    signal.signal(signal.SIGTERM, interrupted)
    # A shell's background job ignores SIGINT, and so would every dd, which is asked with it how far
    # it came.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tables, failed = [], []
    for name in names or TESTS:
        try:
            table = perform(name, short)
        except harness.Failed as error:
            failed.append(f"{name}: {error}")
            continue
        if table:
            tables.append(table)
            if not as_json:
                print(table.markdown(), flush=True)
                if short:
                    text = "; ".join(table.missed) or "all within"
                    figure(f"field: {name}", text, "docs/field.md", not table.missed)
    if as_json:
        print(json.dumps([table.json() for table in tables], indent=2))
    for text in failed:
        print(f"field: FAILED: {text}", file=sys.stderr)
    return 1 if failed else 0


try:
    sys.exit(main())
except KeyboardInterrupt:
    harness.stop_all()
    print("field: interrupted; everything that was started has ended", file=sys.stderr)
    sys.exit(130)
