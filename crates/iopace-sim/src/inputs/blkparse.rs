//! The default output of blkparse.
//!
//! ```text
//! DEV  CPU SEQUENCE TIME        PID ACTION RWBS SECTOR + SECTORS [PROCESS]
//! 8,0    3        1 0.000000000 697 Q      WS   223490 + 8       [kjournald]
//! ```
//! A request is where it is queued: action `Q`. All other actions, messages, and the summary at the
//! end are passed over. RWBS: a leading `F` flushes first; then `R` read, `W` write, `D` discard,
//! `N` none of them; an `F` after that is FUA (Linux, `blk_fill_rwbs`). Sectors have 512 B.
//!
//! Source: blkparse(1), "Default output"; `include/uapi/linux/blktrace_api.h`.

use super::blktrace::{Queued, RequestKind, SECTOR};
use super::lines::{TextLines, number};
use super::{Mistake, Names, Parse, Record};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::io::BufRead;

/// Whether a file with this first line is output of blkparse.
pub(super) fn is_blkparse(first: &str) -> bool {
    let mut fields = first.split_ascii_whitespace();
    let device = fields.next().is_some_and(is_device);
    device && fields.next().is_some_and(|cpu| cpu.parse::<u32>().is_ok())
}

fn is_device(field: &str) -> bool {
    let halves = field.split_once(',');
    halves
        .is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
}

/// The parser.
pub(super) struct Blkparse<R> {
    lines: TextLines<R>,
    /// A write behind its flush.
    pending: Option<Record>,
}

impl<R: BufRead> Blkparse<R> {
    pub(super) fn new(reader: R) -> Blkparse<R> {
        Blkparse { lines: TextLines::new(reader), pending: None }
    }
}

/// What a line says.
enum BlkparseLine {
    Other,
    /// The summary begins: there is no event after it.
    Summary,
    Requests(Record, Option<Record>),
}

fn parse(line: &str, place: u64, names: &mut Names) -> Result<BlkparseLine, String> {
    let mut fields = line.split_ascii_whitespace();
    let Some(device) = fields.next() else { return Ok(BlkparseLine::Other) };
    if !is_device(device) {
        if device.starts_with("CPU") || device.starts_with("Total") {
            return Ok(BlkparseLine::Summary);
        }
        return Err("a line begins with MAJOR,MINOR of a device: blkparse must have been run \
                    without -f and -F"
            .into());
    }
    let mut field = |what| fields.next().ok_or_else(|| format!("the {what} is missing"));
    number(field("CPU")?, "CPU")?;
    number(field("sequence number")?, "sequence number")?;
    let at = time(field("time")?)?;
    let pid = number(field("process id")?, "process id")?;
    if field("action")? != "Q" {
        return Ok(BlkparseLine::Other);
    }
    let rwbs = field("RWBS")?;
    let kind = kind(rwbs)?;
    let rest = [fields.next(), fields.next(), fields.next(), fields.next()];
    let (sector, sectors, name) = match rest {
        [Some(sector), Some("+"), Some(sectors), name] => (sector, sectors, name.unwrap_or("")),
        [name, None, ..] => ("0", "0", name.unwrap_or("")),
        _ => return Err("after RWBS comes 'SECTOR + SECTORS [PROCESS]'".into()),
    };
    let bytes = |text, what| {
        let sectors = number(text, what)?;
        sectors.checked_mul(SECTOR).ok_or_else(|| format!("the {what} is beyond 2^64 bytes"))
    };
    let (offset, len) = (bytes(sector, "sector")?, bytes(sectors, "number of sectors")?);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let queued = Queued { at, kind, offset: Bytes(offset), len: Bytes(len), place };
    Ok(match queued.records(names, (name, pid), device)? {
        Some((first, second)) => BlkparseLine::Requests(first, second),
        None => BlkparseLine::Other,
    })
}

fn kind(rwbs: &str) -> Result<RequestKind, String> {
    let mut kind = RequestKind::default();
    let (mut has_op, all) = (false, rwbs.as_bytes());
    for (index, letter) in all.iter().enumerate() {
        match letter {
            // A flush of its own is "F" and "FF": what follows is no operation.
            b'F' if !has_op && index == 0 => kind.flush = true,
            b'F' => kind.fua = true,
            b'R' => kind.read = true,
            b'W' => kind.write = true,
            b'D' => kind.discard = true,
            b'N' | b'A' | b'S' | b'M' | b'E' | b'B' => {}
            _ => {
                let rwbs: String = rwbs.chars().take(20).collect();
                return Err(format!("RWBS '{rwbs}' has letters other than F R W D E N A S M B"));
            }
        }
        has_op |= matches!(letter, b'R' | b'W' | b'D' | b'N');
    }
    Ok(kind)
}

/// A time in seconds with a point: exact to a nanosecond.
fn time(text: &str) -> Result<Nanos, String> {
    let wrong = || {
        let text: String = text.chars().take(40).collect();
        format!("the time '{text}' is not SECONDS.NANOSECONDS")
    };
    let (seconds, fraction) = text.split_once('.').ok_or_else(wrong)?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction = fraction.parse::<u64>().map_err(|_| wrong())? * scale;
    let seconds = seconds.parse::<u64>().map_err(|_| wrong())?;
    let nanos = seconds.checked_mul(1_000_000_000).and_then(|n| n.checked_add(fraction));
    nanos.map(Nanos).ok_or_else(wrong)
}

impl<R: BufRead + Send> Parse for Blkparse<R> {
    fn next(&mut self, names: &mut Names) -> Result<Option<Record>, Mistake> {
        if let Some(record) = self.pending.take() {
            return Ok(Some(record));
        }
        loop {
            let place = self.lines.number() + 1;
            let Some(line) = self.lines.next()? else { return Ok(None) };
            let parsed = parse(line, place, names);
            match parsed.map_err(|message| self.lines.mistake(message))? {
                BlkparseLine::Other => {}
                BlkparseLine::Summary => return Ok(None),
                BlkparseLine::Requests(first, second) => {
                    self.pending = second;
                    return Ok(Some(first));
                }
            }
        }
    }
}
