//! Stage 1: may this task dirty more memory now?
//!
//! [`Pace`] is asked for every buffered write, at the door: before anything of it is in memory. A
//! large write is let in in portions, so that no single pause is long.
//!
//! A policy decides *when*. Two things it does not decide: the hard limit, which the engine holds
//! for every policy (what has passed here still waits until there is room), and what is written
//! back, which is the flusher's.

use crate::group::table::Groups;
use crate::limits::{PAUSE_TARGET_MAX, PAUSE_TARGET_MIN, TASK_CAP_MIN};
use crate::registry;
use crate::request::{GroupId, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, BytesPerSec};
use crate::verdict::Reason;
use core::fmt;
use core::num::NonZeroU64;

pub mod counting;
pub mod domain;
pub mod none;
pub mod rate;
pub mod threshold;

mod tasks;
#[cfg(test)]
mod tests;

pub use crate::group::rates::Total;
/// One pacing policy, which knows of no budget and no group yet.
pub type PacePolicy = registry::Policy<fn() -> Box<dyn Pace>>;

/// All policies, the simplest first.
pub static REGISTRY: &[&PacePolicy] =
    &[&none::POLICY, &counting::POLICY, &threshold::POLICY, &rate::POLICY];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static PacePolicy> {
    registry::find(REGISTRY, name)
}

/// A buffered write, or what is left of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Who writes.
    pub task: TaskId,
    /// Who pays.
    pub group: GroupId,
    /// What of it has passed.
    pub done: Bytes,
    /// What it still has to write; more than zero.
    pub size: Bytes,
    /// How much of that is clean now and would become dirty: at most a page more than `size` at
    /// either end, zero for a rewrite of what is dirty already.
    pub fresh: Bytes,
}

/// Dirty memory at this moment: dirty pages, pages on their way to the disk, and what writes that
/// have passed are about to dirty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// Of the device.
    pub device: Bytes,
    /// Of the group in question, without the groups below it.
    pub group: Bytes,
    /// The part of `device` that is on its way to the disk.
    pub write_back: Bytes,
}

/// How much may be dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Write-back begins above it.
    pub background: Bytes,
    /// Never more than this (`dirty_thresh` of the kernel, and its hard limit).
    pub limit: Bytes,
}

/// What a device may use of the memory that all devices share.
///
/// The budgets of all devices together never exceed the memory's limit, so that no device can use
/// up what another needs, and no device has to know of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Of this device.
    pub device: Thresholds,
    /// Of all devices together.
    pub all: Thresholds,
    /// Dirty memory of all the other devices together, as of the moment of this budget.
    pub dirty_elsewhere: Bytes,
    /// Bytes that the other devices have written since the beginning.
    pub written_elsewhere: Bytes,
}

impl Budget {
    /// Of a device that has so much memory for itself.
    pub fn alone(device: Thresholds) -> Budget {
        let nothing = Bytes::ZERO;
        Budget { device, all: device, dirty_elsewhere: nothing, written_elsewhere: nothing }
    }
}

/// Whether the policy may be told to aim at that pause.
///
/// # Errors
/// The pause is out of bounds, or the policy aims at none; and what would be right.
pub fn check_pause_target(policy: &PacePolicy, pause: Nanos) -> Result<(), String> {
    let bounds = (Nanos::from_millis(PAUSE_TARGET_MIN), Nanos::from_millis(PAUSE_TARGET_MAX));
    if !(bounds.0..=bounds.1).contains(&pause) {
        return Err(format!(
            "a pause target of {pause} is out of bounds: {PAUSE_TARGET_MIN} ms to \
             {PAUSE_TARGET_MAX} ms"
        ));
    }
    let aims = |policy: &PacePolicy| (policy.build)().pause_target().is_some();
    if !aims(policy) {
        let those = REGISTRY.iter().filter(|policy| aims(policy));
        let names: Vec<String> = those.map(|policy| format!("'{}'", policy.name)).collect();
        let name = policy.name;
        return Err(format!("pace policy '{name}' aims at no pause: {} does", names.join(", ")));
    }
    Ok(())
}

/// Whether a task may be capped at so many bytes per second under the policy.
///
/// # Errors
/// The rate is too low for any policy, or this policy holds no caps.
pub fn check_cap(policy: &PacePolicy, rate: NonZeroU64) -> Result<(), CapError> {
    if rate.get() < TASK_CAP_MIN {
        return Err(CapError::TooLow(rate));
    }
    if !holds_caps(policy) {
        return Err(CapError::NotHeld(policy.name));
    }
    Ok(())
}

/// Whether the policy holds caps of single tasks.
pub fn holds_caps(policy: &PacePolicy) -> bool {
    (policy.build)().holds_caps()
}

/// Why a task may not be capped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapError {
    /// So many bytes per second are fewer than [`TASK_CAP_MIN`], under whatever policy.
    TooLow(NonZeroU64),
    /// The policy of that name holds no caps.
    NotHeld(&'static str),
}

