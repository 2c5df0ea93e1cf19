//! What has ended on a device within some seconds, and its replay under other settings.
//!
//! # Model
//! ```text
//!  live engine ──► what has ended, with its instants ──► Recording   (some seconds, then copied)
//!  Recording ──► arrivals and ends in order of time ──► Shadow with a plan ──► times of each
//! ```
//! The live engine only appends to a list, and only while somebody asks. The replay is done later
//! and elsewhere: a [`Shadow`] is told of the same arrivals and ends as if it had been beside the
//! live engine, once for each plan. All that it says of its virtual disk holds here, with two
//! differences: what write-back and flushes take is known from the beginning, and each flush is
//! served as it was live and compared.
//!
//! A disk that had many requests all the time never showed how long it takes for one. So a replay
//! is of one of two disks ([`Disk`]), and the truth is between them: the shortest time that such a
//! request took beside the others is a bound from above of what it takes alone, and that the disk
//! works on one after the other is a bound from below.
//!
//! # Limits
//! A request that had not ended is not in it, and nothing is known of what was dirty before. What a
//! scheduler or a window learns, it learns anew within these seconds. Voided extents are left out.

use super::{Ended, PANICKED, Plan, Served, Shadow};
use crate::engine::Engine;
use crate::group::Settings;
use crate::group::table::Groups;
use crate::request::{Cover, GroupId, Op, StageTimes, Submit, Tag};
use crate::shadow::line::Item;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use std::collections::BTreeMap;

/// Steps of a replay between two ends of live requests: a bound on hanging only.
const STEPS_MAX: usize = 1 << 16;

/// Time that a replay goes on after the last live request, for what waits in it.
const AFTERWARDS: Nanos = Nanos::from_secs(60);

/// What the virtual disk of a replay is taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disk {
    /// A request takes at least the shortest time that one of its kind and size was seen to take.
    #[default]
    AsSeen,
    /// It works on one request after the other, whatever they took beside others.
    Serial,
}

/// What has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request of a task.
    Request,
    /// A buffered write, which is in memory.
    Buffered,
    /// A flush.
    Flush,
    /// Write-back of dirty memory.
    WriteBack,
}

/// One that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// What it was.
    pub kind: Kind,
    /// What was asked for; of write-back, what was written.
    pub submit: Submit,
    /// When it came; a flush, before the write-back that it waited for.
    pub arrived: Instant,
    /// When it was given to the disk.
    pub started: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Where its time went.
    pub times: StageTimes,
    /// How long a flush waited for write-back: a part of its time at the disk.
    pub written: Nanos,
    /// How many the disk had when it started, with itself; 0: it was not there.
    pub beside: u32,
    /// What a flush covers; of a buffered write, what it dirtied.
    pub cover: Cover,
}

impl Recorded {
    /// Whether it was at the disk: not a buffered write, nor what moves nothing.
    pub fn was_at_disk(&self) -> bool {
        let has_bytes = self.submit.extent.len() > Bytes::ZERO;
        self.kind != Kind::Buffered && (has_bytes || self.kind == Kind::Flush)
    }

    /// How long the disk had it.
    pub fn took(&self) -> Nanos {
        if self.was_at_disk() { self.ended.since(self.started) } else { Nanos::ZERO }
    }
}

/// What has ended since somebody wants to know.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Since when.
    pub began: Instant,
    most_count: usize,
    /// In order of their ends.
    pub ended: Vec<Recorded>,
    /// So many more have ended for which there was no room.
    pub left_out_count: u64,
    /// What flushes that have not ended cover.
    flushes: BTreeMap<Tag, Cover>,
}

impl Recording {
    pub(crate) fn new(began: Instant, most_count: usize) -> Recording {
        let (ended, flushes) = (Vec::with_capacity(most_count), BTreeMap::new());
        Recording { began, most_count, ended, left_out_count: 0, flushes }
    }

    /// A flush comes.
    pub(crate) fn flush_comes(&mut self, tag: Tag, cover: Cover) {
        if self.flushes.len() < self.most_count {
            self.flushes.insert(tag, cover);
        }
    }

