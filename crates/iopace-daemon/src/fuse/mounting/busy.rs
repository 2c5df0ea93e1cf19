//! Who keeps a mount busy: the processes with a directory, an open file or a mapping on it.
//!
//! Asks the kernel for what it knows already (`AT_STATX_DONT_SYNC`), so that a mount that does not
//! answer holds nobody up. Other users' processes are seen by root only.

use crate::limits::{BUSY_FILES_MAX, BUSY_PROCESSES_MAX, BUSY_SHOWN_MAX};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fmt;
use std::fs;
use std::path::Path;

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel has it (15 bytes at most).
    pub name: String,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// The processes that use the file system with this device number, at most ten of them.
pub fn users(device: (u32, u32)) -> Vec<User> {
    all(|pid| uses(pid, device))
}

/// The processes that have this very path open, as a device node; at most ten of them.
pub fn openers(path: &Path) -> Vec<User> {
    all(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut open = open.take(BUSY_FILES_MAX);
        open.any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path))
    })
}

fn all(is_user: impl Fn(u32) -> bool) -> Vec<User> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pids = pids.filter(|pid| *pid != std::process::id()).take(BUSY_PROCESSES_MAX);
    let users = pids.filter(|pid| is_user(*pid)).map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        User { pid, name: name.map_or("?".into(), |name| name.trim_end().into()) }
    });
    users.take(BUSY_SHOWN_MAX).collect()
}

/// Names of users for a message, as `vim (pid 7), bash (pid 9)`.
pub fn list(users: &[User]) -> String {
    if users.is_empty() {
        return "a process that cannot be seen from here".into();
    }
    let names: Vec<String> = users.iter().map(ToString::to_string).collect();
    let more = if users.len() >= BUSY_SHOWN_MAX { " and perhaps more" } else { "" };
    format!("{}{more}", names.join(", "))
}

fn uses(pid: u32, device: (u32, u32)) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let places = ["cwd", "root", "exe"].map(|name| process.join(name));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let open = open.map(|entry| entry.path()).take(BUSY_FILES_MAX);
    places.into_iter().chain(open).any(|path| is_on(&path, device)) || maps(&process, device)
}

fn is_on(path: &Path, device: (u32, u32)) -> bool {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    statx(CWD, path, flags, StatxFlags::TYPE)
        .is_ok_and(|found| (found.stx_dev_major, found.stx_dev_minor) == device)
}

/// Whether a line of `maps` has the device: `7f-80 r--p 00000000 00:35 1234 /path`.
fn maps(process: &Path, device: (u32, u32)) -> bool {
    let wanted = format!("{:02x}:{:02x}", device.0, device.1);
    fs::read(process.join("maps")).is_ok_and(|text| {
        let mut lines = text.split(|byte| *byte == b'\n');
        lines.any(|line| line.split(|byte| *byte == b' ').nth(3) == Some(wanted.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
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
        assert!(uses(own, here), "our own program is mapped from it");
        assert!(!uses(own, (0, u32::MAX >> 12)), "nobody has that");
        let process = Path::new("/proc/self");
        assert!(maps(process, here));
    }

    #[test]
    fn a_process_is_named_with_its_number() {
        let mut child =
            Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep");
        let directory = device_of(Path::new("/proc"));
        let pid = child.id();
        let seen = fs::read_link(format!("/proc/{pid}/cwd")).is_ok();
        let found = users(device_of(&std::env::current_dir().expect("there")));
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert!(seen && !found.is_empty() && found.len() <= BUSY_SHOWN_MAX, "{found:?}");
        assert!(found.iter().all(|user| user.pid != std::process::id()));
        assert!(users((directory.0, u32::MAX >> 12)).is_empty());
        assert_eq!(User { pid: 7, name: "vim".into() }.to_string(), "vim (pid 7)");
        assert_eq!(list(&[]), "a process that cannot be seen from here");
    }
}
