"""Tables and plots of what rivals.py has measured, as Markdown and SVG."""

import os
from xml.sax.saxutils import escape

import rivals_commits
import rivals_fairness
from rivals_stands import ROWS
from rivals_words import jain, ms, number

BARS = {"big": "#4c78a8", "small": "#f58518"}


def machine():
    """The machine, in words: what the figures depend on."""
    with open("/proc/meminfo", encoding="ascii") as file:
        gib = int(file.readline().split()[1]) / (1 << 20)
    return f"Linux {os.uname().release}, {os.cpu_count()} processors, {gib:.0f} GiB"


def short(one):
    """A cell in a few words, while it runs on."""
    sides = one["sides"].items()
    return ", ".join(f"{name} {side['ops_s']:.1f}/s p99 {ms(side['p99_ms'])} ms" for name, side in sides)


def rate(one, side):
    return one["sides"][side]["ops_s"]


class Report:
    """The cells by part, disk, mix, row and load of the small side."""

    def __init__(self, report):
        self.report, self.failed, self.cells = report, [], {}
        for one in report["cells"]:
            if "failed" in one:
                self.failed.append(one)
                continue
            loads = [side[1] for side in one["sides_asked"]]
            self.cells[one["part"], one["disk"], one["mix"], one["row"], loads[0]] = one

    def disks(self):
        return list(dict.fromkeys(one["disk"] for one in self.report["cells"]))

    def of(self, part, disk, position):
        """The values at a position of the key, in order, of a part on a disk."""
        keys = [key for key in self.cells if key[:2] == (part, disk)]
        found = list(dict.fromkeys(key[position] for key in keys))
        return [row for row in ROWS if row in found] if position == 3 else found

    def all_of(self, part, disk):
        """The cells of a part on a disk, those of a mix together."""
        found = [one for key, one in self.cells.items() if key[:2] == (part, disk)]
        mixes, rows = self.of(part, disk, 2), list(ROWS)
        return sorted(found, key=lambda one: (mixes.index(one["mix"]), rows.index(one["row"])))

    def alone(self, disk, load):
        one = self.cells.get(("alone", disk, load, "kernel-none", load))
        return one and next(iter(one["sides"].values()))

    def shares(self, disk, mix, row, load):
        """(big, small) of what each has alone, and the figures of the small one."""
        one = self.cells.get(("mixes", disk, mix, row, load))
        alone = [self.alone(disk, name) for name in (mix, load)]
        if one is None or None in alone:
            return None
        found = [one["sides"][side] for side in ("big", "small")]
        share = [side["ops_s"] / base["ops_s"] if base["ops_s"] else None
                 for side, base in zip(found, alone)]
        return share, found[1]


def mix_rows(report, disk, mix):
    """(row, share of big, of small, figures of small, figures of light, big beside light)."""
    for row in report.of("mixes", disk, 3):
        shares = report.shares(disk, mix, row, "small")
        if shares and None not in shares[0]:
            yield row, *shares[0], shares[1], report.shares(disk, mix, row, "light")


