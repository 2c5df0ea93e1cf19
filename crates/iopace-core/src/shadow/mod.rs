//! What other settings would have done: a second engine that is told what the live one is told,
//! decides for itself, and delays nothing.
//!
//! # Model
//! ```text
//!  live engine: arrivals ──► line (in order of arrival) ──► engine of the shadow ──► virtual disk
//!               completions ──► what each took ──┘                  │
//!                                                     latency beside the live one ──► report
//! ```
//! A request stands in a line until the live one has ended, so what it took at the disk is known
//! before the shadow meets it: the shadow runs behind by the age of the oldest live request, in
//! time of its own. Its engine has the same stages, groups and memory as the live one but for what
//! the [`Plan`] and the groups in recommend mode say. What it starts is served by a virtual disk
//! that takes as long as the live one did for a request with as many beside it, and else one after
//! the other, each for as long as the live disk was busy with it alone. Write-back is the shadow's
//! own; it takes what live write-back of its size takes on average.
//!
//! A task waits for its answers before it asks for more. So a task never has more requests in the
//! shadow than it had live when the request came ([`Clients::Closed`]); what comes while it still
//! waits in the shadow is not followed: the task would have asked later. With [`Clients::Open`]
//! every request is followed, whatever its task still waits for.
//!
//! # Properties
//! 1. The live engine says the same at the same instants with a shadow and without.
//! 2. A shadow with the settings of the live engine delays nothing.
//! 3. A limit is told with the delay that it gives when it is live.
//! 4. A task that waits for its answers is not delayed by more than its own requests, however long
//!    the limit is below what it asks for live.
//! 5. A policy that fails ends the shadow, and nothing else.
//! 6. Memory is bounded, whatever the live requests do.
//!
//! # When it does not know
//! - A live request that does not end holds up the line; when the line is full it is left out
//!   (`missed_count`).
//! - Write-back and flushes take what such requests took lately; before the first one, what a
//!   request of any kind took, and before any request 1 ns per byte.
//! - With many groups it takes some time to know them all; what comes meanwhile is left out.
//! - A disk that never had two requests at once may serve several at once or not: it is taken for
//!   one that cannot, so delays are upper bounds.
//!
//! # Limits
//! The virtual disk takes for a request what it took in the order of the live scheduler. Another
//! order costs other seeks: who would wait for whom is told, what the disk would gain by it is not.
//! A task that would be served sooner does not come sooner; one that is served later comes with the
//! next live request, so its latency is short of the true one by at most the time from one of its
//! live requests to the next (its rate is not). Requests that the shadow has not served
//! yet are in no histogram (`waiting_count`). Flushes take their time there and are not compared.
//! Its engine merges nothing ([`crate::engine::Start::more`]), also if the live one does.
//! At [`OPEN_REQUESTS_MAX`] requests in the shadow further ones are left out.
//!
//! # Sources
//! Replay with the dependencies of the traced program: Weiss, Harter, Arpaci-Dusseau and
//! Arpaci-Dusseau, "ROOT: Replaying Multithreaded Traces with Resource-Oriented Ordering" (2013).
//! Open and closed loops differ so much that neither may stand for the other: Schroeder, Wierman
//! and Harchol-Balter, "Open Versus Closed: A Cautionary Tale" (2006). The virtual disk is the
//! single server of Lindley, "The theory of queues with a single server" (1952).

use crate::engine::{Control, Engine};
use crate::group::Settings;
use crate::group::table::Groups;
use crate::limits::SHADOW_GROUPS_STEP;
use crate::pace;
use crate::request::{GroupId, StageTimes, Submit, Tag, TaskId};
use crate::sched::{Algorithm, Params};
use crate::time::Instant;
use crate::window;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

mod closed_loop;
pub(crate) mod disk;
mod follow;
mod line;
mod recording;
mod replay;
mod report;
#[cfg(test)]
mod tests;

pub use crate::limits::SHADOW_OPEN_MAX as OPEN_REQUESTS_MAX;
pub use closed_loop::{Asked, ClosedLoop};
pub(crate) use disk::Served;
use disk::{Measured, VirtualDisk};
use follow::Followed;
use line::ShadowLine;
pub(crate) use line::{Ended, Item};
pub use recording::{EndedKind as RecordedKind, Recorded, Recording};
pub use replay::{Disk as ReplayDisk, Replay, Replayed};
pub use report::{GroupReport, Report};

