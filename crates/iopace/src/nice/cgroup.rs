//! A program below the mounts, by the kernel: a cgroup of version 2 with the controller `io`.
//!
//! # Where
//! With systemd as first process: a scope of its own, asked for by `busctl`, which every machine
//! with systemd has. Else a directory of ours below our own cgroup, where the kernel lets us have
//! the controller there (a cgroup with processes in it cannot pass it on, but for the root).
//!
//! # What
//! The files that are there: `io.weight` or `io.bfq.weight`, and `io.max` for every disk of the
//! machine. They are written anew when they change and now and then, as systemd may set them back.

use crate::cgroup_limits::{self, FormerLimits, disks};
use iopace_core::goal::Push;
use iopace_core::group::{Class, Weight};
use iopace_daemon::mount_table;
use rustix::process::geteuid;
use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many looks for the scope that was asked for, and the time between them.
const LOOKS: (u32, std::time::Duration) = (40, std::time::Duration::from_millis(50));

/// A cgroup that the program is in.
#[derive(Debug)]
pub(super) struct Cgroup {
    dir: PathBuf,
    /// It is removed with this: systemd removes its own.
    is_ours: bool,
    /// The numbers of the disks, as in `8:0`.
    disks: Vec<String>,
}

impl Cgroup {
    /// Puts this process into a cgroup of its own, with all that it starts.
    ///
    /// # Errors
    /// What is missing, as a part of a sentence.
    pub(super) fn make() -> Result<Cgroup, String> {
        // A user could be asked for a password by systemd, and may own no directory here.
        if !geteuid().is_root() {
            return Err("no cgroup v2 of its own (only root has one)".into());
        }
        let root = root().ok_or("no cgroup v2")?;
        let listed = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if !has_word(&listed, "io") {
            return Err("no cgroup v2 with the controller io".into());
        }
        let own = cgroup_of(&root, std::process::id()).unwrap_or_default();
        if let Some(service) = service_of(&own) {
            return Err(format!("it stays in its service {service}, with the limits there"));
        }
        let is_systemd = Path::new("/run/systemd/system").is_dir();
        let made = match is_systemd {
            true => scope(&root, &own),
            false => directory(&root),
        };
        let made = made.map_err(|error| format!("no cgroup of its own ({error})"))?;
        match made.has_any() {
            true => Ok(made),
            false => Err("a cgroup without io.max and io.weight".into()),
        }
    }

    fn at(dir: PathBuf, is_ours: bool) -> Cgroup {
        Cgroup { dir, is_ours, disks: disks(Path::new("/sys/block")) }
    }

    fn has(&self, file: &str) -> bool {
        self.dir.join(file).exists()
    }

    fn has_any(&self) -> bool {
        FormerLimits::has_any(&self.dir)
    }

    /// Whether a rate can be held: the file is there, and may be written.
    pub(super) fn holds_rates(&self) -> bool {
        let file = fs::File::options().write(true).open(self.dir.join("io.max"));
        file.is_ok() && !self.disks.is_empty()
    }

    /// The files that are used, for the user.
    pub(super) fn words(&self) -> String {
        let all = ["io.max", "io.weight", "io.bfq.weight"];
        let files: Vec<&str> = all.into_iter().filter(|file| self.has(file)).collect();
        format!("cgroup v2 ({})", files.join(", "))
    }

    /// What was left running has no weight and no rate from iopace any more.
    pub(super) fn release(&self) {
        let free = Push { class: Class::BestEffort, weight: Weight::DEFAULT, rate: None };
        // The program has ended, and this was told when it began.
        let _ = self.set(&free);
    }

    /// Gives the program what it has at this moment, by all files and disks that take it.
    ///
    /// # Errors
    /// A file that is there cannot be written, for a disk perhaps; the others are.
    pub(super) fn set(&self, push: &Push) -> io::Result<()> {
        FormerLimits::default().hold(&self.dir, &self.disks, push)
    }
}

