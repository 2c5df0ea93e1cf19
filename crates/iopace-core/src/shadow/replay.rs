//! The replay of a [`Recording`](super::Recording) under other settings, with clients that wait
//! for their answers.
//!
//! # Model
//! ```text
//!   live:    request ├────────────┤ k-th end   think   ├─ next request of the task ─┤
//!   replay:  request ├─────┤ k-th end   think   ├─ next request ──┤       sooner
//! ```
//! A task asks for more as its requests end. A request that came live after `k` requests of its
//! task had ended comes in the replay after the `k`-th end there, by as much later as live (the
//! task's think time): a task that is served sooner asks sooner, and one that is served later asks
//! later. With `k = 0` it comes when it came live. The replay ends when the recording did; what has
//! not ended by then was not served in the same time.
//!
//! ```text
//!   shadow:  │ first pass: it learns │ what is left ends │ second pass: it is told of │
//!            └───── recording ───────┘                   └───────── recording ────────┘
//! ```
//! A recording begins while the live device is at work, with a scheduler and a window that have
//! learnt the disk and the tasks; the shadow begins knowing nothing. So it meets the recording
//! twice, and only the second pass is told. Between the two, what was asked for ends and nothing
//! comes.
//!
//! A [`Shadow`] carries it out, and all that is said of its virtual disk holds here, with two
//! differences: what write-back and flushes take is known from the beginning, and each flush is
//! served as it was live. A disk that had many requests all the time never showed how long it takes
//! for one. So a replay is of one of two disks ([`Disk`]), and the truth is between them: the
//! shortest time that such a request took beside the others is a bound from above of what it takes
//! alone, and that the disk works on one after the other is a bound from below.
//!
//! # Properties
//! 1. Under the live settings each request ends when it ended live, as far as the virtual disk is
//!    like the live one.
//! 2. A task has never more requests in the replay than it had live at the most.
//! 3. On a disk that works on one after the other, rates and times of tasks under another scheduler
//!    are told to a fifth.
//!
//! # Limits
//! A task that is served sooner has asked for all that was recorded of it before the replay is
//! over, and asks for nothing more then: the others are to be compared until that instant only.
//! Several programs behind one task (a connection of a virtual machine) may be taken for one that
//! waits for all of them. A scheduler or window that learns more slowly than the recording is long
//! knows less in the second pass than it did live.
//!
//! # Sources
//! Schroeder, Wierman and Harchol-Balter (2006) and Weiss et al. (2013), as in [`super`].

use super::closed_loop::{Asked, ClosedLoop};
use super::line::Item;
use super::{Ended, PANICKED, Plan, Recorded, RecordedKind, Served, Shadow};
use crate::engine::{Engine, Input};
use crate::group::Settings;
use crate::group::table::Groups;
use crate::request::{Cover, GroupId, Op, Outcome, StageTimes};
use crate::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// Steps of a replay between two ends of requests: a bound on hanging only.
const STEPS_MAX: usize = 1 << 16;

/// Passes over the recording: one to learn from, one that is told.
const PASSES: u32 = 2;

/// How the virtual disk of a replay works on requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disk {
    /// A request takes at least the shortest time that one of its kind and size was seen to take.
    #[default]
    AsSeen,
    /// It works on one request after the other, whatever they took beside others.
    Serial,
}

/// How a request went in a replay.
#[derive(Clone, Copy, Debug)]
pub struct Replayed {
    /// When it ended, in the time of the replay, which begins when the recording did.
    pub ended: Instant,
    /// Where its time went.
    pub times: StageTimes,
}

/// A shadow with a plan that has met nothing yet.
#[derive(Debug)]
pub struct Replay {
    began: Instant,
    shadow: Shadow,
}

impl Replay {
    /// With the settings of groups as live but for those tried.
    pub(crate) fn new(
        began: Instant,
        engine: Engine,
        (plan, tried): (Plan, BTreeMap<GroupId, Settings>),
        (live, groups): (&Groups, &[GroupId]),
    ) -> Result<Replay, &'static str> {
        let mut shadow = Shadow::from(1);
        (shadow.plan, shadow.groups) = (plan, tried);
        shadow.restart(began, Ok(engine));
        shadow.unknown_from = None;
        shadow.learn(began, live, GroupId::ROOT, true);
        for id in groups.iter().chain(&shadow.groups.keys().copied().collect::<Vec<_>>()) {
            shadow.learn(began, live, *id, false);
        }
        shadow.replayed = Some(Vec::new());
        match shadow.failed {
            Some(why) => Err(why),
            None => Ok(Replay { began, shadow }),
        }
    }

    /// Meets all that was recorded, in order of its ends, with such a disk: by place in the
    /// recording, how each went; none for what was not served, or not asked for, when the last of
    /// the recording had ended. Nothing is said of write-back.
    ///
    /// # Errors
    /// Why a policy failed.
    pub fn run(
        self,
        recorded: &[Recorded],
        disk: Disk,
    ) -> Result<Vec<Option<Replayed>>, &'static str> {
        self.run_passes(recorded, disk, PASSES)
    }

    /// The same with so many passes over the recording, at least one.
    pub(super) fn run_passes(
        mut self,
        recorded: &[Recorded],
        disk: Disk,
        passes: u32,
    ) -> Result<Vec<Option<Replayed>>, &'static str> {
        let served = self.served(recorded, disk);
        let length = recorded.last().map_or(Nanos::ZERO, |last| last.ended.since(self.began));
        let mut run = ShadowRun {
            began: self.began,
            since: self.began,
            until: self.began + length,
            clients: ClosedLoop::default(),
            recorded,
            served,
            first_place: 0,
            replayed: Vec::new(),
        };
        let shadow = &mut self.shadow;
        let mut is_stuck = true;
        shadow.fenced(|shadow| {
            is_stuck = (0..passes).any(|pass| {
                let is_left_over = pass > 0;
                is_left_over && run.drain_is_stuck(shadow) || run.pass_is_stuck(shadow, length)
            });
        });
        match shadow.failed {
            Some(why) => Err(why),
            None if is_stuck => Err(PANICKED),
            None => Ok(run.replayed),
        }
    }

    /// How the disk serves each, as it is known at the end of the recording.
    fn served(&mut self, recorded: &[Recorded], disk: Disk) -> Vec<Served> {
        let measured = &mut self.shadow.measured;
        let mut all = Vec::new();
        for _ in 0..2 {
            // Means and least times are known to the second turn from its beginning.
            measured.again(self.began);
            all.clear();
            for one in recorded {
                let what = (one.submit.op, one.submit.extent.len());
                let is_write_back = one.kind == RecordedKind::WriteBack;
                let mut served = Served::default();
                if one.was_at_disk() {
                    served = measured.done(one.ended, one.started, what, is_write_back);
                    served.beside = one.beside;
                }
                if disk == Disk::Serial {
                    served.least = Nanos::ZERO;
                }
                all.push(served);
            }
        }
        all
    }
}

