//! `iopace detach`: written, durable, and nothing left.

use super::left::{clear_left, is_there};
use super::list::mounted;
use super::seen;
use crate::cli::DetachArgs;
use crate::mount::quoted_path;
use crate::output::{Failure, note, print};
use iopace_daemon::attached::{Record, Seen};
use iopace_daemon::fuse::image::loops;
use iopace_daemon::fuse::mounting::{busy, users};
use iopace_daemon::ublk::left::{self, UblkStanding};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How often it is looked whether the daemon has ended.
const STEP: Duration = Duration::from_millis(50);

/// All is durable and detached: what is left for the daemon takes milliseconds, on a busy machine
/// seconds.
const END_PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Looks at who has the device open: udev and others open a new disk for a moment.
const LOOKS: u32 = 20;

/// Detaches one or all, and waits.
///
/// # Errors
/// Nothing is attached there, it is in use, or it is not durable in time.
pub fn run(args: &DetachArgs) -> Result<(), Failure> {
    let all = seen();
    let chosen: Vec<&Seen> = match &args.target {
        Some(target) => all.iter().filter(|seen| is_meant(&seen.record, target)).collect(),
        // A volume is another thing: 'iopace remove --all'.
        None => all.iter().filter(|seen| seen.record.inserted.is_none()).collect(),
    };
    if let (Some(target), []) = (&args.target, &*chosen) {
        let known = all.iter().map(|seen| seen.record.loop_device.display().to_string());
        let known = match &*known.collect::<Vec<_>>() {
            [] => "nothing is attached".into(),
            known => format!("there are: {}", known.join(", ")),
        };
        let shown = target.display();
        return Err(Failure::new(format!("{shown}: not attached by iopace; {known}")));
    }
    if let Some(inserted) = chosen.iter().find_map(|seen| seen.record.inserted.as_ref()) {
        let shown = quoted_path(&inserted.path());
        return Err(Failure::new(format!(
            "{shown}: a daemon is inserted into it: 'iopace remove {shown}' takes it out"
        )));
    }
    let patience = Duration::from_secs(args.wait);
    let mut failed = None;
    for seen in chosen {
        if let Err(failure) = detach(seen, args.force, patience)
            && let Some(Failure { message, .. }) = failed.replace(failure)
        {
            note(format_args!("error: {message}"));
        }
    }
    failed.map_or(Ok(()), Err)
}

fn is_meant(record: &Record, target: &Path) -> bool {
    let full = target.canonicalize().unwrap_or_else(|_| target.to_owned());
    let source = record.source.as_ref().map(|path| path.canonicalize().unwrap_or(path.clone()));
    record.loop_device == full || source == Some(full) || Path::new(&record.device) == target
}

fn detach(seen: &Seen, force: bool, patience: Duration) -> Result<(), Failure> {
    let record = &seen.record;
    let (path, shown) = (&record.loop_device, record.loop_device.display());
    // Opened before it is asked what it holds: the number may be another's afterwards.
    let process = seen.process();
    if let Some(process) = process.as_ref().filter(|_| !seen.is_held()) {
        // Somebody else has told it to end.
        if !wait_for_end(record, process) || !seen.is_left() {
            return ended(record);
        }
    }
    match clear_left(seen) {
        Some(true) => return Ok(()),
        Some(false) => return Err(in_use(record, "end that, and detach it again")),
        None if record.ublk.is_some() && !seen.is_held() => return give_up(seen, force),
        None => {}
    }
    let is_ours = is_there(record);
    if is_ours && !force {
        if is_used(record) {
            return Err(in_use(record, "end that, or say --force: who uses it gets errors then"));
        }
        let device = path.clone();
        match within(patience, move || loops::sync(&device)) {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                return Err(Failure::new(format!(
                    "{shown}: not everything can be written: {error}; its log says why \
                     (--force gives it up)"
                )));
            }
            None => {
                return Err(Failure::new(format!(
                    "{shown}: is still being written after {} s; wait on with the same command",
                    patience.as_secs()
                )));
            }
        }
    }
    if seen.is_held() {
        end(record, process.as_ref())?;
    }
    wait_until_let_go(seen, patience)?;
    if let Some(process) = process {
        wait_for_end(record, &process);
    }
    ended(record)
}

/// Waits until a daemon that was told to end has let go of what it had attached.
pub(crate) fn wait_until_let_go(seen: &Seen, patience: Duration) -> Result<(), Failure> {
    for _ in 0..patience.as_millis() / STEP.as_millis() {
        if !seen.is_held() {
            return Ok(());
        }
        // SLEEP: nobody tells when a record is let go.
        thread::sleep(STEP);
    }
    Err(Failure::new(format!(
        "{}: its daemon (pid {}) has not ended after {} s; wait on with the same command",
        seen.record.loop_device.display(),
        seen.record.pid,
        patience.as_secs()
    )))
}

