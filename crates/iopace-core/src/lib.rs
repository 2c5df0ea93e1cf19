//! The policy of iopace. WIP: engine follows.
#![forbid(unsafe_code)]

pub mod limits;
pub mod request;
pub mod time;
pub mod units;
pub mod verdict;

pub mod sched;
