"""Measured figures beside their bounds: how the parts of `make nightly` say what they found."""

import json
import os


def figure(name, measured, bound, holds):
    """Prints a figure with its verdict and gives the verdict back. Where IOPACE_FIGURES names a
    file, a line of JSON is added to it, for the table of docs/nightly.md."""
    print(f"{'holds ' if holds else 'MISSED'}  {name}: {measured} (bound: {bound})", flush=True)
    path = os.environ.get("IOPACE_FIGURES")
    if path:
        row = {"figure": name, "measured": str(measured), "bound": str(bound), "holds": bool(holds)}
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
    return holds


def put(page, name, text):
    """The page with this part replaced: what stands between its two marks."""
    begin, end = f"<!-- measured: {name} -->\n", f"<!-- end: {name} -->\n"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"the page has no part '{name}': put {begin.strip()} and {end.strip()} there")
    head, rest = page.split(begin)
    return head + begin + "\n" + text.strip("\n") + "\n\n" + end + rest.split(end)[1]
