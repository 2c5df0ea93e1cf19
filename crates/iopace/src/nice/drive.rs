//! The loop: looks at the program, asks the controller, and gives the program what it says.

use super::cgroup::Cgroup;
use super::mounts::Mounts;
use super::priorities::Priorities;
use super::progress::NiceProgress;
use super::{left_until, name_of};
use crate::cli::NiceArgs;
use crate::output::{note, note_over};
use crate::units::{size, time};
use iopace_core::goal::{Controller, Course, Goals, OthersTimes, Push, Seen};
use iopace_core::group::{Class, Weight};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};
use iopace_daemon::{ProcessFamily, clock};
use jiff::{SignedDuration, Zoned};
use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The time between two questions to the controller: the interval of a daemon's reports.
const TICK: Nanos = Nanos::from_secs(1);

/// Time between two looks at the mounts: often at first, when the program goes to where it works.
const LOOK: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// So many looks are often.
const LOOKS_OFTEN: u32 = 30;

/// After so many ticks daemons are looked for again, and files of cgroups and classes of threads
/// written again.
const AGAIN_TICKS: u64 = 10;

/// After so many ticks without a group in a mount it is told that goals do not hold yet.
const UNSEEN_TICKS: u64 = 60;

/// What is known of a program before it is driven.
pub(super) struct Start {
    pub(super) goals: Goals,
    /// A deadline by the clock of the day, which may be set, and goes on while the machine sleeps.
    pub(super) at: Option<Zoned>,
    pub(super) expected: Option<Bytes>,
}

/// By which the program is driven.
pub(super) struct Means<'a> {
    pub(super) mounts: Mounts,
    pub(super) cgroup: Option<&'a Cgroup>,
}

/// A program that is driven.
pub(super) struct NiceDrive<'a> {
    name: String,
    keep_p99: Option<Nanos>,
    expected: Option<Bytes>,
    at: Option<Zoned>,
    family: ProcessFamily,
    means: Means<'a>,
    controller: Controller,
    course: Option<Course>,
    /// The class that its threads were given.
    class: Option<Class>,
    priorities: Priorities,
    progress: Option<NiceProgress>,
    ticks: u64,
    shows: bool,
    is_told_late: bool,
    is_told_cgroup: bool,
    /// A goal that only mounts can hold.
    needs_group: bool,
    has_deadline: bool,
}

/// The time of the controller.
pub(super) fn now() -> Instant {
    clock::now()
}

