//! Limits and weights for the sum of several hosts, by a store that none of them has to be able to
//! reach.
//!
//! # Weights
//! A few times a second each host
//! 1. makes a record of what its engine has counted ([`DemandMeter::look`]) and publishes it, if a
//!    look is due or it is news ([`HostRecord::is_news`]);
//! 2. reads the records of all hosts and computes its part ([`own_part`]);
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
    ClusterGroup, DemandMeter, GroupDemand, GroupUse, HostGroup, HostRecord, NEWS_LEAST,
    RequestCost, cost,
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
    /// This part of it, in thousandths, is static.
    pub static_permille: u16,
    /// So many hosts share the static part.
    pub hosts_max: u32,
}

impl Terms {
    /// The part that each host may use at any time.
    pub fn static_part(&self) -> Allowance {
        let all = scaled(self.limit.0, self.static_permille.min(1_000).into(), 1_000);
        Allowance(all / u64::from(self.hosts_max.max(1)))
    }

    /// The most that all grants may add up to.
    pub fn grantable(&self) -> Allowance {
        Allowance(self.limit.0 - self.static_part().0 * u64::from(self.hosts_max.max(1)))
    }
}

#[cfg(test)]
mod tests;
