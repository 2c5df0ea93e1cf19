//! Recorded load from outside: traces in public formats, read as streams, and fio job files.
//!
//! A trace is never held in memory: a parser gives one [`Record`] after the other, the names that
//! it meets are kept in a table of bounded size, and [`order`] puts records right that are out of
//! order by a little. [`survey`] reads a whole trace once before it is replayed, so that a mistake
//! is found before anything runs; [`place`] puts its offsets onto a disk.
//!
//! | format | told by | [`Format`] |
//! |---|---|---|
//! | fio iolog v2, v3 | first line `fio version N iolog` | `iolog` |
//! | blktrace, binary | the magic number 0x65617400, of either byte order | `blktrace` |
//! | blkparse, default output | first line begins with `MAJOR,MINOR` and a CPU | `blkparse` |
//! | MSR Cambridge CSV | first line has seven fields between commas | `msr` |
//! | fio job file | first line that is no comment is `[NAME]` | `fio` |
//! | `iopace record` | first line begins with `# iopace-record:` | `iopace` |

mod blkparse;
mod blktrace;
pub mod fio;
mod iolog;
mod lines;
mod msr;
mod names;
pub mod order;
pub mod place;
pub mod survey;

pub use names::{NAME_BYTES_MAX, Names, OTHERS, STREAMS_MAX};

use core::fmt;
use iopace_core::request::Op;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::io::BufRead;

/// Longest read or write of a trace: what one system call of Linux moves is less than half of it.
/// A longer one is a broken file, not a load.
pub const LEN_MAX: Bytes = Bytes::from_mib(4_096);

/// The first line of what `iopace record` writes begins so.
pub const RECORDING_MAGIC: &str = "# iopace-record:";

/// Most requests of one trace that are outstanding: a sixteenth of what a device takes, and four
/// times the deepest disk.
pub const OUTSTANDING_MAX: u32 = 4_096;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was issued, on the trace's own clock.
    pub at: Nanos,
    /// What was asked for.
    pub op: Op,
    /// First byte, on its volume.
    pub offset: Bytes,
    /// Bytes; none for a flush.
    pub len: Bytes,
    /// Durable before it is finished.
    pub fua: bool,
    /// Who asked: a place in [`Names::streams`].
    pub stream: u32,
    /// Which disk or file it is on: a place in [`Names::volumes`].
    pub volume: u32,
    /// How long it took when it was recorded, where the format tells.
    pub took: Option<Nanos>,
    /// Line, or byte offset in a binary file: for messages.
    pub place: u64,
}

/// Where in a file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputPlace {
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
}

/// What is wrong with a trace or a job file, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The file, as it was named.
    pub file: String,
    /// Where; `None` if it is the file as a whole.
    pub place: Option<InputPlace>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InputError { file, place, message } = self;
        match place {
            Some(InputPlace::Line(line)) => write!(f, "{file}:{line}: {message}"),
            Some(InputPlace::Byte(byte)) => write!(f, "{file}: at byte {byte}: {message}"),
            None => write!(f, "{file}: {message}"),
        }
    }
}

impl std::error::Error for InputError {}

/// A mistake within a file, whose name the caller knows.
type Mistake = (InputPlace, String);

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio iolog, version 2 or 3.
    Iolog,
    /// blktrace as the kernel writes it.
    Blktrace,
    /// The default output of blkparse.
    Blkparse,
    /// CSV as the traces of Microsoft Research Cambridge.
    Msr,
    /// A fio job file: a description of load, not a trace.
    Fio,
    /// What `iopace record` writes: it is replayed with the settings that it holds.
    Iopace,
}

impl Format {
    /// Every format with its word and what it is.
    pub const ALL: &[(Format, &str, &str)] = &[
        (Format::Iolog, "iolog", "fio iolog, version 2 or 3"),
        (Format::Blktrace, "blktrace", "blktrace, binary"),
        (Format::Blkparse, "blkparse", "the default output of blkparse"),
        (Format::Msr, "msr", "CSV of the MSR Cambridge traces"),
        (Format::Fio, "fio", "fio job file"),
        (Format::Iopace, "iopace", "what 'iopace record' writes"),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        let entry = Format::ALL.iter().find(|(format, ..)| *format == self);
        entry.map_or("?", |(_, name, _)| name)
    }

    /// The format of that name.
    pub fn find(name: &str) -> Option<Format> {
        Format::ALL.iter().find(|(_, word, _)| *word == name).map(|(format, ..)| *format)
    }

