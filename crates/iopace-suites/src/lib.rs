//! The suites that a scheduler is held to, as functions of an [`Algorithm`].
//!
//! The tests of this crate put every scheduler of the registry through them, `iopace policy test`
//! one that was loaded. A suite panics over nothing that a scheduler does: its [`Outcome`] says
//! which run failed and how.
//!
//! - [`conformance`]: random histories in a whole engine ([`world`]), also in [`chaos`].
//! - [`starvation`]: one request beside a stream that never ends.
//! - [`division`]: the disk's time between two groups.
//! - [`cost`]: what a request costs, which is measured and has no bound here.
//! - [`hosts`]: random histories of hosts that share a limit; no suite of a scheduler.
#![forbid(unsafe_code)]

pub mod chaos;
pub mod conformance;
pub mod cost;
pub mod division;
pub mod hosts;
pub mod outcome;
pub mod random;
pub mod starvation;
pub mod world;

mod bare;

use iopace_core::sched::Algorithm;
pub use outcome::{Outcome, Progress};

/// One suite.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// The word for it.
    pub name: &'static str,
    /// The law that it holds a scheduler to, in one sentence.
    pub law: &'static str,
    /// Carries it out.
    pub run: fn(&'static Algorithm, Progress<'_>) -> Outcome,
}

/// All suites.
pub static SUITES: [Suite; 3] = [
    Suite {
        name: "conformance",
        law: "every request ends once, whatever the disk does, and waits within the bound",
        run: conformance::run,
    },
    Suite {
        name: "starvation",
        law: "one request beside an endless stream waits within the bound",
        run: starvation::run,
    },
    Suite {
        name: "division",
        law: "groups get the disk's time by weight and class, or make no difference",
        run: division::run,
    },
];
