//! `iopace nice`: a program that leaves all others their latency, and is done in time.
//!
//! ```text
//!  ProcessFamily       who it is, and how much it has moved (/proc)
//!     │
//!     ▼
//!  Controller   iopace_core::goal, once a second: class, weight, rate
//!     │
//!     ├─► ionice    every thread: the kernel's scheduler of the disk, and mounts of iopace
//!     ├─► mounts    a group of its own in each daemon that it uses
//!     └─► cgroup    io.weight and io.max, where the kernel has them
//! ```
//! What was found is said on standard error; a goal that nothing could hold is refused before the
//! program starts.

mod cgroup;
mod child;
mod drive;
mod install;
mod learnt;
mod mounts;
mod priorities;
pub mod progress;
mod rule;
mod unit;

use crate::cli::{Deadline, NiceArgs};
use crate::output::{Failure, note};
use cgroup::Cgroup;
use child::Program;
pub use drive::words;
use drive::{Means, NiceDrive, Start};
use iopace_core::goal::Goals;
use iopace_core::group::Class;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};
use iopace_daemon::{ProcessFamily, process_of, processes_named};
use jiff::Zoned;
use jiff::civil::time;
use learnt::{Learnt, Run};
use mounts::Mounts;
use priorities::Priorities;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;

/// The exit status where iopace could not do what was asked, as of nice(1) and timeout(1).
const FAILED: u8 = 125;

/// Carries out the command; the exit status of the program.
///
/// # Errors
/// A goal that nothing could hold, a program that cannot be run, or a process that is not there.
pub fn run(args: &NiceArgs) -> Result<u8, Failure> {
    let result = match (&args.install, &args.remove) {
        (Some(name), _) => install::install(args, name).map(|()| 0),
        (_, Some(name)) => install::remove(args, name).map(|()| 0),
        _ if args.command.is_empty() => attach(args).map(|()| 0),
        _ => start(args),
    };
    // 1 is what a program may end with itself.
    result.map_err(|failure| match failure.status {
        1 => Failure { status: FAILED, ..failure },
        _ => failure,
    })
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure { message: error.to_string(), status: FAILED }
}

/// Runs a program.
fn start(args: &NiceArgs) -> Result<u8, Failure> {
    let learnt = Learnt::of(&args.command);
    let mounts = Mounts::find(args.control.as_deref(), &name_of(args), std::process::id());
    // With us in it, so that the program is in it from its first byte on.
    let cgroup = Cgroup::make();
    check(args, &mounts, cgroup.as_ref().is_ok_and(Cgroup::holds_rates))?;
    let expected = args.size.or(learnt.expected());
    let known = known(args, expected, learnt.best())?;
    let program = Program::start(&args.command, Class::Idle)?;
    let means = Means { mounts, cgroup: cgroup.as_ref().ok() };
    if !args.quiet {
        say(args, &means, cgroup.as_ref().err(), expected);
    }
    let mut drive = NiceDrive::new(args, known, ProcessFamily::of(&[program.pid()]), means);
    drive.follow(program.ended());
    // It is a zombie until it is waited for, and of its group.
    let status = program.status();
    let (moved, best) = drive.end();
    let status = status?;
    if status == 0 && moved.0 > 0 {
        let now_s = Zoned::now().timestamp().as_second().max(0).unsigned_abs();
        let run = Run { bytes: moved.0, best_bytes_s: best.0 };
        if let Err(error) = learnt.keep(run, now_s) {
            note(format_args!("warning: this run is not known the next time: {error}"));
        }
    }
    Ok(status)
}

/// Drives processes that run already, until they end or we are told to stop.
fn attach(args: &NiceArgs) -> Result<(), Failure> {
    let pids = match (&args.attach, &args.program) {
        (Some(pid), _) => process_of(*pid).into_iter().collect(),
        (_, Some(name)) => processes_named(name),
        _ => Vec::new(),
    };
    let pids: Vec<u32> = pids.into_iter().filter(|pid| *pid != std::process::id()).collect();
    let family = ProcessFamily::of(&pids);
    if family.is_gone() {
        return Err(failed(match &args.program {
            Some(name) => format!("no process of the program '{name}' runs here"),
            None => format!("there is no process {}", args.attach.unwrap_or_default()),
        }));
    }
    let mounts = Mounts::find(args.control.as_deref(), &name_of(args), std::process::id());
    // It stays in the cgroup of its service.
    check(args, &mounts, false)?;
    Priorities::check(&family).map_err(|error| {
        let name = name_of(args);
        failed(format!("{name}: its class cannot be set ({error}): run it as its user or as root"))
    })?;
    let known = known(args, args.size, BytesPerSec(0))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|one| !child::is_ignored(*one)) {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    let means = Means { mounts, cgroup: None };
    if !args.quiet {
        say(args, &means, Some(&"it stays in its cgroup".to_owned()), args.size);
    }
    let mut drive = NiceDrive::new(args, known, family, means);
    let (_sender, never) = sync_channel(1);
    drive.until(&never, || stop.load(Relaxed));
    drive.release();
    Ok(())
}