/// Ends a ublk device that waits for a daemon, unless somebody has it in use: requests that it
/// still has fail.
fn give_up(seen: &Seen, force: bool) -> Result<(), Failure> {
    let record = &seen.record;
    if !seen.try_hold() {
        let shown = record.loop_device.display();
        return Err(Failure::new(format!(
            "{shown}: another daemon takes it over at this moment; try again"
        )));
    }
    if !force && is_used(record) {
        let remedy = "its daemon was killed: say 'iopace attach --ublk' of the same file to go on \
                      with it, or --force: who uses it gets errors then";
        return Err(in_use(record, remedy));
    }
    if !left::clear_away(record) && left::standing(record) == UblkStanding::Unknown {
        let shown = record.loop_device.display();
        return Err(Failure::new(format!(
            "{shown}: the driver cannot be asked (/dev/ublk-control, io_uring); nothing is changed"
        )));
    }
    seen.remove();
    ended(record)
}

/// Tells the daemon to end.
pub(crate) fn end(record: &Record, process: Option<&OwnedFd>) -> Result<(), Failure> {
    let told = process.map_or(Err(Errno::SRCH), |process| pidfd_send_signal(process, Signal::TERM));
    told.map_err(|error| {
        let (shown, pid) = (record.loop_device.display(), record.pid);
        let remedy = "is it in another container? detach it there";
        Failure::new(format!("{shown}: its daemon {pid} cannot be ended: {error}; {remedy}"))
    })
}

/// Waits until a daemon that has let go of everything has cleared away the rest and is gone. If
/// that takes too long it says so.
pub(crate) fn wait_for_end(record: &Record, process: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(process, PollFlags::IN)];
    let has_ended = poll(&mut asked, Some(&END_PATIENCE)).is_ok_and(|count| count > 0);
    if !has_ended {
        note(format_args!(
            "{}: its daemon (pid {}) has let go of it and has not ended after {} s",
            record.loop_device.display(),
            record.pid,
            END_PATIENCE.tv_sec
        ));
    }
    has_ended
}

fn ended(record: &Record) -> Result<(), Failure> {
    let shown = record.loop_device.display();
    if is_there(record) {
        return print(&format!(
            "{shown}: cut off; the device is free when nobody uses it any more\n"
        ));
    }
    print(&format!("{shown}: detached\n"))
}

/// Whether somebody has it in use, for longer than a moment.
fn is_used(record: &Record) -> bool {
    (0..LOOKS).all(|look| {
        if look > 0 {
            thread::sleep(STEP);
        }
        let path = &record.loop_device;
        !mounted(record).is_empty() || loops::is_claimed(path) || !users::openers(path).is_empty()
    })
}

fn in_use(record: &Record, remedy: &str) -> Failure {
    let path = &record.loop_device;
    let shown = path.display();
    let places: Vec<String> = mounted(record).iter().map(|at| at.display().to_string()).collect();
    let users = users::openers(path);
    let by = match (&*places, &*users) {
        ([], []) => {
            "is in use by the kernel: swap, a mount elsewhere, a part of another device".into()
        }
        ([], users) => format!("is in use by {}", busy::list(users)),
        (places, _) => format!("is mounted at {}", places.join(", ")),
    };
    Failure::new(format!("{shown}: {by}; {remedy}"))
}

/// Does it in a thread of its own; `None` if that takes longer.
fn within<T: Send + 'static>(
    patience: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || sender.send(act()));
    receiver.recv_timeout(patience).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_daemon::attached::{all, started_ticks};
    use std::process::{Command, Stdio};

    #[test]
    fn a_daemon_that_has_let_go_is_waited_for_before_anything_is_cleared_away() {
        let runtime = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("cat");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("started");
        let record = Record {
            loop_device: "/dev/no-such-loop".into(),
            image: runtime.path().join("image"),
            mountpoint: runtime.path().join("attach"),
            source: None,
            device: "disk".into(),
            size_bytes: 0,
            read_only: false,
            pid: child.id(),
            started_ticks: started_ticks(child.id()),
            control: None,
            log: None,
            ublk: None,
            inserted: None,
        };
        let path = runtime.path().join("attach-no-1.json");
        // The number alone is not enough: this is another process.
        let other = Record { started_ticks: Some(1), ..record.clone() };
        std::fs::write(&path, serde_json::to_string(&other).expect("text")).expect("written");
        assert!(all(runtime.path())[0].process().is_none());
        std::fs::write(&path, serde_json::to_string(&record).expect("text")).expect("written");
        let seen = &all(runtime.path())[0];
        let process = seen.process().expect("lives");
        assert!(detach(seen, false, Duration::ZERO).is_ok() && seen.is_left());
        // It ends without having cleared away its record, as if killed.
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert!(wait_for_end(&seen.record, &process));
        assert!(detach(seen, false, Duration::ZERO).is_ok() && !seen.is_left());
    }
}
