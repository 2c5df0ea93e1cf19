//! The list of pacing policies: one line each.

use super::{Pace, counting, none, rate, threshold};
use core::fmt;

/// One pacing policy.
pub struct Policy {
    /// The word for it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Makes one that knows of no budget and no group yet.
    pub build: fn() -> Box<dyn Pace>,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({})", self.name)
    }
}

/// All policies, the simplest first.
pub static REGISTRY: &[&Policy] =
    &[&none::POLICY, &counting::POLICY, &threshold::POLICY, &rate::POLICY];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static Policy> {
    REGISTRY.iter().find(|policy| policy.name == name).copied()
}

#[cfg(test)]
mod tests;
