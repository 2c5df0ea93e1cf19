//! Exports as files and loop devices of a test; whatever happens, none of them is left behind.
#![allow(dead_code, reason = "shared by the tests; each uses a part")]

use crate::common::{Place, Ran};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory for everything of one test.
pub struct Bench {
    pub place: Place,
}

impl Bench {
    /// `None`, aloud, where nothing can be mounted.
    pub fn new() -> Option<Bench> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let place = Place::new();
        fs::create_dir(place.path("view")).expect("made");
        fs::create_dir(place.path("mnt")).expect("made");
        Some(Bench { place })
    }

    /// The same where there are loop devices and these tools.
    pub fn with_loops(tools: &[&str]) -> Option<Bench> {
        if !Path::new("/dev/loop-control").exists() {
            println!("skipped: there is no /dev/loop-control");
            return None;
        }
        for tool in tools {
            let mut command = Command::new(tool);
            command.arg("-V").stdout(Stdio::null()).stderr(Stdio::null());
            if command.status().is_err() {
                println!("skipped: {tool} is not installed (make setup)");
                return None;
            }
        }
        Bench::new()
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        self.place.run(words)
    }

    /// Attaches, and gives the loop device, which is all that is on standard output.
    pub fn attach(&self, words: &[&str]) -> String {
        let words: Vec<&str> = ["attach"].iter().chain(words).copied().collect();
        let ran = self.run(&words);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let path = ran.out.trim_end().to_owned();
        assert!(path.starts_with("/dev/loop") && !path.contains('\n'), "{ran:?}");
        assert!(ran.error.contains("attached ") && ran.error.contains("\nend: "), "{ran:?}");
        path
    }

    pub fn list(&self) -> Vec<serde_json::Value> {
        let all = self.run(&["attach", "--list", "--format", "json"]).json();
        all.as_array().expect("a list").clone()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    pub fn sized(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path(name);
        fs::File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("an image");
        path
    }

    /// Mounts of this test.
    pub fn mounts(&self) -> Vec<PathBuf> {
        let under = self.path("");
        let table = fs::read_to_string("/proc/self/mountinfo").expect("read");
        let all = table.lines().filter_map(|line| line.split(' ').nth(4).map(PathBuf::from));
        all.filter(|at| at.starts_with(&under)).collect()
    }

    /// Loop devices of this test.
    pub fn loops(&self) -> Vec<String> {
        let under = self.path("");
        let is_own = |name: &String| {
            let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
            file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(&under))
        };
        let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_own).collect()
    }

    /// Nothing is mounted or attached, and of the daemon only its log is left.
    pub fn assert_nothing_left(&self) {
        assert_eq!(self.loops(), [""; 0]);
        assert_eq!(self.mounts(), [""; 0].map(PathBuf::from));
        let left = fs::read_dir(self.place.sockets()).into_iter().flatten().flatten();
        let left: Vec<PathBuf> = left.map(|entry| entry.path()).collect();
        assert!(left.iter().all(|path| path.extension().is_some_and(|e| e == "log")), "{left:?}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for at in self.mounts().iter().rev() {
            let _ = rustix::mount::unmount(at, UnmountFlags::DETACH);
        }
        let records = fs::read_dir(self.place.sockets()).into_iter().flatten().flatten();
        for record in records.filter_map(|entry| fs::read_to_string(entry.path()).ok()) {
            let Ok(record) = serde_json::from_str::<serde_json::Value>(&record) else { continue };
            let pid = record["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        for name in self.loops() {
            let _ = Command::new("losetup").arg("-d").arg(format!("/dev/{name}")).status();
        }
        for at in self.mounts().iter().rev() {
            let _ = rustix::mount::unmount(at, UnmountFlags::DETACH);
        }
    }
}

/// Runs a tool that must succeed.
pub fn tool(words: &[&str]) -> String {
    let ran = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let ran = ran.expect("started");
    let text = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(ran.status.success(), "{words:?}: {text:?}");
    text.concat()
}

/// Bytes that are different everywhere.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 512) as u8 ^ (at % 251) as u8 ^ seed).collect()
}
