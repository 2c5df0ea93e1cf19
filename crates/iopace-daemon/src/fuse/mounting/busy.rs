//! The processes that keep a mount or a directory busy, and what each of them has of it: an open
//! file, a mapping, a lock, its working directory.
//!
//! Asks the kernel for what it knows already (`AT_STATX_DONT_SYNC`), so that a mount that does not
//! answer holds nobody up. Other users' processes are seen by root only.

use super::budget::Budget;
use crate::limits::{BUSY_INFO_BYTES_MAX, BUSY_SHOWN_MAX};
use crate::printable;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A thing that a process has of a file system or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// A descriptor open for writing.
    FileForWriting,
    /// A descriptor open for reading, or of a directory.
    OpenFile,
    /// An exclusive lock, or a lock of a range for writing, by a descriptor open for writing.
    WriteLock,
    /// Any other lock.
    Lock,
    /// A shared mapping that may be written to.
    WritableMapping,
    /// Any other mapping, that of a running program included.
    Mapping,
    /// The working directory.
    WorkingDirectory,
    /// The root directory.
    RootDirectory,
}

impl Use {
    /// Whether files can be changed by it.
    pub fn writes(self) -> bool {
        matches!(self, Use::FileForWriting | Use::WriteLock | Use::WritableMapping)
    }

    fn name(self) -> &'static str {
        match self {
            Use::FileForWriting => "file open for writing",
            Use::OpenFile => "open file",
            Use::WriteLock => "write lock",
            Use::Lock => "lock",
            Use::WritableMapping => "writable mapping",
            Use::Mapping => "mapping",
            Use::WorkingDirectory => "working directory",
            Use::RootDirectory => "root directory",
        }
    }
}

/// A process that uses a mount or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel has it (15 bytes at most), safe for a terminal.
    pub name: String,
    /// Its uses; empty where only that there is some use is known.
    pub uses: BTreeSet<Use>,
}

impl User {
    pub(super) fn new(pid: u32, uses: BTreeSet<Use>) -> User {
        User { pid, name: name_of(pid), uses }
    }

    /// Whether it can change files there.
    pub fn writes(&self) -> bool {
        self.uses.iter().any(|one| one.writes())
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uses: Vec<&str> = self.uses.iter().map(|one| one.name()).collect();
        let colon = if uses.is_empty() { "" } else { ": " };
        write!(f, "{} (pid {}{colon}{})", self.name, self.pid, uses.join(", "))
    }
}

/// The name of a process, safe for a terminal.
pub(crate) fn name_of(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_else(|_| b"?".into());
    printable::name(&String::from_utf8_lossy(name.trim_ascii_end())).into_owned()
}

/// The files that are looked for.
pub(super) trait Scope {
    /// Whether a process that uses some of them counts as a user.
    fn counts(&self, _user: &User) -> bool {
        true
    }

    /// Whether the file behind a link of `/proc/PID` is one of them.
    fn has_file(&mut self, process: &Path, link: &Path) -> bool;

    /// Whether a mapped file is one of them, by the device and the path of its line in `maps`.
    fn has_mapping(&mut self, process: &Path, device: (u32, u32), path: &[u8]) -> bool;
}

