"""The same fio jobs live and simulated: how far is the model from what happens?

    model_truth.py [short]

Two mixes (a reader in sequence beside one at random; a reader beside a writer), each on an emulated
disk behind a live daemon and in virtual time, under several schedulers; then on a real file behind
the daemon and on the model that `iopace calibrate` has fitted to it. IOPACE_BIN is the program. The
short form is one mix, two schedulers and no real file; it says whether the order of the schedulers
is the same and each rate within BOUND (figures.py).
"""

import json
import os
import signal
import subprocess
import sys
import tempfile

from figures import figure

IOPACE = os.path.realpath(os.environ["IOPACE_BIN"])
PRESET = "hdd-sata-250g"
SCHEDULERS = ["elevator", "rr", "fair", "deadline"]
SHORT = len(sys.argv) > 1 and sys.argv[1] == "short"
RUNTIME = 3 if SHORT else 8
# A loaded machine delays clients; what a disk of milliseconds gives them moves little.
BOUND = 1.3
MIB = 1 << 20

# Jobs by mix: name, options. `{n}` is the size of a part of the disk.
MIXES = {
    "random beside sequential": [
        ("sequential", "rw=read\nbs=128k\noffset=0\nsize={n}"),
        ("random", "rw=randread\nnorandommap\nbs=8k\noffset={n}\nsize={n}"),
    ],
    "reader beside writer": [
        ("reader", "rw=read\nbs=128k\noffset=0\nsize={n}"),
        ("writer", "rw=write\nbs=128k\noffset={n}\nsize={n}"),
    ],
}


def text(mix, part, head):
    lines = f"[global]\n{head}\ndirect=1\ntime_based\nruntime={RUNTIME}\n"
    for name, options in MIXES[mix]:
        lines += f"[{name}]\n" + options.format(n=part) + "\n"
    return lines


def serve_fio(folder, job, scheduler, words):
    """The jobs of fio's report; `job` is the text of a job file but for where it connects."""
    command = [IOPACE, "serve", *words, "--direct", "--window-policy", "fixed"]
    command += ["--socket", "s", "--no-control", "--sched", scheduler]
    with open(os.path.join(folder, "err"), "w") as err:
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=err)
    try:
        uri = server.stdout.readline().decode().strip()
        if not uri.startswith("nbd+unix"):
            sys.exit(open(os.path.join(folder, "err")).read() or "the server did not start")
        with open(os.path.join(folder, "live.fio"), "w") as file:
            file.write(job(f"ioengine=nbd\nuri={uri}"))
        fio = ["fio", "live.fio", "--output-format=json", "--output=out.json"]
        subprocess.run(fio, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    with open(os.path.join(folder, "out.json")) as file:
        out = file.read()
    return json.loads(out[out.index("{") :])["jobs"]


def client_us(folder, seconds=1):
    """What fio, the socket and the daemon take per request: a disk that takes no time, depth 1."""
    job = f"direct=1\ntime_based\nruntime={seconds}\n[client]\nrw=randread\nbs=8k\nsize=1g\n"
    words = ["--emulate", "null", "--size", "1GiB"]
    (client,) = serve_fio(folder, lambda head: f"[global]\n{head}\n{job}", "fifo", words)
    return max(round(client["read"]["runtime"] * 1e3 / max(client["read"]["total_ios"], 1)), 1)


def live(folder, mix, part, scheduler, words):
    """MB/s of each job, by fio against a daemon of its own."""
    jobs = serve_fio(folder, lambda head: text(mix, part, head), scheduler, words)
    return {
        job["jobname"]: (job["read"]["io_bytes"] + job["write"]["io_bytes"])
        / max(job["read"]["runtime"], job["write"]["runtime"], 1)
        / 1e3
        for job in jobs
    }


def simulated(folder, mix, part, scheduler, disk, thinks_us):
    """MB/s of each job, in virtual time; a client thinks as long as a real one takes."""
    with open(os.path.join(folder, "sim.fio"), "w") as file:
        file.write(text(mix, part, f"filename=disk\nthinktime={thinks_us}"))
    command = [IOPACE, "sim", "replay", "sim.fio", "--disk", disk, "--sched", scheduler]
    command += ["--strict", "--format", "json"]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    (report,) = json.loads(done.stdout)
    return {name: one["bytes"] / RUNTIME / 1e6 for name, one in report["streams"].items()}


def compare(folder, mix, part, schedulers, words, disk, title):
    """One table; gives (scheduler, job) -> (live, simulated)."""
    print(f"\n### {title}: {mix}\n")
    print("| scheduler | client, us | job | live, MB/s | simulated, MB/s | difference |")
    print("|---|---:|---|---:|---:|---:|")
    figures = {}
    for scheduler in schedulers:
        # Before and after: other load on the machine comes and goes.
        before = client_us(folder)
        real = live(folder, mix, part, scheduler, words)
        client = (before + client_us(folder)) // 2
        model = simulated(folder, mix, part, scheduler, disk, client)
        for job, _ in MIXES[mix]:
            difference = (model[job] - real[job]) / real[job] * 100 if real[job] else 0.0
            row = f"| {scheduler} | {client} | {job} | {real[job]:.2f} | {model[job]:.2f} |"
            print(f"{row} {difference:+.1f} % |", flush=True)
            figures[scheduler, job] = (real[job], model[job])
    errors = [abs(model - real) / real for real, model in figures.values() if real]
    print(f"\nmean difference {sum(errors) / len(errors) * 100:.1f} %, ", end="")
    print(f"largest {max(errors) * 100:.1f} %", flush=True)
    return figures


def emulated(folder):
    """Live beside simulated, on emulated disks."""
    words = ["--emulate", PRESET, "--size", "32GiB"]
    mixes = list(MIXES)[:1] if SHORT else list(MIXES)
    schedulers = SCHEDULERS[:2] if SHORT else SCHEDULERS
    for mix in mixes:
        found = compare(folder, mix, "12g", schedulers, words, PRESET, f"emulated {PRESET}")
        for key, (real, model) in found.items():
            if SHORT:
                figure(f"model against live: {' '.join(key)}", f"{real:.2f} live, {model:.2f} MB/s",
                       f"within {BOUND}", model / BOUND <= real <= model * BOUND)
        first = MIXES[mix][0][0]
        order = [sorted(schedulers, key=lambda s: found[s, first][side]) for side in (0, 1)]
        if SHORT:
            figure("model against live: order of the schedulers", " < ".join(order[0]),
                   " < ".join(order[1]), order[0] == order[1])


def real_file(folder):
    path, model = os.path.join(folder, "file.img"), os.path.join(folder, "file.toml")
    with open(path, "wb") as file:
        for _ in range(512):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    command = [IOPACE, "calibrate", path, "--write", "--overwrite", "--out", model]
    command += ["--time", "20s", "--format", "json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    print(f"\nmodel of a real file: {report['model']}, ", end="")
    print(f"mean error of {len(report['figures'])} figures", end=" ")
    print(f"{report['mean_error_permille'] / 10} %")
    for note in report["notes"]:
        print(f"note: {note}")
    for mix in MIXES:
        compare(folder, mix, "250m", SCHEDULERS, [path], model, "a real file")


with tempfile.TemporaryDirectory(prefix="iopace-truth-", dir=os.environ.get("TMPDIR")) as place:
    emulated(place)
    if not SHORT:
        real_file(place)
