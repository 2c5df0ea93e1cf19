//! The rows of the cost of a write and of shorter pauses. How often stage pace is asked for a write
//! is counted, not timed, so that it is the same on every machine.
//!
//! A decision takes the same work with any number of tasks (no list of them is walked; `make bench`
//! has its time). So the cost of a write is the number of its decisions: one if it passes, and one
//! more for each pause before it.

use super::measure::p99_ms;
use super::setups::{HDD, SSD, Setup, SetupOutcome, tasks, thresholds};
use crate::milli::Milli;
use crate::run::run_traced as run;
use crate::task::TaskKind;
use iopace_core::group::table::Groups;
use iopace_core::pace::rate::Rate;
use iopace_core::pace::{Budget, Dirty, Grant, Pace, PacePicture, PacePolicy, Total, Write};
use iopace_core::request::{GroupId, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::cell::Cell;
use std::num::NonZeroU64;

/// From then on decisions are counted: memory is full and rates are settled.
const BEGIN: Instant = Instant(1_500_000_000);

thread_local! {
    /// Decisions, and those that let a portion pass.
    static COUNTS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// `rate`, and each of its decisions is counted.
static POLICY: PacePolicy = PacePolicy {
    name: "rate",
    summary: "rate, with its decisions counted",
    build: || Box::new(Counted(Rate::default())),
};

/// The result of `act`, with the decisions and passed portions of its run, which is one thread.
fn counted<T>(act: impl FnOnce() -> T) -> (T, u64, u64) {
    COUNTS.set((0, 0));
    let made = act();
    let (asked, passed) = COUNTS.get();
    (made, asked, passed)
}

impl Setup {
    /// A thousand and ten thousand dd of 4 KiB a write on a flash disk, and a thousand on one with
    /// a head, 2 GiB: decisions of stage pace for each write, over those of one dd. The old scheme
    /// has no such count.
    pub(super) fn write_cost(&self) -> SetupOutcome {
        if self.variant == 0 {
            return Vec::new();
        }
        let decisions = |disk: &str, count: u64| {
            let mut all = tasks(TaskKind::DdWrite, count, 0, 65_536 / count);
            all.iter_mut().for_each(|task| task.block = Bytes::from_kib(4));
            let mut scenario = self.scenario(disk, thresholds(2), 4, all);
            scenario.pace = &POLICY;
            let (_, asked, passed) = counted(|| run(&scenario, None));
            Milli::ratio(u128::from(asked), u128::from(passed)).unwrap_or_default()
        };
        let [flash, head] = [SSD, HDD].map(|disk| decisions(disk, 1));
        let cost = |disk, count, one| decisions(disk, count).over(one).unwrap_or_default();
        vec![
            ("cost_1000", cost(SSD, 1_000, flash)),
            ("cost_10000", cost(SSD, 10_000, flash)),
            ("cost_1000_hdd", cost(HDD, 1_000, head)),
        ]
    }

    /// 10 dd on one disk, 4 GiB, and pauses are to be 5 ms.
    pub(super) fn pause_5ms(&self) -> SetupOutcome {
        if self.variant == 0 {
            return Vec::new();
        }
        let mut scenario =
            self.scenario(HDD, thresholds(4), 30, tasks(TaskKind::DdWrite, 10, 0, 4_096));
        scenario.pause_target = Nanos::from_millis(5);
        let (_, trace) = run(&scenario, None);
        vec![("pause_p99_ms", p99_ms(&trace.portion_pauses))]
    }
}

#[derive(Debug)]
struct Counted(Rate);

impl Pace for Counted {
    fn ask(&mut self, now: Instant, write: &Write, dirty: &Dirty, groups: &Groups) -> Grant {
        let grant = self.0.ask(now, write, dirty, groups);
        if now >= BEGIN {
            let (asked, passed) = COUNTS.get();
            COUNTS.set((asked + 1, passed + u64::from(matches!(grant, Grant::Pass(_)))));
        }
        grant
    }

    fn holds_limits(&self) -> bool {
        self.0.holds_limits()
    }

    fn holds_caps(&self) -> bool {
        self.0.holds_caps()
    }

    fn set_cap(&mut self, now: Instant, task: TaskId, rate: Option<NonZeroU64>) {
        self.0.set_cap(now, task, rate);
    }

    fn admitted(&mut self, now: Instant, group: GroupId, total: Total) {
        self.0.admitted(now, group, total);
    }

    fn gave_up(&mut self, task: TaskId) {
        self.0.gave_up(task);
    }

    fn dirtied(&mut self, now: Instant, group: GroupId, size: Bytes) {
        self.0.dirtied(now, group, size);
    }

    fn cleaned(
        &mut self,
        now: Instant,
        group: GroupId,
        size: Bytes,
        dirty: &Dirty,
        groups: &Groups,
    ) {
        self.0.cleaned(now, group, size, dirty, groups);
    }

    fn turn(&self, waiting_count: usize) -> Option<Bytes> {
        self.0.turn(waiting_count)
    }

    fn spares_frames(&self) -> bool {
        self.0.spares_frames()
    }

    fn set_budget(&mut self, now: Instant, budget: &Budget) {
        self.0.set_budget(now, budget);
    }

    fn set_pause_target(&mut self, pause: Nanos) {
        self.0.set_pause_target(pause);
    }

    fn pause_target(&self) -> Option<Nanos> {
        self.0.pause_target()
    }

    fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        self.0.set_group(now, id, groups);
    }

    fn remove_group(&mut self, id: GroupId) {
        self.0.remove_group(id);
    }

    fn picture(&self, dirty: &Dirty) -> PacePicture {
        self.0.picture(dirty)
    }

    fn group_picture(&self, id: GroupId, dirty: &Dirty) -> Option<PacePicture> {
        self.0.group_picture(id, dirty)
    }
}
