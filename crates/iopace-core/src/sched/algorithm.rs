//! The entry that the registry has of one scheduler.

use super::{ParamSpec, Params, Profile, Scheduler};
use core::fmt;

/// A counter of a scheduler, in words.
#[derive(Debug, PartialEq, Eq)]
pub struct CounterSpec {
    /// Its name.
    pub name: &'static str,
    /// The thing that it counts.
    pub doc: &'static str,
}

/// Makes a scheduler with these parameters: a function, or what a loaded policy brings.
pub type Build = &'static (dyn Fn(&Params) -> Box<dyn Scheduler> + Sync);

/// One exchangeable scheduler: its name, its parameters, and how to make one.
pub struct Algorithm {
    /// The word for it on the command line; also its file and docs page.
    pub name: &'static str,
    /// Its work in one sentence.
    pub summary: &'static str,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Its counters.
    pub counters: &'static [CounterSpec],
    /// Its promises.
    pub profile: Profile,
    /// Makes an empty one with these parameters.
    pub build: Build,
}

impl Algorithm {
    /// This algorithm's parameters at their defaults.
    pub fn defaults(&self) -> Params {
        Params::defaults(self.params)
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Algorithm({})", self.name)
    }
}
