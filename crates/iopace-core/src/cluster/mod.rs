//! Limits and weights for the sum of several hosts, by a store that none of them has to be able to
//! reach.
//!
//! # Weights
//! A few times a second each host
//! 1. makes a record of what its engine has counted ([`DemandMeter::look`]), reads the records of
//!    all hosts, and publishes its own, if it is news ([`HostRecord::is_news`]);
//! 2. computes its part from the records of all ([`own_part`]);
//! 3. tells its engine the share ([`crate::engine::Control::HostShare`]) and its scheduler the
//!    weights ([`crate::engine::Control::SetGroup`]).
//!
//! A host that cannot read the records goes on alone: its window follows the latency of the device
//! with the share that it was told last (`window/latency`).
//!
//! # Limits of a group: model
//! Hosts share a volume, and a group has one limit for all of them together. A *store* (etcd) has
//! one record for each host: its *grant*, how much of the limit it may use. It belongs to a
//! *session* of the host, a lease of the store: the store removes the record when the host has not
//! renewed the session for its length. What is not granted is *free*.
//! ```text
//!   limit  ├─ static part of each host ─┼─ grant of A ─┼─ grant of B ─┼── free ──┤
//!                                         removed by the store when A has not renewed its session
//! ```
//! - Everybody may use the *static part* at any time, whoever is reached: it is the same for each
//!   of [`Terms::hosts_max`] hosts, and no grant touches it.
//! - A host lowers its grant by itself: it uses less first, and tells the store then.
//! - A host raises its grant by a transaction that fails if any grant has changed since it last saw
//!   all of them; it uses more when the store has said yes, not before.
//! - A host uses its grant until its session ends *by its own clock*, counted from when it sent
//!   what renewed it, less a part for the drift of both clocks. It needs nobody to be told so.
//!
//! How much each host wants to have is a pure function of the demands of all ([`shares`]), so that
//! hosts that see the same want the same; what they have is bounded by the store in any case.
//!
//! # Properties
//! 1. Grants in use, with static parts, never add up to more than the limit: whatever is lost,
//!    delayed, repeated or cut off, and in whatever order, as long as no clock goes wrong by more
//!    than one in [`DRIFT_PART`].
//! 2. A host in the dark has its last grant until its session ends, then its static part.
//! 3. A host that is back has its share again within some looks at the store.
//! 4. A limit that is lowered holds from when all that have a session have seen it, or their
//!    sessions have ended: a length of a session at most, if it counts from the last look as well.
//!    Each has the same part of its grant left ([`Cut`]) before it asks the store for anything.
//!
//! # Limits
//! A clock that stands still or jumps back breaks property 1: time is that of a clock that counts
//! while the machine sleeps (`CLOCK_BOOTTIME`), which nobody sets. Requests that the disk has
//! already are not taken back, and each host has the burst of its own bucket: a second may see
//! both more.
//!
//! # Sources
//! Leases with clocks that drift: Gray and Cheriton, Leases, SOSP 1989. That each host computes the
//! shares of all from what all have published: Raghavan et al., Cloud Control with Distributed Rate
//! Limiting, SIGCOMM 2007. That lost writes are made to fail by another one: ours.

mod cells;
mod demand;
mod holder;
mod queue;
mod session;
mod share;
mod weights;

pub use cells::merged;
pub use demand::{
    ClusterGroup, DemandMeter, GroupDemand, GroupUse, HostGroup, HostRecord, NEWS_PART,
    RequestCost, cost, look_period,
};
pub use holder::{Answer, GrantRecord, GrantWrite, Holder, Question, SeenGrants};
pub use queue::{OwnPart, QueueTerms, own_part};
pub use session::{DRIFT_PART, Session};
pub use share::{Demand, shares};
pub use weights::OwnWeight;

use crate::units::scaled;

/// A change of the store has a number: each is larger than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// An amount that may be used in a second, in whatever a limit is counted: bytes or requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allowance(pub u64);

/// The number that the store has given a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// A limit as all hosts of a volume know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The limit of the sum.
    pub limit: Allowance,
    /// The static part of each host. Whoever is in the dark has that which he knew last, so it
    /// stays as it was when the limit is changed.
    pub each: Allowance,
    /// So many hosts have a static part.
    pub hosts_max: u32,
    /// The last time that the limit was lowered.
    pub cut: Cut,
    /// When it was set anew: one that was removed and set again is another limit.
    pub set: Revision,
}

/// A limit was lowered. What grants add up to was at most `of` before: each host has the same part
/// of its own left, and nobody has to know what the others have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// How often it was lowered since it was set. A host that has missed one has nothing left.
    pub lowered_count: u32,
    /// All grants together keep this.
    pub kept: Allowance,
    /// Of this.
    pub of: Allowance,
}

/// The static parts of all hosts are so many thousandths of a limit that is set anew: what nobody
/// wants of it cannot be given to others, and a host in the dark has no more than one of them.
pub const STATIC_PERMILLE: u64 = 50;

impl Terms {
    /// A limit that is set anew; `None` if it is too little for each host to have something, or
    /// one in the dark would hang.
    pub fn new(limit: Allowance, hosts_max: u32, set: Revision) -> Option<Terms> {
        let hosts_max = hosts_max.max(1);
        let each = scaled(limit.0, STATIC_PERMILLE, 1_000) / u64::from(hosts_max);
        let each = Allowance(each.max(1));
        let all = each.0.saturating_mul(hosts_max.into());
        (all <= limit.0).then_some(Terms { limit, each, hosts_max, cut: Cut::default(), set })
    }

    /// The same with another limit; `None` if the static parts alone are more.
    pub fn changed(&self, limit: Allowance) -> Option<Terms> {
        let all = self.each.0.saturating_mul(self.hosts_max.into());
        let mut changed = Terms { limit, ..*self };
        let (kept, of) = (changed.grantable(), self.grantable());
        if kept < of {
            let lowered_count = self.cut.lowered_count.wrapping_add(1);
            changed.cut = Cut { lowered_count, kept, of };
        }
        (all <= limit.0).then_some(changed)
    }

    /// The part that each host may use at any time.
    pub fn static_part(&self) -> Allowance {
        self.each
    }

    /// The most that all grants may add up to.
    pub fn grantable(&self) -> Allowance {
        Allowance(self.limit.0.saturating_sub(self.each.0.saturating_mul(self.hosts_max.into())))
    }
}

#[cfg(test)]
mod tests;