impl Drop for Cgroup {
    /// What was left running stays in there; then the next one clears it away.
    fn drop(&mut self) {
        if self.is_ours
            && let Some(above) = self.dir.parent()
        {
            let _ = fs::write(above.join("cgroup.procs"), std::process::id().to_string());
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

/// Where cgroup v2 is mounted.
fn root() -> Option<PathBuf> {
    let table = mount_table::read().ok()?;
    table.into_iter().find(|entry| entry.fs_type == "cgroup2").map(|entry| entry.mountpoint)
}

/// The cgroup of a process, below `root`.
fn cgroup_of(root: &Path, pid: u32) -> io::Result<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    path.map(|path| root.join(path)).ok_or_else(|| io::Error::other("it is in none"))
}

/// The service that a cgroup is of, whose limits hold there, and which systemd stops as a whole.
fn service_of(cgroup: &Path) -> Option<String> {
    let mut names = cgroup.iter().map(|name| name.to_string_lossy());
    names.rfind(|name| name.ends_with(".service")).map(Cow::into_owned)
}

/// A scope of systemd, in the slice that we are in: its limits hold on.
fn scope(root: &Path, own: &Path) -> io::Result<Cgroup> {
    let pid = std::process::id();
    let name = format!("iopace-nice-{pid}.scope");
    let mut names = own.iter().map(|name| name.to_string_lossy());
    let slice = names.rfind(|name| name.ends_with(".slice"));
    let mut command = Command::new("busctl");
    command.args(["call", "--quiet", "--allow-interactive-authorization=no"]);
    command.args(["org.freedesktop.systemd1", "/org/freedesktop/systemd1"]);
    command.args(["org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"]);
    command.args([&name, "fail", "5", "PIDs", "au", "1", &pid.to_string()]);
    command.args(["IOAccounting", "b", "true", "Delegate", "b", "true"]);
    command.args(["Slice", "s", slice.as_deref().unwrap_or("system.slice")]);
    command.args(["CollectMode", "s", "inactive-or-failed", "0"]);
    let ran = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        return Err(io::Error::other(format!("systemd: {said}")));
    }
    for _ in 0..LOOKS.0 {
        let dir = cgroup_of(root, pid)?;
        if dir.file_name().is_some_and(|last| last == name.as_str()) {
            return Ok(Cgroup::at(dir, false));
        }
        // SLEEP: systemd answers before it has moved the process; the pause between two looks.
        std::thread::sleep(LOOKS.1);
    }
    Err(io::Error::other("systemd has not moved it within 2 s"))
}

/// A directory of ours.
fn directory(root: &Path) -> io::Result<Cgroup> {
    let pid = std::process::id();
    let above = cgroup_of(root, pid)?;
    clear_away(&above);
    let control = above.join("cgroup.subtree_control");
    if !has_word(&fs::read_to_string(&control)?, "io") {
        fs::write(&control, "+io")?;
    }
    let dir = above.join(format!("{PREFIX}{pid}"));
    fs::create_dir(&dir)?;
    let made = Cgroup::at(dir, true);
    cgroup_limits::write(&made.dir, "cgroup.procs", &pid.to_string())?;
    Ok(made)
}

/// The names of directories of ours begin so.
const PREFIX: &str = "iopace-nice-";

/// Removes directories that were left behind and are empty.
fn clear_away(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether a disk of this machine goes by the classes of `ionice`.
pub(super) fn goes_by_class() -> bool {
    let schedulers = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut schedulers = schedulers
        .filter_map(|entry| fs::read_to_string(entry.path().join("queue/scheduler")).ok());
    schedulers.any(|text| text.contains("[bfq]") || text.contains("[mq-deadline]"))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|one| one == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::units::BytesPerSec;

    #[test]
    fn what_is_there_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let disks = vec!["8:0".into()];
        let cgroup = Cgroup { dir: dir.path().into(), is_ours: false, disks };
        let weight = Weight::new(5_000).expect("legal");
        let push = Push { class: Class::BestEffort, weight, rate: Some(BytesPerSec(1_000)) };
        cgroup.set(&push).expect("nothing to write");
        assert!(!cgroup.has_any() && !cgroup.holds_rates());
        for file in ["io.max", "io.bfq.weight"] {
            fs::write(dir.path().join(file), "").expect("made");
        }
        let read = |file| fs::read_to_string(dir.path().join(file)).expect("read");
        cgroup.set(&push).expect("written");
        assert_eq!(read("io.max"), "8:0 rbps=1000 wbps=1000");
        assert_eq!(read("io.bfq.weight"), "default 1000");
        assert!(cgroup.holds_rates() && !cgroup.has("io.weight"));
        assert_eq!(cgroup.words(), "cgroup v2 (io.max, io.bfq.weight)");
        let idle = Push { class: Class::Idle, rate: None, ..push };
        fs::write(dir.path().join("io.max"), "").expect("emptied");
        cgroup.set(&idle).expect("written");
        assert!(read("io.bfq.weight").starts_with("default 1"), "the least");
        assert_eq!(read("io.max"), "8:0 rbps=max wbps=max");
    }

    #[test]
    fn a_disk_that_fails_leaves_the_others_their_rate() {
        let dir = tempfile::tempdir().expect("a directory");
        let cgroup = Cgroup { dir: dir.path().into(), is_ours: false, disks: vec!["8:0".into()] };
        // A weight that cannot be written.
        fs::create_dir(dir.path().join("io.weight")).expect("made");
        fs::write(dir.path().join("io.max"), "").expect("made");
        let push = Push { class: Class::Idle, weight: Weight::DEFAULT, rate: Some(BytesPerSec(7)) };
        let error = cgroup.set(&push).expect_err("a directory").to_string();
        assert!(error.contains("io.weight"), "{error}");
        let read = || fs::read_to_string(dir.path().join("io.max")).expect("read");
        assert_eq!(read(), "8:0 rbps=7 wbps=7");
        fs::write(dir.path().join("io.max"), "").expect("emptied");
        cgroup.release();
        assert_eq!(read(), "8:0 rbps=max wbps=max");
    }

    #[test]
    fn a_service_is_not_left() {
        let of = |path: &str| service_of(Path::new(path));
        let service = Some("backup.service".to_owned());
        assert_eq!(of("/sys/fs/cgroup/system.slice/backup.service"), service);
        assert_eq!(of("/sys/fs/cgroup/system.slice/backup.service/main"), service);
        assert_eq!(of("/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope"), None);
    }
}