/// The name of the program, for people and groups.
fn name_of(args: &NiceArgs) -> String {
    let word = args.command.first().map(|word| Path::new(word).file_name().unwrap_or(word));
    match (word, &args.program, args.attach) {
        (Some(word), ..) => word.to_string_lossy().into_owned(),
        (_, Some(name), _) => name.clone(),
        (.., pid) => format!("process-{}", pid.unwrap_or_default()),
    }
}

/// Refuses goals that nothing here could hold.
fn check(args: &NiceArgs, mounts: &Mounts, has_rates: bool) -> Result<(), Failure> {
    let is_mounted = !mounts.places().is_empty();
    let ways = "mount the directory that it uses with 'iopace mount DIR' (as root of a daemon that \
                you may control)";
    if args.keep_p99.is_some() && !is_mounted {
        return Err(failed(format!(
            "--keep-p99 needs a mount of iopace, as the kernel tells no latency of others: {ways}"
        )));
    }
    if args.limit.is_some() && !is_mounted && !has_rates {
        return Err(failed(format!(
            "--limit can be held by nothing here: {ways}, or run it as root where cgroup v2 has \
             the controller io (a kernel without cgroup v1: systemd.unified_cgroup_hierarchy=1)"
        )));
    }
    Ok(())
}

/// The goals on the clock that the controller goes by, and what is known of the program.
fn known(args: &NiceArgs, expected: Option<Bytes>, best: BytesPerSec) -> Result<Start, Failure> {
    let day = Zoned::now();
    let at = match args.by {
        Some(Deadline::Clock(hour, minute)) => Some(next(&day, hour, minute)?),
        _ => None,
    };
    let left = match args.by {
        Some(Deadline::Within(length)) => Some(length),
        _ => at.as_ref().map(|at| left_until(&day, at)),
    };
    let by = left.map(|left| drive::now() + left);
    let goals = Goals { by, limit: args.limit, guarded: args.keep_p99.is_some(), best };
    Ok(Start { goals, at, expected })
}

/// The next hour and minute of that name.
fn next(now: &Zoned, hour: i8, minute: i8) -> Result<Zoned, Failure> {
    let at = |day: jiff::civil::Date| {
        day.to_datetime(time(hour, minute, 0, 0)).to_zoned(now.time_zone().clone())
    };
    let mut next = at(now.date()).map_err(failed)?;
    if next <= *now {
        next = at(now.date().tomorrow().map_err(failed)?).map_err(failed)?;
    }
    Ok(next)
}

/// The time until then; none if it is over.
fn left_until(now: &Zoned, then: &Zoned) -> Nanos {
    Nanos(u64::try_from(then.duration_since(now).as_nanos()).unwrap_or_default())
}

/// Says what is used, and what is missing.
fn say(args: &NiceArgs, means: &Means<'_>, missing: Option<&String>, expected: Option<Bytes>) {
    let places: Vec<String> =
        means.mounts.places().iter().map(|place| place.display().to_string()).collect();
    let mut used = vec!["ionice".to_owned()];
    if !places.is_empty() {
        used.push(format!("groups in the mounts {}", places.join(", ")));
    }
    used.extend(means.cgroup.map(Cgroup::words));
    let mut missing: Vec<String> = missing.cloned().into_iter().collect();
    if places.is_empty() {
        missing.push("no mount of iopace".into());
    }
    if !cgroup::goes_by_class() {
        missing.push("no disk whose scheduler goes by ionice (bfq, mq-deadline)".into());
    }
    let missing = match &*missing {
        [] => String::new(),
        missing => format!("; missing: {}", missing.join(", ")),
    };
    note(format_args!("iopace nice: by {}{missing}", used.join(", ")));
    if args.by.is_some() && expected.is_none() {
        note(format_args!(
            "iopace nice: nobody knows yet how much it moves, so it is best effort from the start; \
             --size says it, and so does this run for the next one"
        ));
    }
    if args.limit.is_some() && !means.cgroup.is_some_and(Cgroup::holds_rates) {
        note(format_args!("iopace nice: the limit holds in the mounts only"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(1));
        let now = jiff::civil::date(2026, 11, 27).at(23, 30, 0, 0).to_zoned(zone);
        let now = now.expect("a time");
        let until = |hour, minute| {
            let next = next(&now, hour, minute).expect("a time");
            left_until(&now, &next).0 / 1_000_000_000
        };
        assert_eq!(until(23, 45), 15 * 60);
        assert_eq!(until(6, 0), 6 * 3600 + 1800);
        assert_eq!(until(23, 30), 24 * 3600);
        // The clock was set, and by so much that it is over.
        let next = next(&now, 6, 0).expect("a time");
        let later = |hours: i64| now.checked_add(jiff::SignedDuration::from_hours(hours));
        let left = |hours| left_until(&later(hours).expect("a time"), &next).0 / 1_000_000_000;
        assert_eq!((left(6), left(7)), (1800, 0));
    }
}