/// The clients of a recording.
fn clients_of(began: Instant, recorded: &[Recorded]) -> ClosedLoop {
    let asked = recorded.iter().enumerate().filter(|(_, one)| is_of_client(one));
    let asked = asked.map(|(place, one)| {
        let (task, arrived, ended) = (one.submit.task, one.arrived, one.ended);
        Asked { place, task, arrived, ended }
    });
    ClosedLoop::new(began, asked)
}

/// Whether a client asked for it and waited for its end.
fn is_of_client(one: &Recorded) -> bool {
    one.kind != RecordedKind::WriteBack
        && (one.kind != RecordedKind::Buffered || matches!(one.cover, Cover::Piece(_)))
}

/// A replay under way.
struct ShadowRun<'a> {
    /// When the recording began.
    began: Instant,
    /// When the present pass began, and when it is over.
    since: Instant,
    until: Instant,
    clients: ClosedLoop,
    recorded: &'a [Recorded],
    served: Vec<Served>,
    /// The shadow's number of the recording's first request in this pass: what a former pass has
    /// left has a smaller one.
    first_place: usize,
    replayed: Vec<Option<Replayed>>,
}

impl ShadowRun<'_> {
    /// One pass over the recording, from the shadow's present instant on; whether it turns without
    /// getting anywhere.
    fn pass_is_stuck(&mut self, shadow: &mut Shadow, length: Nanos) -> bool {
        self.first_place += self.replayed.len();
        self.since = self.began.max(shadow.now);
        self.until = self.since + length;
        self.clients = clients_of(self.began, self.recorded);
        self.clients.come_later(self.since.since(self.began));
        self.replayed = vec![None; self.recorded.len()];
        self.is_stuck(shadow, |run, _, now| now > run.until)
    }

    /// What the pass before has left in the shadow ends, and nothing comes.
    fn drain_is_stuck(&mut self, shadow: &mut Shadow) -> bool {
        self.clients = ClosedLoop::default();
        self.is_stuck(shadow, |_, shadow, now| shadow.waiting_count() == 0 || now.is_never())
    }

    /// Goes on until `is_over`, which is asked with the next instant at which something happens;
    /// whether it turns without getting anywhere.
    fn is_stuck(
        &mut self,
        shadow: &mut Shadow,
        is_over: impl Fn(&Self, &Shadow, Instant) -> bool,
    ) -> bool {
        let mut steps = 0;
        while steps < STEPS_MAX {
            steps += 1;
            let due = shadow.disk.next().min(shadow.again).min(self.clients.next());
            let now = due.max(shadow.now);
            if shadow.engine.is_none() || is_over(self, shadow, now) {
                return false;
            }
            shadow.now = now;
            if let Some(id) = shadow.disk.done(now) {
                shadow.engine_mut().handle(now, Input::Done { id, outcome: Outcome::Ok });
            } else if shadow.again > now {
                while let Some(place) = self.clients.pop(now) {
                    self.come(shadow, place);
                }
            }
            shadow.drain();
            for (place, times) in shadow.replayed.iter_mut().flat_map(std::mem::take) {
                steps = 0;
                let Some(place) = (place as usize).checked_sub(self.first_place) else { continue };
                let ended = self.began + now.since(self.since);
                self.replayed[place] = times.map(|times| Replayed { ended, times });
                self.clients.ended(now, self.recorded[place].submit.task);
            }
        }
        true
    }

    /// A request comes.
    fn come(&mut self, shadow: &mut Shadow, place: usize) {
        let one = &self.recorded[place];
        let item = match (one.kind, one.submit.op) {
            (RecordedKind::Buffered, _) => Item::Write(one.submit, one.space),
            (_, Op::Flush) => Item::Flush(one.submit, one.cover),
            _ => Item::Request(one.submit, one.space),
        };
        let number = u32::try_from(self.first_place + place).unwrap_or(u32::MAX);
        let ended = Ended { times: one.times, served: self.served[place], place: number };
        // There is no bound on its task here: that is its line's.
        if !shadow.arrive(item, u32::MAX, Some(ended)) {
            self.clients.ended(shadow.now, one.submit.task);
        }
    }
}
