//! Runs workloads and prints a table: `iopace-powercut [short|long|random] [SEED [OPERATIONS]]`.
//! `long` is all of them but random load, `random` is that alone, and `short` some of all.
//!
//! `iopace-powercut replay LOG DISK ENTRIES BYTES MARK` replays a log of dm-log-writes from a place
//! to a mark and prints that place.

use iopace_powercut::ace;
use iopace_powercut::bench::{Bench, WAYS, cut_all};
use iopace_powercut::load::{self, DiskAccess, Disorder};
use iopace_powercut::logwrites::{Place, replay};
use iopace_powercut::programs::{self, Program};
use iopace_powercut::report::Report;
use iopace_powercut::tree::Broken;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::fs::{File, OpenOptions};
use std::io;
use std::process::ExitCode;
use std::thread;

/// How much of each.
struct Size {
    /// Operations of the longest workloads.
    operations: usize,
    /// Requests of a random load, and the least number of cuts of each way.
    requests: (u64, u64),
    /// Writes that another client flushes.
    crossed: u64,
    /// Transactions and cuts of a program.
    program: (u64, u64),
}

const SHORT: Size = Size { operations: 1, requests: (280, 1), crossed: 20, program: (12, 25) };
const LONG: Size = Size { operations: 3, requests: (0, 0), crossed: 0, program: (60, 300) };
const RANDOM: Size =
    Size { operations: 0, requests: (2500, 10_000), crossed: 1000, program: (0, 0) };

fn main() -> ExitCode {
    let all: Vec<String> = std::env::args().skip(1).collect();
    if let [replay, log, disk, entries, bytes, mark] = &all[..]
        && replay == "replay"
    {
        return match replayed((log, disk), (entries, bytes), mark) {
            Ok(Place { entries, bytes }) => {
                println!("{entries} {bytes}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut arguments = all.into_iter();
    let mut size = match arguments.next().as_deref() {
        Some("long") => LONG,
        Some("random") => RANDOM,
        Some("short") | None => SHORT,
        Some(other) => {
            eprintln!("`{other}` is none of `short`, `long` and `random`");
            return ExitCode::from(2);
        }
    };
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse());
    let Ok(seed) = seed else {
        eprintln!("the seed is a number");
        return ExitCode::from(2);
    };
    match arguments.next().map(|operations| operations.parse()) {
        None => {}
        Some(Ok(operations @ 1..=3)) => size.operations = operations,
        Some(_) => {
            eprintln!("workloads have 1 to 3 operations");
            return ExitCode::from(2);
        }
    }
    if let Some(why) = Bench::missing() {
        eprintln!("skipped: {why}");
        return ExitCode::SUCCESS;
    }
    end_on_signals();
    match run(&size, seed) {
        Ok(sum) if sum.violations == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Ctrl-C: mounts of our own would keep us from ending.
fn end_on_signals() {
    let ends = Signals::new([libc::SIGINT, libc::SIGTERM, libc::SIGHUP]);
    if let Ok(mut ends) = ends {
        thread::spawn(move || {
            for signal in ends.forever() {
                cut_all();
                let _ = emulate_default_handler(signal);
            }
        });
    }
}

fn replayed(
    (log, disk): (&str, &str),
    (entries, bytes): (&str, &str),
    mark: &str,
) -> io::Result<Place> {
    let number = |text: &str| text.parse().map_err(io::Error::other);
    let from = Place { entries: number(entries)?, bytes: number(bytes)? };
    let disk = OpenOptions::new().read(true).write(true).open(disk)?;
    replay(&File::open(log)?, &disk, from, mark)
}

fn loads(size: &Size, seed: u64, row: &mut impl FnMut(&str, Report)) -> io::Result<()> {
    for way in DiskAccess::ALL {
        if let Some(why) = way.missing() {
            println!("| {way} | skipped: {why} | | | |");
            continue;
        }
        for disorder in [Disorder::Quiet(Broken::Nothing), Disorder::Errors] {
            let (mut all, mut seed) = (Report::default(), seed);
            while all.cuts < size.requests.1 {
                all += load::run(way, size.requests.0, disorder, seed)?;
                seed += 1;
            }
            let name = match disorder {
                Disorder::Errors => format!("the same with {} errors, {way}", all.errors),
                _ => format!("random load, {way}"),
            };
            row(&name, all);
        }
        let crossed = load::run_crossed(way, size.crossed, Broken::Nothing, seed)?;
        row(&format!("flushed by another client, {way}"), crossed);
    }
    Ok(())
}

fn run(size: &Size, seed: u64) -> io::Result<Report> {
    let mut sum = Report::default();
    let mut row = |name: &str, report: Report| {
        println!("{}", report.row(name));
        report.told.iter().for_each(|line| eprintln!("{name}: {line}"));
        sum += report;
    };
    println!("| work | workloads | cuts | states | violations |\n|---|---|---|---|---|");
    for over in WAYS {
        for operations in 1..=size.operations {
            let report = ace::run_all(over, &ace::workloads(operations), seed)?;
            row(&format!("mounted {over:?}, {operations} operations"), report);
        }
    }
    if size.requests.0 > 0 {
        loads(size, seed, &mut row)?;
    }
    for over in WAYS.into_iter().filter(|_| size.program.0 > 0) {
        let report = programs::records(over, size.program.0 * 4, seed)?;
        row(&format!("log of records, mounted {over:?}"), report);
        for program in Program::ALL {
            if program.is_there() {
                let report = programs::run(program, over, size.program, Broken::Nothing, seed)?;
                row(&format!("{program:?}, mounted {over:?}"), report);
            } else {
                println!("| {program:?} | skipped: not installed | | | |");
            }
        }
    }
    println!("{}", sum.row("sum"));
    Ok(sum)
}
