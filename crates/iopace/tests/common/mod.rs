//! A running daemon in a directory of its own.
#![allow(missing_docs, reason = "shared by the tests; each uses a part")]
#![allow(dead_code, reason = "shared by the tests; each uses a part")]

pub mod load;

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A test that waits longer than this hangs, and fails.
const HANG: Duration = Duration::from_secs(60);

/// Looks of [`until`].
const LOOKS_MAX: u32 = 1_200;

/// A directory with a 1 MiB image `disk.img`, and the sockets of the daemons under test.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory"));
        place.image("disk.img");
        place
    }

    pub fn image(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("an image");
        path
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    /// Where sockets are made.
    pub fn sockets(&self) -> PathBuf {
        self.path("iopace")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iopace"));
        command.args(words).current_dir(self.0.path());
        // Daemons of other tests, and those of the user, are neither seen nor ended.
        command.env("XDG_RUNTIME_DIR", self.0.path()).env_remove("IOPACE_CONTROL");
        command.env("IOPACE_RUNTIME_DIR", self.sockets());
        // Compiled policies stay in here too.
        command.env("CACHE_DIRECTORY", self.path("cache"));
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::from(self.command(words).stdin(Stdio::null()).output().expect("started"))
    }

    /// Starts `iopace serve` and waits until it serves.
    pub fn serve(&self, words: &[&str]) -> Serving {
        let words: Vec<&str> = ["serve"].iter().chain(words).copied().collect();
        self.serving(&words, Stdio::piped())
    }

    /// Starts a command that serves in the foreground, with its log there, and waits until it does.
    pub fn serving(&self, words: &[&str], log: Stdio) -> Serving {
        let mut command = self.command(words);
        let spawned = command.stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = spawned.expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut welcome = String::new();
        while !welcome.contains("stop:") {
            let read = out.read_line(&mut welcome).expect("read");
            if read == 0 {
                let mut error = String::new();
                let log = child.stderr.take();
                let _ = log.map(|mut log| log.read_to_string(&mut error));
                let _ = child.wait();
                panic!("it did not serve: {welcome}{error}");
            }
        }
        Serving { child: Some(child), welcome }
    }
}

/// What a command printed, and its exit status.
#[derive(Debug)]
pub struct Ran {
    pub out: String,
    pub error: String,
    pub status: Option<i32>,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            out: String::from_utf8(output.stdout).expect("text"),
            error: String::from_utf8(output.stderr).expect("text"),
            status: output.status.code(),
        }
    }
}

impl Ran {
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.status, Some(0), "{self:?}");
        serde_json::from_str(&self.out).expect("JSON")
    }
}

/// A daemon; killed when dropped.
pub struct Serving {
    child: Option<Child>,
    pub welcome: String,
}

impl Serving {
    /// The first URI.
    pub fn uri(&self) -> &str {
        self.welcome.lines().next().expect("a line")
    }

    /// The socket of the first URI.
    pub fn socket(&self) -> &Path {
        Path::new(self.uri().split_once("socket=").expect("a Unix socket").1)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("running");
        let pid = Pid::from_child(child);
        kill_process(pid, signal).expect("signalled");
    }

    /// Reads the log until a line has this text.
    pub fn wait_for_log(&mut self, text: &str) {
        let child = self.child.as_mut().expect("running");
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(log.read_line(&mut line).expect("read"), 0, "it ended without '{text}'");
        }
        child.stderr = Some(log.into_inner());
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ran {
        let child = self.child.take().expect("running");
        let pid = Pid::from_child(&child);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        match receiver.recv_timeout(HANG) {
            Ok(output) => Ran::from(output.expect("waited")),
            Err(_) => {
                let _ = kill_process(pid, Signal::KILL);
                panic!("the daemon does not end");
            }
        }
    }

    /// Sends a signal and waits for the end.
    pub fn end_by(self, signal: Signal) -> Ran {
        self.signal(signal);
        self.end()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until it is so; a test that waits a minute has failed.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(50));
    }
    panic!("it does not come to this: {what}");
}

/// Unmounts by other means than iopace's: tests beside this one look at all mounts, and have each
/// in use for a moment.
pub fn umount(at: &Path) {
    until("it is unmounted", || {
        let mut command = Command::new("umount");
        command.arg(at).stderr(Stdio::null()).status().expect("started").success()
    });
}
