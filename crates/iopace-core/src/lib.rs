//! The policy of iopace: how fast each task may dirty memory, whose request goes to the disk next,
//! and how many requests the disk holds.
//!
//! No I/O, no clock, no randomness, no threads, no logging, no floats in decisions, no
//! dependencies, no unsafe. The same code runs live in the daemon and in the simulator; see
//! [`engine`] for the contract and the loop that drives it.
//!
//! The modules stand in the order a request meets them.
#![forbid(unsafe_code)]

#[cfg(all(feature = "broken-limiter", not(debug_assertions)))]
compile_error!(
    "broken-limiter ignores limits: it is for one test (scripts/verify.sh), never released"
);

pub mod engine;

pub mod pace;

pub mod flush;

pub mod admit;

pub mod sched;

pub mod window;

pub mod group;

pub mod shadow;

pub mod goal;

pub mod cluster;

pub mod request;
pub mod verdict;

pub mod limits;
mod ordered;
pub mod registry;
pub mod stats;
pub mod table;
pub mod time;
pub mod trace;
pub mod units;
