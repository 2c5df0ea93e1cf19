//! Reads the file of a recording; a mistake is told with its line and what would be right.

use super::format::{
    COLUMNS, End, Flags, Group, LETTERS, Name, RecordingFile, Request, WORDS, find_op,
};
use crate::inputs::{InputError, InputPlace, LEN_MAX, RECORDING_MAGIC};
use iopace_core::request::Op;
use iopace_core::units::Bytes;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::{BufRead, Read as _};

/// Most requests of a file that is read, some 150 bytes each in memory: 600 MB.
pub const REQUESTS_MAX: usize = 1 << 22;

/// Longest line: the settings of a group are the longest ones.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Most groups and most tasks.
pub const NAMES_MAX: usize = 1 << 16;

/// Times are within so many nanoseconds of the beginning: a day.
const TIME_MAX: i64 = 86_400_000_000_000;

impl RecordingFile {
    /// Reads a file; `name` is its name in messages.
    ///
    /// # Errors
    /// Which line is wrong, and what would be right.
    pub fn read(name: &str, mut from: impl BufRead) -> Result<RecordingFile, InputError> {
        let mut reading = Reading::default();
        reading.file.name = name.into();
        let mut text = Vec::new();
        for number in 1.. {
            let fail = |place, message| InputError { file: name.into(), place, message };
            text.clear();
            let read = (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut text);
            let read = read.map_err(|error| fail(None, format!("cannot be read: {error}")))?;
            if read == 0 {
                break;
            }
            let place = Some(InputPlace::Line(number));
            if read as u64 == LINE_BYTES_MAX {
                return Err(fail(place, format!("a line has at most {LINE_BYTES_MAX} bytes")));
            }
            let line = str::from_utf8(&text).map_err(|_| fail(place, "not UTF-8 text".into()))?;
            reading.line(number, line.trim_end()).map_err(|message| fail(place, message))?;
        }
        reading.whole().map_err(|message| InputError { file: name.into(), place: None, message })
    }

    /// How long was recorded: of a file that was cut off, until its last request.
    pub fn length_ns(&self) -> u64 {
        let last = self.requests.last().map_or(0, |last| last.done_ns.max(0).cast_unsigned());
        self.end.map_or(last, |end| end.length_ns.max(last))
    }
}

/// Lines that there must be before the first request.
const NEEDED: [&str; 4] = ["device", "scheduler", "window", "nr_requests"];

#[derive(Default)]
struct Reading {
    file: RecordingFile,
    /// Which of `NEEDED` there were: bits.
    seen: u8,
    /// The numbers of groups.
    groups: BTreeSet<u64>,
}

impl Reading {
    fn line(&mut self, number: u64, line: &str) -> Result<(), String> {
        if number == 1 {
            return match line.strip_prefix(RECORDING_MAGIC).map(str::trim) {
                Some("1") => Ok(()),
                Some(other) => Err(format!(
                    "format {other} is not known here, only 1: use the iopace that recorded it"
                )),
                None => Err(format!("the first line is '{RECORDING_MAGIC} 1'")),
            };
        }
        match line.strip_prefix("# ") {
            Some(told) => self.told(told),
            None if line.is_empty() => Ok(()),
            None => self.request(line),
        }
    }

    /// A line `# key: value`.
    fn told(&mut self, told: &str) -> Result<(), String> {
        let (key, value) = told.split_once(": ").ok_or("such a line is '# key: value'")?;
        let file = &mut self.file;
        if let Some(place) = NEEDED.iter().position(|needed| *needed == key) {
            self.seen |= 1 << place;
        }
        match key {
            "device" => file.header.device = parse(key, value)?,
            "scheduler" => file.header.scheduler = parse(key, value)?,
            "window" => file.header.window = parse(key, value)?,
            "nr_requests" => file.header.nr_requests = parse(key, value)?,
            "pace" => file.header.pace = Some(parse(key, value)?),
            "group" => {
                let group: Group = parse(key, value)?;
                self.groups.insert(group.number);
                file.header.groups.push(group);
            }
            "task" => {
                let Name { number, name } = parse(key, value)?;
                file.tasks.insert(number, name);
            }
            "end" => {
                let end: End = parse(key, value)?;
                if end.length_ns > TIME_MAX.unsigned_abs() {
                    return Err(format!("length_ns is a day at most, not {}", end.length_ns));
                }
                file.end = Some(end);
            }
            "columns" if value == COLUMNS => {}
            "columns" => return Err(format!("the columns are {COLUMNS}")),
            _ => return Err(format!("'{key}' is not known: take the line out")),
        }
        match file.header.groups.len().max(file.tasks.len()) > NAMES_MAX {
            true => Err(format!("more than {NAMES_MAX} groups or tasks: record for less time")),
            false => Ok(()),
        }
    }

