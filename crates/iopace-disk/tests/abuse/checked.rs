//! The policy `rate`, with a look at every pause that it gives.

use iopace_core::group::table::Groups;
use iopace_core::pace::rate::Rate;
use iopace_core::pace::{self, Budget, Dirty, Grant, Pace, PacePicture, Total, Write};
use iopace_core::request::{GroupId, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::verdict::Reason;

/// The longest pause for the rate that it promises (MAX_PAUSE of Linux).
const PAUSE_MAX: Nanos = Nanos::from_millis(200);

/// `policy`, or in place of `rate` one that panics at a longer pause.
pub fn checked(policy: &'static pace::PacePolicy) -> &'static pace::PacePolicy {
    if policy.name == "rate" { &POLICY } else { policy }
}

static POLICY: pace::PacePolicy = pace::PacePolicy {
    name: "rate",
    summary: "rate, looked at",
    build: || Box::new(Checked { rate: Rate::default(), now: Instant::ZERO }),
};

#[derive(Debug)]
struct Checked {
    rate: Rate,
    /// The latest instant: the policy's time does not go back.
    now: Instant,
}

impl Pace for Checked {
    fn ask(&mut self, now: Instant, write: &Write, dirty: &Dirty, groups: &Groups) -> Grant {
        self.now = self.now.max(now);
        let grant = self.rate.ask(now, write, dirty, groups);
        // A limit of a group is another reason, and may be as slow as it was set.
        if let Grant::Wait(until, Reason::Dirty) = grant {
            let pause = until.since(self.now);
            assert!(pause <= PAUSE_MAX, "a pause of {pause:?} for {write:?} with {dirty:?}");
        }
        grant
    }

    fn gave_up(&mut self, task: TaskId) {
        self.rate.gave_up(task);
    }

    fn dirtied(&mut self, now: Instant, group: GroupId, size: Bytes) {
        self.now = self.now.max(now);
        self.rate.dirtied(now, group, size);
    }

    fn cleaned(
        &mut self,
        now: Instant,
        group: GroupId,
        size: Bytes,
        dirty: &Dirty,
        groups: &Groups,
    ) {
        self.now = self.now.max(now);
        self.rate.cleaned(now, group, size, dirty, groups);
    }

    fn holds_limits(&self) -> bool {
        self.rate.holds_limits()
    }

    fn admitted(&mut self, now: Instant, group: GroupId, total: Total) {
        self.now = self.now.max(now);
        self.rate.admitted(now, group, total);
    }

    fn spares_frames(&self) -> bool {
        self.rate.spares_frames()
    }

    fn set_budget(&mut self, now: Instant, budget: &Budget) {
        self.rate.set_budget(now, budget);
    }

    fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        self.now = self.now.max(now);
        self.rate.set_group(now, id, groups);
    }

    fn remove_group(&mut self, id: GroupId) {
        self.rate.remove_group(id);
    }

    fn picture(&self, dirty: &Dirty) -> PacePicture {
        self.rate.picture(dirty)
    }

    fn group_picture(&self, id: GroupId, dirty: &Dirty) -> Option<PacePicture> {
        self.rate.group_picture(id, dirty)
    }
}