    /// One has ended.
    pub(crate) fn add(&mut self, mut one: Recorded) {
        if one.kind == Kind::Flush {
            one.cover = self.flushes.remove(&one.submit.tag).unwrap_or_default();
        }
        if self.ended.len() < self.most_count {
            self.ended.push(one);
        } else {
            self.left_out_count += 1;
        }
    }
}

/// A shadow with a plan that has met nothing yet.
#[derive(Debug)]
pub struct Replay {
    began: Instant,
    shadow: Shadow,
}

/// What comes next in a replay; of the same instant, ends before arrivals, but no end before its
/// own arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ended,
    Arrived,
    EndedAtOnce,
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

    /// Meets all that was recorded, with such a disk: by place in the recording, where the time of
    /// a request would have gone; none for what would not have been served, or not asked for, by
    /// then. Nothing is said of write-back.
    ///
    /// # Errors
    /// Why a policy failed.
    pub fn run(
        mut self,
        recorded: &[Recorded],
        disk: Disk,
    ) -> Result<Vec<Option<StageTimes>>, &'static str> {
        let shadow = &mut self.shadow;
        for one in recorded {
            served(shadow, one);
        }
        shadow.measured.again(self.began);
        let mut steps = Vec::with_capacity(recorded.len() * 2);
        for (place, one) in recorded.iter().enumerate() {
            let end = if one.arrived < one.ended { Step::Ended } else { Step::EndedAtOnce };
            steps.push((one.arrived, Step::Arrived, place));
            steps.push((one.ended, end, place));
        }
        steps.sort_unstable();
        let mut numbers = vec![0; recorded.len()];
        for (at, step, place) in steps {
            let one = &recorded[place];
            match step {
                Step::Arrived => numbers[place] = arrive(shadow, at, one),
                Step::Ended | Step::EndedAtOnce => {
                    let mut served = served(shadow, one);
                    if disk == Disk::Serial {
                        served.least = Nanos::ZERO;
                    }
                    let place_u32 = u32::try_from(place).unwrap_or(u32::MAX);
                    let ended = Ended { times: one.times, served, place: place_u32 };
                    shadow.ended(numbers[place], &one.submit, ended);
                    go_on(shadow, at);
                }
            }
        }
        let last = recorded.last().map_or(self.began, |last| last.ended);
        go_on(shadow, last + AFTERWARDS);
        if let Some(why) = shadow.failed {
            return Err(why);
        }
        let mut times = vec![None; recorded.len()];
        for (place, is) in shadow.replayed.take().unwrap_or_default() {
            times[place as usize] = Some(is);
        }
        Ok(times)
    }
}

/// How the disk served it, as it is known when it ends.
fn served(shadow: &mut Shadow, one: &Recorded) -> Served {
    if !one.was_at_disk() {
        return Served::default();
    }
    let what = (one.submit.op, one.submit.extent.len());
    let is_write_back = one.kind == Kind::WriteBack;
    let mut served = shadow.measured.done(one.ended, one.started, what, is_write_back);
    served.beside = one.beside;
    served
}

/// A live one comes; its number.
fn arrive(shadow: &mut Shadow, at: Instant, one: &Recorded) -> u64 {
    match (one.kind, one.submit.op) {
        (Kind::WriteBack, _) => 0,
        (Kind::Buffered, _) => {
            let Cover::Piece(area) = one.cover else { return 0 };
            shadow.dirtied(at, one.submit, area.space)
        }
        (_, Op::Flush) => shadow.line.push(at, Item::Sync(one.submit, one.cover), 0),
        _ => shadow.arrived(at, one.submit),
    }
}

/// All that happens by then.
fn go_on(shadow: &mut Shadow, now: Instant) {
    let mut is_stuck = true;
    shadow.fenced(|shadow| {
        for _ in 0..STEPS_MAX {
            if shadow.engine.is_none() || !shadow.step(now) {
                is_stuck = false;
                return;
            }
        }
    });
    if is_stuck && shadow.failed.is_none() {
        shadow.fail(PANICKED);
    }
}