    fn request(&mut self, line: &str) -> Result<(), String> {
        self.has_all()?;
        if self.file.requests.len() == REQUESTS_MAX {
            return Err(format!("more than {REQUESTS_MAX} requests: record for less time"));
        }
        let fields: Vec<&str> = line.split(',').collect();
        let Ok(fields) = <[&str; 10]>::try_from(fields) else {
            return Err(format!("a request has ten fields between commas: {COLUMNS}"));
        };
        let [arrived, started, done, op, flags, task, group, space, offset, length] = fields;
        let one = Request {
            arrived_ns: time("arrived_ns", arrived)?,
            started_ns: time("started_ns", started)?,
            done_ns: time("done_ns", done)?,
            op: find_op(op).ok_or_else(|| {
                let words = WORDS.map(|(_, word)| word).join(", ");
                format!("op is one of {words}, not '{op}'")
            })?,
            flags: Flags::parse(flags).ok_or_else(|| {
                format!("flags are letters of '{LETTERS}', or nothing, not '{flags}'")
            })?,
            task: whole("task", task)?,
            group: whole("group", group)?,
            space: whole("space", space)?,
            offset: whole("offset", offset)?,
            length: whole("length", length)?,
        };
        self.check(&one)?;
        self.file.requests.push(one);
        Ok(())
    }

    fn check(&self, one: &Request) -> Result<(), String> {
        let Request { arrived_ns, started_ns, done_ns, op, offset, length, .. } = *one;
        if arrived_ns > started_ns || started_ns > done_ns {
            return Err("a request comes, starts and is done in this order".into());
        }
        if done_ns < 0 {
            return Err(
                "a request is done after the recording has begun: done_ns is not negative".into()
            );
        }
        if self.file.requests.last().is_some_and(|last| last.done_ns > done_ns) {
            return Err("requests stand in the order of done_ns: sort them".into());
        }
        if matches!(op, Op::Read | Op::Write) && Bytes(length) > LEN_MAX {
            return Err(format!("a length of {length} bytes: at most {LEN_MAX}"));
        }
        if offset.checked_add(length).is_none_or(|end| end > u64::MAX - 4_096) {
            return Err(format!("offset {offset} and length {length} go beyond 64 bits"));
        }
        if !self.groups.contains(&one.group) {
            let group = one.group;
            return Err(format!("group {group} has no line '# group: ...' before this one"));
        }
        Ok(())
    }

    fn has_all(&self) -> Result<(), String> {
        let missing = NEEDED.iter().enumerate().find(|(place, _)| self.seen & 1 << place == 0);
        match missing {
            Some((_, key)) => Err(format!("there is no line '# {key}: ...' before the requests")),
            None => Ok(()),
        }
    }

    fn whole(self) -> Result<RecordingFile, String> {
        self.has_all()?;
        match self.file.requests.is_empty() {
            true => Err("there is no request in it: record while something is done".into()),
            false => Ok(self.file),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(key: &str, value: &'a str) -> Result<T, String> {
    serde_json::from_str(value).map_err(|error| {
        format!("the value of '{key}' is not understood ({error}): it is JSON as recorded")
    })
}

fn whole<T: std::str::FromStr>(column: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{column} is a whole number, not '{text}'"))
}

fn time(column: &str, text: &str) -> Result<i64, String> {
    let time: i64 = whole(column, text)?;
    match (-TIME_MAX..=TIME_MAX).contains(&time) {
        true => Ok(time),
        false => Err(format!("{column} is within a day of the beginning, not {time} ns")),
    }
}
