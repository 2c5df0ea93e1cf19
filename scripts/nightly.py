"""The figures of a night: `nightly.sh` calls it.

    nightly.py rows                          what tests in Rust print, to figures (standard input)
    nightly.py guest                         the parts of a guest, to figures (standard input)
    nightly.py page PAGE FOLDER PART...      writes the table of the page
    nightly.py verdict FOLDER PART...        how many hold, and those that do not
"""

import json
import os
import re
import sys

from figures import figure

BEGIN, END = "<!-- nightly -->", "<!-- /nightly -->"


def rows():
    for line in sys.stdin:
        found = re.search(r"FIGURE\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(true|false)", line)
        if found:
            name, measured, bound, holds = found.groups()
            figure(name, measured, bound, holds == "true")


def guest():
    told = json.load(sys.stdin)
    if "skipped" in told:
        print(f"skipped: {told['skipped']}")
    for row in told["parts"]:
        figure(row["part"], row["what"], "what scripts/guest checks", row["result"] == "passed")


def figures(folder, parts):
    for part in parts:
        with open(os.path.join(folder, f"{part}.json")) as file:
            for line in file:
                yield part, json.loads(line)


def machine():
    """The machine, in words: what the figures depend on."""
    with open("/proc/meminfo") as file:
        gib = int(file.readline().split()[1]) / (1 << 20)
    load = os.getloadavg()[1]
    return f"Linux {os.uname().release}, {os.cpu_count()} processors, {gib:.0f} GiB, load {load:.1f}"


def page(path, folder, parts):
    with open(path) as file:
        text = file.read()
    lines = [f"Measured on {machine()}.", "", "| part | figure | measured | bound | verdict |",
             "|---|---|---|---|---|"]
    for part, row in figures(folder, parts):
        verdict = "holds" if row["holds"] else "**missed**"
        cells = [part, row["figure"], row["measured"], row["bound"], verdict]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    before, rest = text.split(BEGIN)
    with open(path, "w") as file:
        file.write(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1])
    print(f"nightly: {path} has the table; see: git diff {path}")


def verdict(folder, parts):
    all = [row for _, row in figures(folder, parts)]
    missed = [row for row in all if not row["holds"]]
    for row in missed:
        print(f"missed: {row['figure']}: {row['measured']} (bound: {row['bound']})")
    print(f"{len(all) - len(missed)} of {len(all)} figures hold")


def main():
    words = sys.argv[1:]
    if words == ["rows"]:
        rows()
    elif words == ["guest"]:
        guest()
    elif words[:1] == ["page"] and len(words) > 3:
        page(words[1], words[2], words[3:])
    elif words[:1] == ["verdict"] and len(words) > 2:
        verdict(words[1], words[2:])
    else:
        sys.exit(__doc__)


main()