    /// The format of a file that begins so; some hundred bytes are enough.
    ///
    /// # Errors
    /// It is none of them; the message says what it is taken for, or which there are.
    pub fn detect(head: &[u8]) -> Result<Format, String> {
        if blktrace::is_blktrace(head) {
            return Ok(Format::Blktrace);
        }
        let packed = [
            (&b"\x1f\x8b"[..], "gzip: unpack it first, as with 'gunzip -k'"),
            (b"\x28\xb5\x2f\xfd", "zstd: unpack it first, as with 'zstd -d'"),
            (b"\xfd7zXZ", "xz: unpack it first, as with 'unxz -k'"),
            (b"BZh", "bzip2: unpack it first, as with 'bunzip2 -k'"),
        ];
        if let Some((_, what)) = packed.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Err(format!("the file is packed with {what}"));
        }
        if head.starts_with(RECORDING_MAGIC.as_bytes()) {
            return Ok(Format::Iopace);
        }
        let text = String::from_utf8_lossy(head);
        let mut lines = text.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        let first = first.unwrap_or_default();
        if iolog::is_iolog(first) {
            Ok(Format::Iolog)
        } else if first.starts_with('[') {
            Ok(Format::Fio)
        } else if msr::is_msr(first) {
            Ok(Format::Msr)
        } else if blkparse::is_blkparse(first) {
            Ok(Format::Blkparse)
        } else {
            let all = Format::ALL.iter().map(|(_, name, what)| format!("{name} ({what})"));
            let all = all.collect::<Vec<_>>().join(", ");
            Err(format!("no known format begins so: it must be one of {all}"))
        }
    }
}

/// A parser of one format.
trait Parse: Send {
    /// The next request; `None` at the end.
    fn next(&mut self, names: &mut Names) -> Result<Option<Record>, Mistake>;
}

/// A trace being read.
pub struct InputTrace<'a> {
    file: String,
    parser: Box<dyn Parse + 'a>,
    names: Names,
    /// Nothing more is read after the end or a mistake.
    ended: bool,
}

impl fmt::Debug for InputTrace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({}, {:?})", self.file, self.names)
    }
}

impl<'a> InputTrace<'a> {
    /// Reads a trace of that format; `file` is its name in messages.
    ///
    /// # Errors
    /// A job file is no trace.
    pub fn new(
        file: &str,
        format: Format,
        reader: impl BufRead + Send + 'a,
    ) -> Result<InputTrace<'a>, InputError> {
        let parser: Box<dyn Parse + 'a> = match format {
            Format::Iolog => Box::new(iolog::Iolog::new(reader)),
            Format::Blktrace => Box::new(blktrace::Blktrace::new(reader)),
            Format::Blkparse => Box::new(blkparse::Blkparse::new(reader)),
            Format::Msr => Box::new(msr::Msr::new(reader)),
            Format::Fio | Format::Iopace => {
                let message = match format {
                    Format::Fio => "a fio job file is no trace: it describes load".into(),
                    _ => "a recording of iopace is replayed alone: name one file".into(),
                };
                return Err(InputError { file: file.into(), place: None, message });
            }
        };
        Ok(InputTrace { file: file.into(), parser, names: Names::default(), ended: false })
    }

    /// The names met so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// An error of this file.
    pub(crate) fn error(&self, place: InputPlace, message: String) -> InputError {
        InputError { file: self.file.clone(), place: Some(place), message }
    }
}

impl Iterator for InputTrace<'_> {
    type Item = Result<Record, InputError>;

    fn next(&mut self) -> Option<Result<Record, InputError>> {
        if self.ended {
            return None;
        }
        let next = self.parser.next(&mut self.names);
        self.ended = !matches!(next, Ok(Some(_)));
        match next {
            Ok(record) => record.map(Ok),
            Err((place, message)) => Some(Err(self.error(place, message))),
        }
    }
}

/// Checks what every format must keep: a request moves something, not too much, and ends within 64
/// bits.
fn check(op: Op, offset: Bytes, len: Bytes) -> Result<(), String> {
    if op == Op::Flush {
        return Ok(());
    }
    if len.0 == 0 {
        return Err("a request of no bytes: a length is above 0".into());
    }
    if op != Op::Trim && len > LEN_MAX {
        return Err(format!("a request of {} bytes: at most {LEN_MAX}", len.0));
    }
    // Rounding out to sectors must not wrap either.
    match offset.0.checked_add(len.0) {
        Some(end) if end <= u64::MAX - 4_096 => Ok(()),
        _ => Err(format!("offset {} and length {} go beyond 64 bits", offset.0, len.0)),
    }
}

#[cfg(test)]
mod tests;
