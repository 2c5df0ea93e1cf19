//! The watcher of a daemon that is inserted: a process of its own, in memory all the time, that
//! takes the volume out if the daemon is killed.

use super::rescue::rescue_all;
use crate::attach::seen;
use crate::output::{Failure, print};
use iopace_daemon::attached::Seen;
use iopace_daemon::resident::stay_in_memory;
use iopace_daemon::ublk;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::setsid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::env;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Says to the new process that it is the watcher, and of which process.
const WATCHED: &str = "IOPACE_INSERT_WATCHED";

/// Before a watcher that was killed is replaced: not in a circle at full speed.
const AGAIN: Duration = Duration::from_secs(1);

/// The word of a watcher that stands ready.
const READY: &str = "ready";

/// Starts a watcher of this process, waits until it stands ready, and replaces it as often as it is
/// killed.
///
/// # Errors
/// There is no such process.
pub(super) fn start() -> Result<(), Failure> {
    let first = spawn().map_err(|error| Failure::new(format!("no watcher: {error}")))?;
    let keep = move || {
        let mut watcher = first;
        loop {
            // It ends after this process, or was killed.
            let ended = watcher.wait();
            let shown = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            tracing::warn!("the watcher has ended ({shown}): another one is started");
            let mut is_told = false;
            watcher = loop {
                // SLEEP: see `AGAIN`.
                thread::sleep(AGAIN);
                match spawn() {
                    Ok(next) => break next,
                    Err(error) if !is_told => tracing::error!(%error, "no watcher"),
                    Err(_) => {}
                }
                is_told = true;
            };
        }
    };
    let kept = thread::Builder::new().name("watched".into()).spawn(keep);
    kept.map_err(|error| Failure::new(format!("no thread for the watcher: {error}"))).map(drop)
}

fn spawn() -> io::Result<Child> {
    // Also when the program was replaced by a newer one.
    let mut child = Command::new("/proc/self/exe")
        .arg0("iopace")
        .args(env::args_os().skip(1))
        .env(WATCHED, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut said)?;
    if said.trim_end() != READY {
        let _ = child.kill();
        let ended = child.wait()?;
        return Err(io::Error::other(format!("it ended at its start: {ended}")));
    }
    Ok(child)
}

/// This process, if it is a watcher.
pub(super) struct Watcher {
    watched: u32,
}

impl Watcher {
    pub(super) fn found() -> Option<Watcher> {
        let watched = env::var(WATCHED).ok()?.parse().ok()?;
        Some(Watcher { watched })
    }

    /// Waits until the daemon is gone. If that was not in order, takes the volume out.
    pub(super) fn run(self) -> Result<(), Failure> {
        // A signal to a group of processes, or to all of a service, is for the daemon: it takes the
        // volume out itself then, and this process ends after it.
        let _ = setsid();
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let nobody = Arc::new(AtomicBool::new(false));
            let ignored = signal_hook::flag::register(signal, nobody);
            ignored.map_err(|error| Failure::new(format!("no signal is ignored: {error}")))?;
        }
        ublk::prepare().map_err(Failure::new)?;
        let is_own =
            |seen: &Seen| seen.record.pid == self.watched && seen.record.inserted.is_some();
        let record = seen().into_iter().find(|seen| is_own(seen) && seen.is_held());
        let gone = || Failure::new("the daemon to be watched is gone");
        let record = record.ok_or_else(gone)?;
        let process = record.process().ok_or_else(gone)?;
        stay_in_memory().map_err(|error| Failure::new(format!("not kept in memory: {error}")))?;
        print(&format!("{READY}\n"))?;
        while poll(&mut [PollFd::new(&process, PollFlags::IN)], None).is_err() {}
        if !record.is_left() {
            return Ok(());
        }
        let inserted = record.record.inserted.clone().expect("looked at before");
        // Whatever is in the way: the volume waits, and nobody else may be there to help. Nothing
        // is logged before, as the log may be where nothing can be written.
        let mut result = rescue_all(&inserted);
        while let Err(failure) = &result {
            tracing::error!("{}: not taken out: {}", inserted.volume, failure.message);
            // SLEEP: see `AGAIN`.
            thread::sleep(AGAIN);
            result = rescue_all(&inserted);
        }
        tracing::warn!(
            "{}: the daemon in front of it was killed; it goes past iopace again",
            inserted.volume
        );
        Ok(())
    }
}
