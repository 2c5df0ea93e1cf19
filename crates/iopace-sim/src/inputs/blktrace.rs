//! blktrace as the kernel writes it: `blktrace -o -`, `blkparse -d`, or one CPU's file.
//!
//! An event is 48 bytes of the byte order of the machine that wrote it, and then a payload:
//! ```text
//! 0 magic  4 sequence  8 time (ns)  16 sector  24 bytes  28 action  32 pid  36 device  40 cpu
//! 44 error (16 bits)  46 length of the payload (16 bits)
//! ```
//! The upper 16 bits of `action` are categories (read, write, discard, flush, FUA ...), the lower
//! ones the action, of which bit 8 says that a cgroup's id stands before the payload. A request is
//! where it is queued: action 1. A notification of a process gives the name of a pid. Everything
//! else is passed over, and so are requests that move nothing and flush nothing.
//!
//! Source: `include/uapi/linux/blktrace_api.h`, version 7, the only one since 2006.

use super::{InputPlace, Mistake, Names, Parse, Record, check};
use iopace_core::request::Op;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;

/// The upper 24 bits of an event's first word; the lower 8 are the version.
const MAGIC: u32 = 0x6561_7400;
/// The version that is understood.
const VERSION: u32 = 7;
/// Bytes of an event before its payload.
const HEAD: usize = 48;
/// Most names of processes kept; a later one is named by its number.
const PROCESSES_MAX: usize = 65_536;

/// `BLK_TC_READ` and the others that tell what a request is.
const READ: u32 = 1;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;
/// `__BLK_TA_QUEUE`, and `__BLK_TA_CGROUP` beside it.
const QUEUE: u32 = 1;
const CGROUP: u32 = 1 << 8;
/// `__BLK_TN_PROCESS`.
const PROCESS: u32 = 0;

/// Whether a file that begins so is a blktrace of either byte order.
pub(super) fn is_blktrace(head: &[u8]) -> bool {
    let Some(word) = head.first_chunk::<4>() else { return false };
    [u32::from_le_bytes(*word), u32::from_be_bytes(*word)]
        .iter()
        .any(|word| word >> 8 == MAGIC >> 8)
}

/// What a request is, as blktrace and blkparse tell it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestKind {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) discard: bool,
    pub(super) flush: bool,
    pub(super) fua: bool,
}

/// A request at the moment when it was queued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) at: Nanos,
    pub(super) kind: RequestKind,
    pub(super) offset: Bytes,
    pub(super) len: Bytes,
    pub(super) place: u64,
}

impl Queued {
    /// One record, or two: a write that flushes first. None if nothing is moved and nothing
    /// flushed.
    pub(super) fn records(
        self,
        names: &mut Names,
        (name, pid): (&str, u64),
        device: &str,
    ) -> Result<Option<(Record, Option<Record>)>, String> {
        let Queued { at, kind, offset, len, place } = self;
        let op = if kind.discard {
            Some(Op::Trim)
        } else if kind.write {
            Some(Op::Write)
        } else {
            kind.read.then_some(Op::Read)
        };
        let op = op.filter(|_| len.0 > 0);
        if op.is_none() && !kind.flush {
            return Ok(None);
        }
        let (stream, volume) = (names.process(name, pid), names.volume(device)?);
        let record = |op, offset, len, fua| Record {
            at,
            op,
            offset,
            len,
            fua,
            stream,
            volume,
            took: None,
            place,
        };
        let flush = kind.flush.then(|| record(Op::Flush, Bytes::ZERO, Bytes::ZERO, false));
        let moved = match op {
            Some(op) => {
                check(op, offset, len)?;
                Some(record(op, offset, len, kind.fua && op == Op::Write))
            }
            None => None,
        };
        Ok(match (flush, moved) {
            (Some(flush), moved) => Some((flush, moved)),
            (None, moved) => moved.map(|moved| (moved, None)),
        })
    }
}

/// The parser.
pub(super) struct Blktrace<R> {
    reader: R,
    /// Bytes read so far: the place of the next event.
    at: u64,
    /// Known after the first event.
    is_big_endian: Option<bool>,
    processes: BTreeMap<u32, String>,
    payload: Vec<u8>,
    pending: Option<Record>,
}

/// The words of an event.
struct Event {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    payload: u16,
}

impl<R: BufRead> Blktrace<R> {
    pub(super) fn new(reader: R) -> Blktrace<R> {
        let (processes, payload) = (BTreeMap::new(), Vec::new());
        Blktrace { reader, at: 0, is_big_endian: None, processes, payload, pending: None }
    }