/// The entries of a directory that are numbers.
pub(super) fn numbers(directory: &Path) -> impl Iterator<Item = u32> {
    let all = fs::read_dir(directory).into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Names of users for a message, as `vim (pid 7: open file), bash (pid 9: working directory)`.
pub fn list(users: &[User]) -> String {
    if users.is_empty() {
        return "a process that cannot be seen from here".into();
    }
    let names = users.iter().take(BUSY_SHOWN_MAX).map(ToString::to_string);
    let more = if users.len() >= BUSY_SHOWN_MAX { " and perhaps more" } else { "" };
    format!("{}{more}", names.collect::<Vec<_>>().join(", "))
}

/// The uses of a process, as far as the budget goes.
pub(super) fn uses(pid: u32, scope: &mut dyn Scope, budget: &mut Budget) -> BTreeSet<Use> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mut found = BTreeSet::new();
    let places = [("cwd", Use::WorkingDirectory), ("root", Use::RootDirectory)];
    for (name, one) in places.into_iter().chain([("exe", Use::Mapping)]) {
        if scope.has_file(&process, &process.join(name)) {
            found.insert(one);
        }
    }
    add_files(&process, &process, (scope, budget), &mut found);
    if is_leaderless(&process) {
        for thread in numbers(&process.join("task")).filter(|thread| *thread != pid) {
            if budget.ended.is_some() {
                break;
            }
            let holder = process.join(format!("task/{thread}"));
            add_files(&process, &holder, (scope, budget), &mut found);
        }
    }
    add_mappings(&process, (scope, budget), &mut found);
    if found.contains(&Use::FileForWriting) {
        found.remove(&Use::OpenFile);
    }
    found
}

/// Whether the first thread has ended while others go on: its open files are seen at those only.
fn is_leaderless(process: &Path) -> bool {
    let stat = fs::read(process.join("stat")).unwrap_or_default();
    let after_name = stat.rsplit(|byte| *byte == b')').next();
    after_name.is_some_and(|rest| rest.starts_with(b" Z"))
}

fn add_files(
    process: &Path,
    holder: &Path,
    (scope, budget): (&mut dyn Scope, &mut Budget),
    found: &mut BTreeSet<Use>,
) {
    let open = fs::read_dir(holder.join("fd")).into_iter().flatten().flatten();
    for entry in open {
        if !budget.take() {
            return;
        }
        if !scope.has_file(process, &entry.path()) {
            continue;
        }
        // The flags come first, then the locks, of which a user may have any number.
        let mut info = Vec::new();
        if let Ok(file) = File::open(holder.join("fdinfo").join(entry.file_name())) {
            let _ = file.take(BUSY_INFO_BYTES_MAX).read_to_end(&mut info);
        }
        add_descriptor(&String::from_utf8_lossy(&info), found);
    }
}

/// Reads the `flags:` (octal) and the `lock:` lines of a descriptor, see proc_pid_fdinfo(5).
fn add_descriptor(info: &str, found: &mut BTreeSet<Use>) {
    let mut one = Use::OpenFile;
    for line in info.lines() {
        if let Some(flags) = line.strip_prefix("flags:") {
            let flags = u32::from_str_radix(flags.trim(), 8).unwrap_or_default();
            if matches!(flags & 0o3, 0o1 | 0o2) && flags & O_PATH == 0 {
                one = Use::FileForWriting;
            }
        } else if let Some(lock) = line.strip_prefix("lock:") {
            // `1: POSIX  ADVISORY  WRITE 359 fe:00:1234 0 EOF`; a lease is not a lock. An exclusive
            // `flock` takes no right to write: it is no more than a reader's.
            let words: Vec<&str> = lock.split_whitespace().collect();
            match (words.get(1), words.get(3)) {
                (Some(&"LEASE" | &"DELEG"), _) => {}
                (_, Some(&"WRITE")) if one == Use::FileForWriting => {
                    found.insert(Use::WriteLock);
                }
                _ => {
                    found.insert(Use::Lock);
                }
            }
        }
    }
    found.insert(one);
}

/// `O_PATH` of all architectures that Rust supports but Alpha, PA-RISC and SPARC.
const O_PATH: u32 = 0o10_000_000;

/// Reads lines as `7f00-8000 rw-s 00000000 00:35 1234    /path`.
fn add_mappings(
    process: &Path,
    (scope, budget): (&mut dyn Scope, &mut Budget),
    found: &mut BTreeSet<Use>,
) {
    let Ok(file) = File::open(process.join("maps")) else { return };
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        if !lines.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) || !budget.take() {
            return;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let Some(Mapped { mode, device, path }) = mapping(text) else { continue };
        let one = match mode {
            [_, b'w', _, b's'] => Use::WritableMapping,
            _ => Use::Mapping,
        };
        if !found.contains(&one) && scope.has_mapping(process, device, path) {
            found.insert(one);
        }
    }
}

