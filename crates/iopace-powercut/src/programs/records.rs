//! A small store: records with checksums are appended to a log, each durable before the next, and
//! now and then the log is rewritten and takes the place of the old one.

use crate::bench::{Bench, Over};
use crate::cut::{Cutter, Names};
use crate::node::{Nodes, ROOT, Random};
use crate::report::Report;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

/// A sum that a torn record does not have (FNV-1a).
fn sum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The record of a number.
fn record(number: u64) -> Vec<u8> {
    let len = 20 + number * 211 % 1500;
    let mut body = number.to_le_bytes().to_vec();
    body.extend(len.to_le_bytes());
    body.extend((0..len).map(|at| (number + at) as u8));
    let sum = sum(&body);
    body.extend(sum.to_le_bytes());
    body
}

/// How many records a log has, up to the first one that is not whole.
fn count(log: &[u8]) -> u64 {
    let (mut at, mut number) = (0, 0);
    while log[at..].starts_with(&record(number)) {
        at += record(number).len();
        number += 1;
    }
    number
}

/// Appends records and rewrites the log each eighth time; from which moment on how many records are
/// durable.
fn work(bench: &Bench, records: u64) -> io::Result<Vec<(usize, u64)>> {
    let (path, new) = (bench.at.join("log"), bench.at.join("log.new"));
    let directory = File::open(&bench.at)?;
    let open = || OpenOptions::new().append(true).create(true).open(&path);
    let mut log = open()?;
    directory.sync_all()?;
    let mut promised = Vec::new();
    for number in 0..records {
        log.write_all(&record(number))?;
        log.sync_data()?;
        promised.push((bench.tree.moment(), number + 1));
        if number % 8 == 7 {
            let mut whole = File::create(&new)?;
            whole.write_all(&fs::read(&path)?)?;
            whole.sync_all()?;
            fs::rename(&new, &path)?;
            directory.sync_all()?;
            log = open()?;
        }
    }
    Ok(promised)
}

fn found(state: &Nodes) -> u64 {
    let log = state[&ROOT].entries.get(OsStr::new("log")).and_then(|id| state.get(id));
    log.map_or(0, |log| count(&log.data))
}

/// Runs it through a mount, and tries all cuts.
///
/// # Errors
/// The bench does not start, or an operation fails.
pub fn records(over: Over, records: u64, seed: u64) -> io::Result<Report> {
    let bench = Bench::mounted(over)?;
    let promised = work(&bench, records)?;
    let (base, events) = {
        let tree = bench.tree.lock();
        (tree.base.clone(), tree.events.clone())
    };
    let mut report = Report { workloads: 1, ..Report::default() };
    let mut random = Random(seed);
    let mut cutter = Cutter::new(base, Names::Apart);
    for moment in 1..=events.len() {
        cutter.push(&events[moment - 1]);
        report.cuts += 1;
        let returned = promised.iter().filter(|(at, _)| *at <= moment);
        let least = returned.map(|(_, count)| *count).max().unwrap_or(0);
        for choice in cutter.choices(4, &mut random) {
            let found = found(&cutter.state(&choice));
            let kept = if found < least {
                Err(format!("{found} records, {least} were durable"))
            } else {
                Ok(())
            };
            report.checked(kept, || format!("seed {seed}, event {moment}"));
        }
    }
    Ok(report)
}
