//! The CSV of the traces of Microsoft Research Cambridge.
//!
//! ```text
//! Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//! 128166372003061629,hm,1,Read,383496192,32768,413
//! ```
//! Times count 100 ns ("Windows filetime", since 1601); offset and size are bytes. A first line
//! with the names of the fields is passed over.
//!
//! Source: the README of the trace set; Narayanan, Donnelly, Rowstron, "Write Off-Loading", FAST
//! 2008.

use super::lines::{TextLines, number};
use super::{Mistake, Names, Parse, Record, check};
use iopace_core::request::Op;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::io::BufRead;

/// Nanoseconds of one tick.
const TICK: u64 = 100;

/// Whether a file with this first line is such a trace.
pub(super) fn is_msr(first: &str) -> bool {
    first.matches(',').count() == 6 && !first.contains(' ')
}

/// The parser.
pub(super) struct Msr<R> {
    lines: TextLines<R>,
}

impl<R: BufRead> Msr<R> {
    pub(super) fn new(reader: R) -> Msr<R> {
        Msr { lines: TextLines::new(reader) }
    }
}

fn parse(line: &str, place: u64, names: &mut Names) -> Result<Record, String> {
    let mut fields = line.split(',');
    let mut field = || fields.next().map(str::trim);
    let all = [field(), field(), field(), field(), field(), field(), field()];
    let [Some(time), Some(host), Some(disk), Some(op), Some(offset), Some(len), Some(took)] = all
    else {
        return Err("seven fields are wanted: Timestamp,Hostname,DiskNumber,Type,Offset,Size,\
                    ResponseTime"
            .into());
    };
    if fields.next().is_some() {
        return Err("more than seven fields".into());
    }
    let nanos = |text, what| {
        let ticks = number(text, what)?;
        ticks.checked_mul(TICK).map(Nanos).ok_or_else(|| format!("the {what} is beyond 2^64 ns"))
    };
    let at = nanos(time, "time stamp")?;
    number(disk, "disk number")?;
    let op = if op.eq_ignore_ascii_case("read") {
        Op::Read
    } else if op.eq_ignore_ascii_case("write") {
        Op::Write
    } else {
        let op: String = op.chars().take(40).collect();
        return Err(format!("the type '{op}' is neither Read nor Write"));
    };
    let (offset, len) = (Bytes(number(offset, "offset")?), Bytes(number(len, "size")?));
    check(op, offset, len)?;
    let took = Some(nanos(took, "response time")?);
    let (stream, volume) = names.disk(host, disk)?;
    Ok(Record { at, op, offset, len, fua: false, stream, volume, took, place })
}

impl<R: BufRead + Send> Parse for Msr<R> {
    fn next(&mut self, names: &mut Names) -> Result<Option<Record>, Mistake> {
        loop {
            let place = self.lines.number() + 1;
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.is_empty() || (place == 1 && line.starts_with("Timestamp,")) {
                continue;
            }
            let record = parse(line, place, names);
            return record.map(Some).map_err(|message| self.lines.mistake(message));
        }
    }
}