/// A line of `maps` that has a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapped<'a> {
    mode: &'a [u8],
    device: (u32, u32),
    path: &'a [u8],
}

fn mapping(line: &[u8]) -> Option<Mapped<'_>> {
    let path = line.iter().position(|byte| *byte == b'/')?;
    let mut words = line.split(|byte| *byte == b' ');
    let mode = words.nth(1)?;
    let (major, minor) = std::str::from_utf8(words.nth(1)?).ok()?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let device = (number(major)?, number(minor)?);
    Some(Mapped { mode, device, path: &line[path..] })
}

#[cfg(test)]
mod tests {
    use super::super::budget::Bounds;
    use super::super::users::{Device, users};
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    fn device_of(path: &Path) -> (u32, u32) {
        let device = fs::metadata(path).expect("there").dev();
        (rustix::fs::major(device), rustix::fs::minor(device))
    }

    #[test]
    fn a_process_with_a_file_or_a_mapping_is_found() {
        let own = std::process::id();
        let here = device_of(&std::env::current_exe().expect("known"));
        let uses = |device| uses(own, &mut Device(device), &mut Budget::new(&Bounds::default()));
        let found = uses(here);
        assert!(found.contains(&Use::Mapping), "our own program is mapped from it: {found:?}");
        assert!(uses((0, u32::MAX >> 12)).is_empty(), "nobody has that");
    }

    #[test]
    fn a_process_is_named_with_its_number() {
        let mut child =
            Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep");
        let directory = device_of(Path::new("/proc"));
        let pid = child.id();
        let seen = fs::read_link(format!("/proc/{pid}/cwd")).is_ok();
        let found = users(device_of(&std::env::current_dir().expect("there"))).users;
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert!(seen && !found.is_empty(), "{found:?}");
        assert!(found.iter().all(|user| user.pid != std::process::id()));
        assert!(users((directory.0, u32::MAX >> 12)).users.is_empty());
        let uses = BTreeSet::from([Use::WorkingDirectory, Use::OpenFile]);
        let vim = User { pid: 7, name: "vim".into(), uses };
        assert_eq!(vim.to_string(), "vim (pid 7: open file, working directory)");
        assert_eq!(list(&[]), "a process that cannot be seen from here");
    }

    #[test]
    fn descriptors_and_mappings_say_whether_they_write() {
        let found = |info: &str| {
            let mut found = BTreeSet::new();
            add_descriptor(info, &mut found);
            found.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(found("pos:\t0\nflags:\t0100002\nmnt_id:\t27\n"), [Use::FileForWriting]);
        assert_eq!(found("flags:\t012000002\n"), [Use::OpenFile], "O_PATH");
        let lock = "flags:\t0100000\nlock:\t1: FLOCK  ADVISORY  WRITE 7 fe:00:12 0 EOF\n";
        assert_eq!(found(lock), [Use::OpenFile, Use::Lock]);
        let lock = "flags:\t0100002\nlock:\t1: FLOCK  ADVISORY  WRITE 7 fe:00:12 0 EOF\n";
        assert_eq!(found(lock), [Use::FileForWriting, Use::WriteLock]);
        let lock = "flags:\t0100000\nlock:\t1: POSIX  ADVISORY  READ 7 fe:00:12 0 9\n";
        assert_eq!(found(lock), [Use::OpenFile, Use::Lock]);
        let lease = "flags:\t0100000\nlock:\t1: LEASE  ACTIVE    WRITE 7 fe:00:12 0 EOF\n";
        assert_eq!(found(lease), [Use::OpenFile]);
        let line = b"7f00-8000 rw-s 00000000 00:35 1234      /a b";
        assert_eq!(mapping(line), Some(Mapped { mode: b"rw-s", device: (0, 0x35), path: b"/a b" }));
        assert_eq!(mapping(b"7f00-8000 rw-p 00000000 00:00 0 "), None);
    }
}
