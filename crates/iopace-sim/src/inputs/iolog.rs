//! fio's iolog, versions 2 and 3.
//!
//! ```text
//! fio version 2 iolog                      fio version 3 iolog
//! FILE add | open | close                  TIME FILE add | open | close
//! FILE ACTION OFFSET LENGTH                TIME FILE ACTION OFFSET LENGTH
//! FILE wait MICROSECONDS 0
//! ```
//! Actions: `read`, `write`, `trim`, `sync`, `datasync`; `sync_file_range` starts write-back of
//! pages that are none of ours and is passed over. Version 3 has the time of each action in
//! microseconds since the beginning; version 2 knows time by `wait` only, relative to the `wait`
//! before, and, as in fio, waits below 100 us are none.
//!
//! Source: "Trace file format" of fio's HOWTO (3.33), and what `fio --write_iolog` writes.

use super::lines::{TextLines, number};
use super::{Mistake, Names, Parse, Record, check};
use iopace_core::request::Op;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::io::BufRead;

/// Waits below this are none (fio's HOWTO, "Trace file format v2").
const WAIT_US_MIN: u64 = 100;

/// Whether a file with this first line is an iolog.
pub(super) fn is_iolog(first: &str) -> bool {
    first.starts_with("fio version ") && first.ends_with(" iolog")
}

/// The parser.
pub(super) struct Iolog<R> {
    lines: TextLines<R>,
    /// 0 before the first line is read.
    version: u32,
    /// The time of a version 2 log.
    now_us: u64,
}

impl<R: BufRead> Iolog<R> {
    pub(super) fn new(reader: R) -> Iolog<R> {
        Iolog { lines: TextLines::new(reader), version: 0, now_us: 0 }
    }

    fn header(&mut self) -> Result<(), Mistake> {
        self.version = match self.lines.next()? {
            Some("fio version 2 iolog") => 2,
            Some("fio version 3 iolog") => 3,
            _ => {
                let message = "the first line must be 'fio version 2 iolog' or 'fio version 3 \
                               iolog'; version 1 was given up by fio in 2008: record it anew";
                return Err(self.lines.mistake(message));
            }
        };
        Ok(())
    }
}

/// What to do about a file with a header in the middle.
const MIXED: &str = "several fio jobs wrote into this file: give each a write_iolog of its own and \
                     replay the files beside each other";

/// What a line says.
enum IologLine {
    /// Nothing for us.
    Other,
    /// Time passes, in microseconds.
    Wait(u64),
    /// A request.
    Request(Record),
}

fn parse(line: &str, version: u32, now_us: u64, names: &mut Names) -> Result<IologLine, String> {
    let mut fields = line.split_ascii_whitespace();
    let mut field = |what| fields.next().ok_or_else(|| format!("the {what} is missing"));
    let time_us = match version {
        3 => number(field("time stamp")?, "time stamp")?,
        _ => now_us,
    };
    let file = field("file name")?;
    let action = field("action")?;
    let op = match action {
        "add" | "open" | "close" | "sync_file_range" => return Ok(IologLine::Other),
        "wait" if version == 2 => {
            return number(field("time to wait")?, "time to wait").map(IologLine::Wait);
        }
        "wait" => return Err("version 3 has no 'wait': its lines have time stamps".into()),
        "read" => Op::Read,
        "write" => Op::Write,
        "trim" => Op::Trim,
        "sync" | "datasync" => Op::Flush,
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(format!(
                "no action '{other}'; there are: add, open, close, read, write, trim, sync, \
                 datasync, sync_file_range, wait"
            ));
        }
    };
    // fio writes offset and length after a sync too; they mean nothing there.
    let (offset, len) = match op {
        Op::Flush => (0, 0),
        _ => (number(field("offset")?, "offset")?, number(field("length")?, "length")?),
    };
    let (offset, len) = (Bytes(offset), Bytes(len));
    check(op, offset, len)?;
    let at = time_us.checked_mul(1_000).map(Nanos);
    let at = at.ok_or("the time stamp is beyond 584 years")?;
    let (stream, volume) = (names.stream(file), names.volume(file)?);
    let (fua, took, place) = (false, None, 0);
    Ok(IologLine::Request(Record { at, op, offset, len, fua, stream, volume, took, place }))
}

impl<R: BufRead + Send> Parse for Iolog<R> {
    fn next(&mut self, names: &mut Names) -> Result<Option<Record>, Mistake> {
        if self.version == 0 {
            self.header()?;
        }
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.is_empty() {
                continue;
            }
            let parsed = parse(line, self.version, self.now_us, names).map_err(|message| {
                // Jobs with one `write_iolog` write over each other's lines, each with a header.
                match line.contains("fio version ") {
                    true => format!("{message}; {MIXED}"),
                    false => message,
                }
            });
            match parsed.map_err(|message| self.lines.mistake(message))? {
                IologLine::Other => {}
                IologLine::Wait(us) if us < WAIT_US_MIN => {}
                IologLine::Wait(us) => match self.now_us.checked_add(us) {
                    Some(now_us) => self.now_us = now_us,
                    None => return Err(self.lines.mistake("the waits add up to 2^64 us")),
                },
                IologLine::Request(record) => {
                    return Ok(Some(Record { place: self.lines.number(), ..record }));
                }
            }
        }
    }
}