    /// Fills `buffer`, or as much of it as there is.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Mistake> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err((InputPlace::Byte(self.at), format!("cannot be read: {error}")));
                }
            }
        }
        Ok(filled)
    }

    fn cut_off(&self, begin: u64) -> Mistake {
        let message = format!(
            "the last event is cut off: record it anew, or leave the rest out, as with 'head -c \
             {begin}'"
        );
        (InputPlace::Byte(begin), message)
    }

    /// The next event with its payload, of which at most 64 KiB are there.
    fn event(&mut self) -> Result<Option<(u64, Event)>, Mistake> {
        let begin = self.at;
        let mut head = [0; HEAD];
        match self.fill(&mut head)? {
            0 => return Ok(None),
            HEAD => {}
            _ => return Err(self.cut_off(begin)),
        }
        let bytes = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let is_big = *self.is_big_endian.get_or_insert(head[0] == 0x65);
        let word = |at| match is_big {
            true => u32::from_be_bytes(bytes(at)),
            false => u32::from_le_bytes(bytes(at)),
        };
        let long = |at| match is_big {
            true => u64::from(word(at)) << 32 | u64::from(word(at + 4)),
            false => u64::from(word(at + 4)) << 32 | u64::from(word(at)),
        };
        let magic = word(0);
        if magic >> 8 != MAGIC >> 8 {
            let message = format!(
                "no event of blktrace begins here ({magic:#010x}, not {:#010x}): the file is \
                 damaged, or parts of it are missing",
                MAGIC | VERSION
            );
            return Err((InputPlace::Byte(begin), message));
        }
        if magic & 0xff != VERSION {
            let message = format!("blktrace version {}, only {VERSION} is known", magic & 0xff);
            return Err((InputPlace::Byte(begin), message));
        }
        let payload = match is_big {
            true => u16::from_be_bytes([head[46], head[47]]),
            false => u16::from_le_bytes([head[46], head[47]]),
        };
        let (time_ns, sector, bytes) = (long(8), long(16), word(24));
        let (action, pid, device) = (word(28), word(32), word(36));
        let event = Event { time_ns, sector, bytes, action, pid, device, payload };
        let mut rest = std::mem::take(&mut self.payload);
        rest.resize(usize::from(event.payload), 0);
        let filled = self.fill(&mut rest)?;
        self.payload = rest;
        if filled < self.payload.len() {
            return Err(self.cut_off(begin));
        }
        self.at += (HEAD + filled) as u64;
        Ok(Some((begin, event)))
    }

    /// Keeps the name of a process.
    fn name(&mut self, pid: u32) {
        let name = self.payload.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(&name[..name.len().min(16)]).into_owned();
        let has_room = self.processes.len() < PROCESSES_MAX;
        if has_room || self.processes.contains_key(&pid) {
            self.processes.insert(pid, name);
        }
    }
}

impl<R: BufRead + Send> Parse for Blktrace<R> {
    fn next(&mut self, names: &mut Names) -> Result<Option<Record>, Mistake> {
        if let Some(record) = self.pending.take() {
            return Ok(Some(record));
        }
        while let Some((begin, event)) = self.event()? {
            let (categories, action) = (event.action >> 16, event.action & 0xffff & !CGROUP);
            if categories & NOTIFY != 0 {
                if action == PROCESS {
                    self.name(event.pid);
                }
                continue;
            }
            if action != QUEUE {
                continue;
            }
            let has = |category| categories & category != 0;
            let kind = RequestKind {
                read: has(READ),
                write: has(WRITE),
                discard: has(DISCARD),
                flush: has(FLUSH),
                fua: has(FUA),
            };
            let fail = |message: String| (InputPlace::Byte(begin), message);
            let offset = event.sector.checked_mul(SECTOR);
            // A flush may carry any sector.
            let offset = match (offset, event.bytes) {
                (Some(offset), _) => offset,
                (None, 0) => 0,
                (None, _) => {
                    return Err(fail(format!("sector {} is beyond 2^64 bytes", event.sector)));
                }
            };
            let (len, at) = (Bytes(u64::from(event.bytes)), Nanos(event.time_ns));
            let queued = Queued { at, kind, offset: Bytes(offset), len, place: begin };
            let name = self.processes.get(&event.pid).map_or("", String::as_str);
            // dev_t of the kernel: 12 bits of major above 20 bits of minor.
            let device = format!("{},{}", event.device >> 20, event.device & 0xf_ffff);
            let records = queued.records(names, (name, u64::from(event.pid)), &device);
            if let Some((first, second)) = records.map_err(fail)? {
                self.pending = second;
                return Ok(Some(first));
            }
        }
        Ok(None)
    }
}
