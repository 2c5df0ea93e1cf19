//! Several hosts, one volume: what is set for a group holds for the sum over all of them.
//!
//! ```text
//!   this host                                   etcd                        other hosts
//!   agent ── session, wishes, grants ─────────► leases and transactions ◄── the same
//!     │  member.rs   (Holder of iopace-core: the policy)
//!     ▼
//!   groups/cluster.rs ─► engines: io.max with an end (group/rates.rs of iopace-core)
//! ```
//! No host coordinates: each computes everybody's share from the same view by the same function of
//! [`iopace_core::cluster`], and the store holds what it may have. A thread of its own asks the
//! store; nothing that serves a request ever waits for it.

mod agent;
mod etcd;
mod guaranteed;
mod kept;
mod member;
mod news;
mod questions;
mod records;
mod setting;
mod standing;
mod store;
#[cfg(test)]
mod tests;
mod view;
mod volume;
mod weighing;
mod wishes;

pub use agent::{Cluster, ClusterError};