/// What clients do while they wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// They ask for more when they have their answers, as programs do.
    #[default]
    Closed,
    /// They ask whatever they wait for: many independent clients behind one task.
    Open,
}

/// Which settings of a device are tried; `None` is as the live engine.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The scheduler, with its parameters.
    pub scheduler: Option<(&'static Algorithm, Params)>,
    /// The policy of stage pace.
    pub pace: Option<&'static pace::PacePolicy>,
    /// The policy of stage window.
    pub window: Option<&'static window::WindowPolicy>,
    /// Most requests at the disk.
    pub window_depth: Option<u32>,
    /// Slots of the device.
    pub nr_requests: Option<u32>,
    /// What clients do while they wait.
    pub clients: Clients,
}

impl Plan {
    /// Whether all is as live.
    pub fn is_empty(&self) -> bool {
        let is_sched = self.scheduler.is_some() || self.nr_requests.is_some();
        let is_window = self.window.is_some() || self.window_depth.is_some();
        !is_sched && !is_window && self.pace.is_none()
    }
}

/// A shadow as it stands, to be looked at.
#[derive(Debug)]
pub struct View<'a> {
    /// What is tried.
    pub plan: &'a Plan,
    /// What is tried for groups.
    pub groups: &'a BTreeMap<GroupId, Settings>,
    /// What it would have done.
    pub report: &'a Report,
    /// Since when.
    pub since: Instant,
    /// Requests that wait in the shadow.
    pub waiting_count: usize,
    /// Why it has ended, if it has.
    pub failed: Option<&'static str>,
}

/// The requests of a task: live, and in the shadow.
#[derive(Clone, Copy, Debug, Default)]
struct ShadowDepth {
    live: u32,
    shadow: u32,
}

/// Why it has ended.
pub(crate) const PANICKED: &str = "panicked";

/// A shadow of an engine; at first without one.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    pub(crate) plan: Plan,
    /// Settings that differ from the live ones.
    pub(crate) groups: BTreeMap<GroupId, Settings>,
    /// Its policy; `None` when it has failed.
    engine: Option<Box<Engine>>,
    /// The live groups from this number on are not known to it yet, and nothing is followed.
    unknown_from: Option<u32>,
    /// Requests with smaller numbers are none of its own.
    own_from: u64,
    failed: Option<&'static str>,
    since: Instant,
    now: Instant,
    /// When its engine wants to be asked again.
    again: Instant,
    line: ShadowLine,
    depths: BTreeMap<TaskId, ShadowDepth>,
    /// By its tag there: the number of the request among those that it has met.
    followed: BTreeMap<Tag, Followed>,
    followed_count: u64,
    /// Flushes among them.
    flushes_count: usize,
    pub(crate) measured: Measured,
    disk: VirtualDisk,
    report: Report,
    /// In a replay: the places of requests that have ended, and where the time of each went; none
    /// for one that was refused.
    replayed: Option<Vec<(u32, Option<StageTimes>)>>,
}

impl Shadow {
    /// One whose first request is to have that number: they are never given again, as the live ones
    /// may end when there is another shadow.
    pub(crate) fn from(first: u64) -> Shadow {
        let (again, line) = (Instant::NEVER, ShadowLine::from(first));
        Shadow { own_from: first, again, line, ..Shadow::default() }
    }

    /// The number of the next request that is followed.
    pub(crate) fn next_number(&self) -> u64 {
        self.line.next_number()
    }

    /// Goes on with another engine at rest, which knows no groups: what waits in the present one is
    /// left out.
    pub(crate) fn restart(&mut self, now: Instant, engine: Result<Engine, &'static str>) {
        self.failed = engine.as_ref().err().copied();
        self.engine = engine.ok().map(Box::new);
        self.unknown_from = self.engine.is_some().then_some(0);
        (self.now, self.again) = (now, Instant::NEVER);
        self.report.missed_count += self.waiting_count() as u64 + self.line.clear();
        self.disk = VirtualDisk::default();
        (self.followed, self.flushes_count) = (BTreeMap::new(), 0);
        self.depths.values_mut().for_each(|depth| depth.shadow = 0);
        self.depths.retain(|_, depth| depth.live > 0);
    }

    /// Forgets what it has found: something else is tried from now on.
    pub(crate) fn reset(&mut self, now: Instant) {
        (self.since, self.report) = (now, Report::default());
    }

