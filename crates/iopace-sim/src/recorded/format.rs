//! The file of a recording: text, one request per line in the order of their ends, behind lines
//! `# key: value` with what a replay needs. Values are JSON, so no name can break a line.
//!
//! ```text
//! # iopace-record: 1
//! # device: {"name":"disk","kind":"emulated","model":"hdd-sata-250g","size_bytes":250000000000}
//! # scheduler: {"name":"fair","params":{"idle_starve_ms":1000}}
//! # window: {"policy":"latency","depth":32}
//! # nr_requests: 128
//! # group: {"number":0,"path":"/","files":{}}
//! # columns: arrived_ns,started_ns,done_ns,op,flags,task,group,space,offset,length
//! # task: {"number":7,"name":"fio 4711"}
//! -120000,15000,9015000,read,,7,0,0,4096,65536
//! # end: {"length_ns":10000000000,"left_out_count":0}
//! ```
//! Times count from the beginning of the recording; a request that came before it has a negative
//! one. A task or group is named before its first request. A file without `end` was cut off.
//!
//! | flag | what it says |
//! |---|---|
//! | `b` | a buffered write: it ended when it was in memory |
//! | `w` | write-back of dirty memory |
//! | `f` | forced to the medium |
//! | `a` | nobody waits for it |
//! | `p`, `n` | a flush that covers its extent only, or nothing |

use crate::inputs::RECORDING_MAGIC;
use iopace_core::request::Op;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The columns of a request, as the file names them.
pub const COLUMNS: &str = "arrived_ns,started_ns,done_ns,op,flags,task,group,space,offset,length";

/// Operations with their words.
pub(super) const WORDS: [(Op, &str); 6] = [
    (Op::Read, "read"),
    (Op::Write, "write"),
    (Op::Flush, "flush"),
    (Op::Trim, "trim"),
    (Op::WriteZeroes, "zero"),
    (Op::Cache, "cache"),
];

/// The device that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, also in the files of groups.
    pub name: String,
    /// `file`, `block device` or `emulated`.
    pub kind: String,
    /// The model of an emulated disk.
    pub model: Option<String>,
    /// Its size; none of a directory.
    pub size_bytes: Option<u64>,
}

/// The scheduler that was at work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduler {
    /// Its name.
    pub name: String,
    /// All its parameters.
    pub params: BTreeMap<String, u64>,
}

/// How many requests the disk was allowed to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The policy.
    pub policy: String,
    /// Most requests at the disk.
    pub depth: u32,
}

/// How buffered writes were paced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPace {
    /// The policy.
    pub policy: String,
    /// The pause that it aims at, if it aims at one.
    pub pause_ns: Option<u64>,
    /// Write-back begins above so many dirty bytes.
    pub background_bytes: u64,
    /// Writers wait above so many.
    pub limit_bytes: u64,
}

/// A group, with what is set for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its number in the lines of requests.
    pub number: u64,
    /// Its path.
    pub path: String,
    /// Its files with their lines, where they say something.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// The name of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// Its number in the lines of requests.
    pub number: u64,
    /// Its name.
    pub name: String,
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How long it was recorded.
    pub length_ns: u64,
    /// Requests that are not in the file, as there was no room for them.
    pub left_out_count: u64,
}

/// The lines before the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The device.
    pub device: Device,
    /// Its scheduler.
    pub scheduler: Scheduler,
    /// Its window.
    pub window: Window,
    /// Its slots.
    pub nr_requests: u32,
    /// How buffered writes were paced; none of a device without them.
    pub pace: Option<RecordedPace>,
    /// The groups that there were.
    pub groups: Vec<Group>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it came.
    pub arrived_ns: i64,
    /// When it was given to the disk.
    pub started_ns: i64,
    /// When it ended.
    pub done_ns: i64,
    /// The operation.
    pub op: Op,
    /// See the module.
    pub flags: Flags,
    /// The task that asked, by number.
    pub task: u64,
    /// The group that paid, by number.
    pub group: u64,
    /// The owner of the extent: 0 is the disk.
    pub space: u32,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Request {
    /// Whether a client asked for it: not write-back.
    pub fn is_of_client(&self) -> bool {
        !self.flags.has('w')
    }
}

/// The letters of a request, see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

/// The letters of flags.
pub(super) const LETTERS: &str = "bwfapn";

impl Flags {
    /// The flags of these letters; none if there is another one.
    pub fn parse(letters: &str) -> Option<Flags> {
        let mut flags = Flags::default();
        for letter in letters.chars() {
            flags.0 |= 1 << LETTERS.find(letter)?;
        }
        Some(flags)
    }

    /// Whether it has that letter.
    pub fn has(self, letter: char) -> bool {
        LETTERS.find(letter).is_some_and(|place| self.0 & 1 << place != 0)
    }
}

impl std::fmt::Display for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        LETTERS.chars().filter(|letter| self.has(*letter)).try_for_each(|one| f.write_char(one))
    }
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct RecordingFile {
    /// Its name in messages.
    pub name: String,
    /// The lines before the requests.
    pub header: Header,
    /// The names of tasks by number.
    pub tasks: BTreeMap<u64, String>,
    /// In the order of their ends.
    pub requests: Vec<Request>,
    /// None if the file was cut off.
    pub end: Option<End>,
}

fn line(key: &str, value: &impl Serialize) -> String {
    let value = serde_json::to_string(value).expect("strings, numbers and maps with string keys");
    format!("# {key}: {value}\n")
}

impl Header {
    /// The lines before the first request.
    pub fn text(&self) -> String {
        let mut text = format!("{RECORDING_MAGIC} 1\n");
        text += &line("device", &self.device);
        text += &line("scheduler", &self.scheduler);
        text += &line("window", &self.window);
        text += &line("nr_requests", &self.nr_requests);
        text.extend(self.pace.iter().map(|pace| line("pace", pace)));
        text.extend(self.groups.iter().map(group_line));
        text + &format!("# columns: {COLUMNS}\n")
    }
}

/// The line of a group.
pub fn group_line(group: &Group) -> String {
    line("group", group)
}

/// The line of a task.
pub fn task_line(number: u64, name: &str) -> String {
    line("task", &Name { number, name: name.into() })
}

/// The last line.
pub fn end_line(end: End) -> String {
    line("end", &end)
}

/// The operation of that word.
pub fn find_op(word: &str) -> Option<Op> {
    WORDS.iter().find(|(_, known)| *known == word).map(|(op, _)| *op)
}

/// Adds the line of a request.
pub fn push_request(text: &mut String, one: &Request) {
    let op = WORDS.iter().find(|(op, _)| *op == one.op).map_or("?", |(_, word)| word);
    let Request {
        arrived_ns, started_ns, done_ns, flags, task, group, space, offset, length, ..
    } = one;
    let _ = writeln!(
        text,
        "{arrived_ns},{started_ns},{done_ns},{op},{flags},{task},{group},{space},{offset},{length}"
    );
}