impl<'a> NiceDrive<'a> {
    pub(super) fn new(
        args: &NiceArgs,
        start: Start,
        family: ProcessFamily,
        means: Means<'a>,
    ) -> NiceDrive<'a> {
        let is_ours = !args.command.is_empty();
        let needs_limit = args.limit.is_some() && !means.cgroup.is_some_and(Cgroup::holds_rates);
        NiceDrive {
            name: name_of(args),
            keep_p99: args.keep_p99,
            expected: start.expected,
            at: start.at,
            needs_group: args.keep_p99.is_some() || needs_limit,
            has_deadline: args.by.is_some(),
            means,
            controller: Controller::new(start.goals),
            course: None,
            // A program that we started has it already.
            class: is_ours.then_some(Class::Idle),
            priorities: Priorities::new(is_ours.then_some(Class::Idle)),
            progress: NiceProgress::of(std::process::id()),
            family,
            ticks: 0,
            shows: !args.quiet && io::stderr().is_terminal(),
            is_told_late: false,
            is_told_cgroup: false,
        }
    }

    /// Drives the program until it has ended.
    pub(super) fn follow(&mut self, ended: &Receiver<()>) {
        self.until(ended, || false);
    }

    /// Drives it until it has ended, or all of it is gone where nobody says so, or it is to stop.
    pub(super) fn until(&mut self, ended: &Receiver<()>, is_over: impl Fn() -> bool) {
        let (mut looks, mut next_tick) = (0, now());
        while !self.family.is_gone() && !is_over() {
            self.family.look();
            if now() >= next_tick {
                self.tick();
                next_tick = now() + TICK;
            } else if let Some(course) = self.course {
                self.means.mounts.follow(&self.family, &course.push);
            }
            looks += 1;
            let wait = LOOK[usize::from(looks > LOOKS_OFTEN)];
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        self.family.look();
        if self.shows {
            note_over(format_args!(""));
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        let is_again = self.ticks.is_multiple_of(AGAIN_TICKS);
        if is_again {
            self.means.mounts.look();
        }
        let others = self.others();
        let is_blind = others.is_none();
        let others = others.unwrap_or_default();
        let late = |goal| others.iter().map(|times| times.late_count(goal)).sum();
        let seen = Seen {
            moved: self.moved(),
            expected: self.expected,
            others_count: others.iter().map(|times| times.count).sum(),
            late_count: self.keep_p99.map_or(0, late),
            times: &others,
            is_blind,
        };
        if let Some(at) = &self.at {
            self.controller.set_deadline(now() + left_until(&Zoned::now(), at));
        }
        let course = self.controller.tick(now(), &seen);
        let is_other = self.course.is_none_or(|before| before.push != course.push);
        self.course = Some(course);
        self.means.mounts.follow(&self.family, &course.push);
        self.set_class(course.push.class, is_again);
        if let Some(cgroup) = self.means.cgroup.filter(|_| is_other || is_again)
            && let Err(error) = cgroup.set(&course.push)
            && !std::mem::replace(&mut self.is_told_cgroup, true)
        {
            note(format_args!("warning: its cgroup does not take all: {error}"));
        }
        if self.needs_group && self.ticks == UNSEEN_TICKS && !self.means.mounts.has_group() {
            note(format_args!(
                "warning: {} was not seen in a mount of iopace so far: what --keep-p99 and --limit \
                 ask of mounts holds once it uses one",
                self.name
            ));
        }
        self.tell(&course);
    }

    /// Requests of others in the mounts; `None` where they cannot be seen, or are of no interest: a
    /// deadline has the program wait for them only in the mounts that it uses.
    fn others(&self) -> Option<Vec<OthersTimes>> {
        let mounts = &self.means.mounts;
        let is_asked = self.keep_p99.is_some() || (self.has_deadline && mounts.has_group());
        is_asked.then(|| mounts.others()).flatten()
    }

    /// What it has moved: of reading and writing the one that is more, which for a copy is its
    /// size.
    fn moved(&self) -> Bytes {
        let moved = self.family.moved();
        Bytes(moved.read.max(moved.written))
    }

    /// Gives every thread the class. Those that are started later have it from who starts them;
    /// those that were started meanwhile are given it when it is done again.
    fn set_class(&mut self, class: Class, is_again: bool) {
        if self.class.replace(class) != Some(class) {
            self.priorities.change(&self.family, class);
        } else if is_again {
            self.priorities.repeat(&self.family, class);
        }
    }

    /// On a terminal how far it is; once, that it will be late.
    fn tell(&mut self, course: &Course) {
        if course.is_late && !std::mem::replace(&mut self.is_told_late, true) {
            let left = course.left.map(|left| format!(": done at {}", clock_time(left)));
            note(format_args!(
                "iopace nice: {} will be late{}; it has all of the disk now",
                self.name,
                left.unwrap_or_default()
            ));
        }
        let line = self.line(course);
        if let Some(progress) = &mut self.progress {
            progress.tell(&line);
        }
        if self.shows && course.left.is_some() {
            note_over(format_args!("{line}"));
        }
    }

    /// As in `restic: 41 % of 200 GiB, done at 05:12 (in 63 min), idle`.
    fn line(&self, course: &Course) -> String {
        let Some(left) = course.left else {
            return format!("{}: {}, {}", self.name, size(self.moved().0), words(&course.push));
        };
        let expected = self.expected.unwrap_or_default();
        let percent = (u128::from(self.moved().0) * 100 / u128::from(expected.0.max(1))).min(100);
        let (name, of) = (&self.name, size(expected.0));
        let what = words(&course.push);
        format!(
            "{name}: {percent} % of {of}, done at {} (in {}), {what}",
            clock_time(left),
            length(left)
        )
    }

    /// The program has ended: what it has moved, and its best rate.
    pub(super) fn end(self) -> (Bytes, BytesPerSec) {
        let moved = self.moved();
        if let Some(cgroup) = self.means.cgroup {
            cgroup.release();
        }
        self.means.mounts.end();
        (moved, self.controller.best())
    }

    /// The processes go on without us, as they were.
    pub(super) fn release(self) {
        self.priorities.release(&self.family);
        self.means.mounts.forsake(&self.family);
    }
}

/// What a program has, as in `best effort, weight 400, 20 MiB/s at most`.
pub fn words(push: &Push) -> String {
    let class = match push.class {
        Class::Idle => "idle".to_owned(),
        _ if push.weight == Weight::DEFAULT => "best effort".to_owned(),
        _ => format!("best effort, weight {}", push.weight.get()),
    };
    match push.rate {
        None => class,
        Some(rate) => format!("{class}, {}/s at most", size(rate.0)),
    }
}

/// The time of day that is so far ahead.
fn clock_time(left: Nanos) -> String {
    let seconds = i64::try_from(left.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let then = Zoned::now().checked_add(SignedDuration::from_secs(seconds));
    then.map_or_else(|_| "never".into(), |then| then.strftime("%H:%M").to_string())
}

/// A length of time, in minutes where it is long.
fn length(left: Nanos) -> String {
    match left.0 / 1_000_000_000 {
        0..600 => time(left.0),
        seconds @ 600..36_000 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}