    /// As it stands.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            plan: &self.plan,
            groups: &self.groups,
            report: &self.report,
            since: self.since,
            waiting_count: self.waiting_count(),
            failed: self.failed,
        }
    }

    fn waiting_count(&self) -> usize {
        self.followed.len()
    }

    // What the live engine tells.

    /// Something comes live. The number of a request or buffered write is to be given back when it
    /// has ended; 0: it is not followed.
    pub(crate) fn comes(&mut self, now: Instant, item: Item) -> u64 {
        if self.engine.is_none() {
            return 0;
        }
        if self.is_learning() {
            self.report.missed_count += u64::from(!matches!(item, Item::Void(_)));
            return 0;
        }
        let mut live = 0;
        if let Item::Request(Submit { task, .. }, _) | Item::Write(Submit { task, .. }, _) = item {
            let depth = self.depths.entry(task).or_default();
            depth.live += 1;
            live = depth.live;
        }
        self.line.push(now, item, live)
    }

    /// A live request or buffered write has ended.
    pub(crate) fn ended(&mut self, number: u64, submit: &Submit, ended: Ended) {
        if number < self.own_from {
            return;
        }
        self.report.live(submit.group, submit.extent.len());
        self.line.ended(number, ended);
        if let Some(depth) = self.depths.get_mut(&submit.task) {
            depth.live = depth.live.saturating_sub(1);
            self.forget_if_gone(submit.task);
        }
    }

    /// A change of the live device that holds for the shadow too, at once.
    pub(crate) fn control(&mut self, control: Control) {
        let now = self.now;
        self.fenced(|shadow| {
            // Memory and groups can always be set.
            let _ = shadow.engine_mut().control(now, control);
            shadow.drain();
        });
    }

    /// A group is gone, live. Whether nothing is tried any more.
    pub(crate) fn removed(&mut self, id: GroupId) -> bool {
        let was_tried = self.groups.remove(&id).is_some();
        self.report.forget(id);
        self.control(Control::RemoveGroup(id));
        was_tried && self.is_empty()
    }

    /// Whether nothing is tried.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.plan.is_empty()
    }

    /// Whether its engine still has requests of a group that was removed.
    pub(crate) fn has_dead(&self, id: GroupId) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.groups().is_dying(id))
    }

    // The live groups: its engine has to know them before it follows anything.

    /// Whether there are groups that it has not been told of.
    pub(crate) fn is_learning(&self) -> bool {
        self.unknown_from.is_some()
    }

    /// Tells its engine, which is at rest, of the next few groups.
    pub(crate) fn learn_on(&mut self, now: Instant, live: &Groups) {
        let Some(first) = self.unknown_from else { return };
        let end = first.saturating_add(SHADOW_GROUPS_STEP).min(live.end().max(1));
        (first..end).for_each(|id| self.learn(now, live, GroupId(id), false));
        self.unknown_from = Some(end).filter(|end| *end < live.end() && self.engine.is_some());
    }

    /// Tells its engine, which is at rest, of a live group, if it knows it and `anew` or does not,
    /// and of those above it, if it does not know them.
    pub(crate) fn learn(&mut self, now: Instant, live: &Groups, id: GroupId, anew: bool) {
        self.now = self.now.max(now);
        let now = self.now;
        self.fenced(|shadow| {
            let is_known = |id| shadow.engine.as_ref().is_some_and(|it| !it.is_group_forgotten(id));
            let above = live.up(id).filter(|above| *above != id && !is_known(*above));
            let mut all: Vec<GroupId> = above.collect();
            if anew || id == GroupId::ROOT || !is_known(id) {
                all.insert(0, id);
            }
            for id in all.into_iter().rev() {
                if !live.knows(id) {
                    continue;
                }
                let settings = *shadow.groups.get(&id).unwrap_or(live.settings(id));
                let told = Control::SetGroup(id, live.parent(id), settings);
                if let Err(why) = shadow.engine_mut().settle(now, told) {
                    return shadow.fail(why);
                }
            }
        });
    }

    // What goes wrong here stays here.

    fn engine_mut(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it has not failed")
    }

    /// Ends it. Its engine may be broken: it is leaked, as dropping it could panic again.
    fn fail(&mut self, why: &'static str) {
        std::mem::forget(self.engine.take());
        self.failed = Some(why);
        self.line.clear();
        // What is under way is forgotten with its depths.
        self.own_from = self.line.next_number();
        self.depths = BTreeMap::new();
        (self.followed, self.flushes_count) = (BTreeMap::new(), 0);
    }

    fn fenced(&mut self, work: impl FnOnce(&mut Shadow)) {
        if self.engine.is_none() {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.fail(PANICKED);
        }
    }
}
