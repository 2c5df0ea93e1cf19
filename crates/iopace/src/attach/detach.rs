//! `iopace detach`: written, durable, and nothing left.

use super::list::mounted;
use super::{clear_left, seen};
use crate::cli::DetachArgs;
use crate::output::{Failure, print};
use iopace_daemon::fuse::image::attached::{Record, Seen};
use iopace_daemon::fuse::image::loops;
use iopace_daemon::fuse::mounting::busy;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How often it is looked whether the daemon has ended.
const STEP: Duration = Duration::from_millis(50);

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
        None => all.iter().collect(),
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
    let patience = Duration::from_secs(args.wait);
    let mut failed = None;
    for seen in chosen {
        if let Err(failure) = detach(seen, args.force, patience)
            && let Some(Failure { message, .. }) = failed.replace(failure)
        {
            eprintln!("error: {message}");
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
    match clear_left(seen) {
        Some(true) => return Ok(()),
        Some(false) => return Err(in_use(record, "end that, and detach it again")),
        None => {}
    }
    let is_ours = loops::is_behind(path, &record.image);
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
    // As long as it holds the lock, the number is its own.
    let pid = i32::try_from(record.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| seen.is_held()) {
        kill_process(pid, Signal::TERM).map_err(|error| {
            Failure::new(format!("{shown}: its daemon {} cannot be ended: {error}", record.pid))
        })?;
    }
    for _ in 0..patience.as_millis() / STEP.as_millis() {
        if !seen.is_held() {
            return ended(record);
        }
        thread::sleep(STEP);
    }
    Err(Failure::new(format!(
        "{shown}: its daemon (pid {}) has not ended after {} s; wait on with the same command",
        record.pid,
        patience.as_secs()
    )))
}

fn ended(record: &Record) -> Result<(), Failure> {
    let shown = record.loop_device.display();
    if loops::is_behind(&record.loop_device, &record.image) {
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
        !mounted(record).is_empty() || loops::is_claimed(path) || !busy::openers(path).is_empty()
    })
}

fn in_use(record: &Record, remedy: &str) -> Failure {
    let path = &record.loop_device;
    let shown = path.display();
    let places: Vec<String> = mounted(record).iter().map(|at| at.display().to_string()).collect();
    let users = busy::openers(path);
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