def mix_table(report, disk, mix):
    lines = [f"### {disk}: a random reader beside {mix}", "",
             "| row | big | small | sum | Jain | small p50 ms | p99 ms | light p99 ms | big beside light |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for row, big, small, found, light in mix_rows(report, disk, mix):
        cells = [row, number(big), number(small), number(big + small), number(jain([big, small]))]
        cells += [ms(found["p50_ms"]), ms(found["p99_ms"])]
        cells += [ms(light[1]["p99_ms"]), number(light[0][0])] if light else ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


def best_table(report, disk):
    """Which row is best at what: the kernel's where they are."""
    lines = ["| beside | most for the small one | its shortest p99 | most for the big one | largest sum |",
             "|---|---|---|---|---|"]
    for mix in report.of("mixes", disk, 2):
        rows = list(mix_rows(report, disk, mix))
        if not rows:
            continue
        small = max(rows, key=lambda row: row[2])
        p99 = min((row for row in rows if row[3]["p99_ms"] is not None),
                  key=lambda row: row[3]["p99_ms"], default=None)
        big = max(rows, key=lambda row: row[1])
        total = max(rows, key=lambda row: row[1] + row[2])
        cells = [mix, f"{small[0]} {number(small[2])}",
                 f"{p99[0]} {ms(p99[3]['p99_ms'])} ms" if p99 else "-",
                 f"{big[0]} {number(big[1])}", f"{total[0]} {number(total[1] + total[2])}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


def alone_line(report, disk):
    words = []
    for mix in report.of("alone", disk, 2):
        found = report.alone(disk, mix)
        words.append(f"{mix} {found['ops_s']:.0f}/s (p99 {ms(found['p99_ms'])} ms)")
    return f"Alone, under `kernel-none`: {', '.join(words)}."


def commit_table(report, disk):
    lines = [f"### {disk}: commits of SQLite beside bulk I/O", "",
             "| beside | row | commits/s | p50 ms | p99 ms | bulk MB/s |", "|---|---|---:|---:|---:|---:|"]
    for mix in report.of("commits", disk, 2):
        for row in report.of("commits", disk, 3):
            for load in ["commits"] + rivals_commits.OWN_MIXES:
                one = report.cells.get(("commits", disk, mix, row, load))
                if one is None:
                    continue
                commits, big = (one["sides"].get(side) for side in ("commits", "big"))
                cells = [mix, row]
                cells += [number(commits["ops_s"], 1), ms(commits["p50_ms"]), ms(commits["p99_ms"])] \
                    if commits else ["", "", ""]
                cells += [number(big["mb_s"], 1) if big else ""]
                lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


def of_disk(report, disk):
    """All that was measured on a disk, in lines."""
    head = report.report
    lines = [f"Measured {head['date']} on {head['machine']} (load when it began: "
             f"{head['load_before']:.1f}), {head['version']}, windows of {head['seconds']:.0f} s. "
             f"Without options iopace has here: scheduler {head['defaults'][disk]}.", ""]
    if report.of("mixes", disk, 2):
        lines += [alone_line(report, disk), ""] + best_table(report, disk)
        for mix in report.of("mixes", disk, 2):
            lines += mix_table(report, disk, mix)
    if report.of("commits", disk, 2):
        lines += commit_table(report, disk)
    for part, table in rivals_fairness.TABLES.items():
        if report.of(part, disk, 2):
            lines += table(report, disk)
    failed = [one for one in report.failed if one["disk"] == disk]
    if failed:
        lines += ["Not measured:", ""]
        lines += [f"- {one['mix']}, {one['row']}: {one['failed']}" for one in failed]
        lines.append("")
    return lines


def text(report):
    ready = Report(report)
    lines = []
    for disk in ready.disks():
        lines += [f"## {disk}", ""] + of_disk(ready, disk)
    return "\n".join(lines)


def plot(report, disk):
    """Bars: what both sides have of alone, one over the other, of each row beside each mix."""
    mixes, rows = report.of("mixes", disk, 2), report.of("mixes", disk, 3)
    bar, gap, left, unit, top = 14, 26, 190, 420, 46
    parts, y = [], top
    for mix in mixes:
        parts.append(f'<text x="8" y="{y + 11}" font-weight="bold">beside {escape(mix)}</text>')
        y += 18
        for row, big, small, *_ in mix_rows(report, disk, mix):
            parts.append(f'<text x="{left - 6}" y="{y + 11}" text-anchor="end">{escape(row)}</text>')
            x = float(left)
            for name, share in (("big", big), ("small", small)):
                width = share * unit
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{bar - 2}" '
                             f'fill="{BARS[name]}"/>')
                x += width
            parts.append(f'<text x="{x + 4:.1f}" y="{y + 11}" fill="#555">{big:.2f} + {small:.2f}</text>')
            y += bar
        y += gap - bar
    width, height = left + int(2.2 * unit), y + 8
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            f'<text x="8" y="16" font-size="13">{escape(disk)}: shares of alone</text>']
    for place, name in enumerate(BARS):
        x = 8 + 70 * place
        head.append(f'<rect x="{x}" y="24" width="12" height="12" fill="{BARS[name]}"/>')
        head.append(f'<text x="{x + 16}" y="34">{name}</text>')
    x = left + unit
    head.append(f'<line x1="{x}" y1="{top}" x2="{x}" y2="{y}" stroke="#999" stroke-dasharray="3"/>')
    return "\n".join(head + parts + ["</svg>", ""]) if rows else None


def write(path, report):
    """Writes the tables of the disks that were measured into the page, and their plots."""
    ready = Report(report)
    with open(path, encoding="utf-8") as file:
        page = file.read()
    for disk in ready.disks():
        begin, end = f"<!-- rivals {disk} -->", f"<!-- /rivals {disk} -->"
        if begin not in page:
            continue
        lines = of_disk(ready, disk)
        drawn = plot(ready, disk)
        if drawn:
            figure = os.path.join("figures", f"rivals-{disk}.svg")
            with open(os.path.join(os.path.dirname(path), figure), "w", encoding="utf-8") as file:
                file.write(drawn)
            lines += [f"![shares of alone on {disk}]({figure})"]
        before, rest = page.split(begin)
        page = before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
