//! The list of window policies: one line each.

use super::{Window, aimd, fixed, latency};
use core::fmt;

/// One window policy.
pub struct Policy {
    /// The word for it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Makes one that never allows more than so many requests.
    pub build: fn(u32) -> Box<dyn Window>,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({})", self.name)
    }
}

/// All policies, the simplest first.
pub static REGISTRY: &[&Policy] = &[&fixed::POLICY, &aimd::POLICY, &latency::POLICY];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static Policy> {
    REGISTRY.iter().find(|policy| policy.name == name).copied()
}
