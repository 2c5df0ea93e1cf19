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
