"""Fairness and response as isol-bench (Ren et al., IISWC 2025) asks for them: two groups of unequal
weight, 2 to 256 groups of equal and unequal weight, and bursts beside a steady load. rivals.py has
the overview; its runs do the measuring, here are the cells and the tables."""

from rivals_stands import DISKS, Side
from rivals_words import jain, ms, number

ROWS = ["kernel-none", "kernel-bfq", "iopace-groups", "iopace-fair"]
SHORT_ROWS = ROWS[:-1]
RATIOS = [1, 4, 16]
# The weight of the lighter one: 16 times as much is legal for BFQ, which takes 1000 at most.
LIGHT = 50
GROUPS, SHORT_GROUPS = [2, 16, 64], [2, 16]
# Requests of a burst: one, and of a disk with a head some 0.1, 1 and 5 s, of flash 10 ms to 2 s.
BURSTS = {True: [1, 10, 100, 500], False: [1, 100, 1000, 10_000]}
BESIDE = "random-64"
# Kinds of many groups: what each does in turn, and whether weights are 100 to 400 in turn.
KINDS = [("equal", ["random-4"], 0), ("unequal", ["random-4"], 1),
         ("of two sizes", ["random-4", "large-4"], 0), ("read and write", ["random-4", "write-4"], 0)]


def disks(chosen):
    """One with a head and one without are enough, unless others are asked for."""
    usual = [disk for disk in chosen.disks if disk in ("hdd-sata-250g-ncq", "ssd-sata")]
    return usual or chosen.disks


def rows(chosen):
    return SHORT_ROWS if chosen.is_short else ROWS


def weights(disk, chosen, cell):
    made = [cell("alone", disk, "kernel-none", BESIDE, [Side("big", BESIDE)], chosen.seconds)]
    for ratio in RATIOS[1:] if chosen.is_short else RATIOS:
        sides = [Side("heavy", BESIDE, LIGHT * ratio), Side("light", BESIDE, LIGHT)]
        made += [cell("weights", disk, row, f"{ratio} to 1", sides, chosen.seconds)
                 for row in rows(chosen)]
    return made


def groups(disk, chosen, cell):
    """A turn of many groups on a disk with a head takes seconds: there the window is longer."""
    has_head = DISKS[disk].has_head
    seconds = 3 * chosen.seconds if has_head else chosen.seconds
    made = []
    for count in chosen.groups or (SHORT_GROUPS if chosen.is_short or has_head else GROUPS):
        for name, loads, unequal in KINDS[: 2 if chosen.is_short else 4 if count == 16 else 2]:
            sides = [Side(f"g{one}", loads[one % len(loads)], 100 * (1 + unequal * (one % 4)))
                     for one in range(count)]
            made += [cell("groups", disk, row, f"{count} {name}", sides, seconds)
                     for row in rows(chosen)]
    return made


def bursts(disk, chosen, cell):
    made = []
    for length in BURSTS[DISKS[disk].has_head]:
        small, big = Side("small", f"burst-{length}"), Side("big", BESIDE)
        seconds = max(chosen.seconds, 10.0)
        made.append(cell("bursts", disk, "kernel-none", f"alone, {length}", [small], seconds))
        made += [cell("bursts", disk, row, f"{length}", [small, big], seconds)
                 for row in rows(chosen)]
    return made


def cells(disk, chosen, cell):
    made = []
    if disk in disks(chosen):
        for part, of_part in (("weights", weights), ("groups", groups), ("bursts", bursts)):
            if part in chosen.parts:
                made += of_part(disk, chosen, cell)
    return made


def weight_table(report, disk):
    lines = ["### " + disk + ": two groups, each reads at random with 64 requests at a time", "",
             "| weights | row | the heavy one has | due | Jain, weighted | both, of one alone |",
             "|---|---|---:|---:|---:|---:|"]
    alone = report.alone(disk, BESIDE)
    for one in report.all_of("weights", disk):
        heavy, light = one["sides"]["heavy"]["ops_s"], one["sides"]["light"]["ops_s"]
        both, (weight, least) = heavy + light, [side[2] for side in one["sides_asked"]]
        due = weight / (weight + least)
        index = jain([heavy / weight, light / least])
        total = both / alone["ops_s"] if alone and alone["ops_s"] else None
        cells = [one["mix"], one["row"], number(heavy / both if both else 0), number(due)]
        lines.append("| " + " | ".join([*cells, number(index, 3), number(total)]) + " |")
    return lines + [""]


def group_table(report, disk):
    lines = [f"### {disk}: many groups, each with four random requests at a time", "",
             "| groups | row | Jain, weighted | least of due | most of due | all, MB/s |",
             "|---|---|---:|---:|---:|---:|"]
    for one in report.all_of("groups", disk):
        weights_ = {name: weight for name, _, weight in one["sides_asked"]}
        rates = {name: side["mb_s"] for name, side in one["sides"].items()}
        both, due = sum(rates.values()), sum(weights_.values())
        shares = [rates[name] / weights_[name] for name in rates]
        of_due = [share * due / both for share in shares] if both else [0]
        cells = [one["mix"], one["row"], number(jain(shares), 3), number(min(of_due))]
        lines.append("| " + " | ".join([*cells, number(max(of_due)), f"{both:.1f}"]) + " |")
    return lines + [""]


def burst_table(report, disk):
    lines = [f"### {disk}: bursts of a random reader beside {BESIDE}", "",
             "| requests in a burst | row | first answer p50 ms | longest | mean of all ms | bursts | big, requests/s |",
             "|---|---|---:|---:|---:|---:|---:|"]
    for one in report.all_of("bursts", disk):
        small, big = one["sides"]["small"], one["sides"].get("big")
        cells = [one["mix"], one["row"], ms(small["first_p50_ms"]), ms(small["first_max_ms"])]
        cells += [ms(small["mean_ms"]), str(small["bursts"]), f"{big['ops_s']:.0f}" if big else ""]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [""]


TABLES = {"weights": weight_table, "groups": group_table, "bursts": burst_table}
