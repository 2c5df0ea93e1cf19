//! A directory to be mounted by the command line.
#![allow(missing_docs, reason = "shared by the tests; each uses a part")]
#![allow(dead_code, reason = "shared by the tests; each uses a part")]

use crate::common::{Place, Ran};
use rustix::process::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A directory to be mounted, with a file; whatever happens, nothing stays mounted.
pub struct Bench {
    pub place: Place,
    pub uid: Option<u32>,
}

impl Bench {
    /// `None`, aloud, where nothing can be mounted.
    pub fn new() -> Option<Bench> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let place = Place::new();
        fs::create_dir(place.path("data")).expect("made");
        fs::write(place.path("data/file"), "content").expect("written");
        fs::create_dir(place.path("view")).expect("made");
        Some(Bench { place, uid: None })
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        let mut command = self.place.command(words);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        Ran::from(command.stdin(Stdio::null()).output().expect("started"))
    }

    /// Mounts, and says which process serves it.
    pub fn mount(&self, words: &[&str]) -> Pid {
        let words: Vec<&str> = ["mount"].iter().chain(words).copied().collect();
        let ran = self.run(&words);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(ran.out.starts_with("mounted ") && ran.out.contains("\nlog: "), "{ran:?}");
        let list = self.list();
        let seen = list.iter().rfind(|row| row["state"] != "detached");
        let pid = seen.expect("listed")["pid"].as_i64().expect("a pid");
        Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid")
    }

    /// Our mounts of this test.
    pub fn list(&self) -> Vec<serde_json::Value> {
        let all = self.run(&["mount", "--format", "json"]).json();
        let under = self.place.path("");
        let here = |row: &&serde_json::Value| {
            Path::new(row["mountpoint"].as_str().expect("a path")).starts_with(&under)
        };
        all.as_array().expect("a list").iter().filter(here).cloned().collect()
    }

    pub fn seen(&self) -> usize {
        let under = self.place.path("").display().to_string();
        let table = fs::read_to_string("/proc/self/mountinfo").expect("read");
        table.lines().filter(|line| line.contains(&under)).count()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for name in ["view", "data", "data/sub", "other"] {
            let lazily = rustix::mount::UnmountFlags::DETACH;
            while rustix::mount::unmount(self.path(name), lazily).is_ok() {}
        }
    }
}

pub fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}