impl fmt::Display for CapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CapError::TooLow(rate) => write!(
                f,
                "a cap of {rate} bytes per second is too low: a page ({TASK_CAP_MIN} bytes) per \
                 second is the least"
            ),
            CapError::NotHeld(name) => {
                let those = REGISTRY.iter().filter(|policy| holds_caps(policy));
                let names: Vec<String> = those.map(|policy| format!("'{}'", policy.name)).collect();
                let names = names.join(", ");
                write!(f, "pace policy '{name}' holds no caps of tasks: {names} does")
            }
        }
    }
}

impl std::error::Error for CapError {}

/// The answer of [`Pace::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// So much of the write may go into memory now: more than zero, at most its size. It has been
    /// charged.
    Pass(Bytes),
    /// Ask again at the instant, for the same write. The place in line is kept.
    Wait(Instant, Reason),
}

/// How a policy sees a device, or a group on it: what is drawn and exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacePicture {
    /// Dirty memory.
    pub dirty: Bytes,
    /// Below it nobody is paced.
    pub freerun: Bytes,
    /// Where dirty memory is to settle.
    pub setpoint: Bytes,
    /// Where it ends.
    pub limit: Bytes,
    /// Bandwidth of write-back, averaged.
    pub write_bandwidth: BytesPerSec,
    /// Rate at which memory was dirtied in the last interval.
    pub dirty_rate: BytesPerSec,
    /// Base rate of one task (`dirty_ratelimit`).
    pub base_rate: BytesPerSec,
    /// Where the base rate is heading (`balanced_dirty_ratelimit`).
    pub balanced_rate: BytesPerSec,
    /// Base rate times position: what one task gets at this moment (`task_ratelimit`).
    pub task_rate: BytesPerSec,
    /// Position ratio in thousandths.
    pub position_permille: u32,
    /// The last pause that was given.
    pub pause: Nanos,
}

/// How fast tasks may dirty memory.
///
/// Writes of one task come one after the other: it is asked for the next one only when the one
/// before it has passed as a whole.
pub trait Pace: fmt::Debug + Send {
    /// May (some of) this write go into memory now?
    fn ask(&mut self, now: Instant, write: &Write, dirty: &Dirty, groups: &Groups) -> Grant;

    /// Whether it holds the limits of groups (`io.max`): what passes it is charged.
    fn holds_limits(&self) -> bool {
        false
    }

    /// Whether it holds caps of single tasks.
    fn holds_caps(&self) -> bool {
        false
    }

    /// A task dirties no more than so many bytes of clean memory per second from now on; `None`:
    /// as all others. Its write that waits is asked for anew.
    fn set_cap(&mut self, _now: Instant, _task: TaskId, _rate: Option<NonZeroU64>) {}

    /// A request has passed stage admit: what limits of reads and writes together of this group
    /// were charged for it counts beside what is dirtied. Each group above is told by itself.
    fn admitted(&mut self, _now: Instant, _group: GroupId, _total: Total) {}

    /// The task gave up its write, of which portions may have passed: what it asks for next is
    /// another one. (The engine says so when a portion could not be written into memory.)
    fn gave_up(&mut self, _task: TaskId) {}

    /// So many bytes that were clean are dirty now; a rewrite of dirty ones is not told.
    fn dirtied(&mut self, _now: Instant, _group: GroupId, _size: Bytes) {}

    /// So many bytes of a group's dirty memory have been written back (or are void).
    fn cleaned(
        &mut self,
        _now: Instant,
        _group: GroupId,
        _size: Bytes,
        _dirty: &Dirty,
        _groups: &Groups,
    ) {
    }

    /// The longest turn of one owner's pages in write-back while so many writes wait, if it is not
    /// to go by the measured bandwidth.
    fn turn(&self, _waiting_count: usize) -> Option<Bytes> {
        None
    }

    /// Whether readers are to keep their page frames: then less may be dirty while tasks wait for
    /// the disk, see [`crate::engine`]. Not asked of the baselines, whose failure that was.
    fn spares_frames(&self) -> bool {
        false
    }

    /// What the device may use from now on.
    fn set_budget(&mut self, _now: Instant, _budget: &Budget) {}

    /// The pause that a writer is to have at a time, where few write: [`PAUSE_TARGET_MIN`] to
    /// [`PAUSE_TARGET_MAX`] ms. Only `rate` aims at one.
    ///
    /// [`PAUSE_TARGET_MIN`]: crate::limits::PAUSE_TARGET_MIN
    /// [`PAUSE_TARGET_MAX`]: crate::limits::PAUSE_TARGET_MAX
    fn set_pause_target(&mut self, _pause: Nanos) {}

    /// That pause, if it aims at one.
    fn pause_target(&self) -> Option<Nanos> {
        None
    }

    /// The settings of a group have changed.
    fn set_group(&mut self, _now: Instant, _id: GroupId, _groups: &Groups) {}

    /// The group is gone, and has no dirty memory.
    fn remove_group(&mut self, _id: GroupId) {}

    /// How it sees the device, with `dirty` as it is now.
    fn picture(&self, _dirty: &Dirty) -> PacePicture {
        PacePicture::default()
    }

    /// How it sees a group; `None` if it has no view of groups or does not know this one.
    fn group_picture(&self, _id: GroupId, _dirty: &Dirty) -> Option<PacePicture> {
        None
    }
}
