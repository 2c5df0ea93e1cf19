//! The lists of exchangeable policies: what a stage says of each.

use core::fmt;

/// One policy of a stage.
pub struct Policy<B> {
    /// The word for it.
    pub name: &'static str,
    /// Its work in one sentence.
    pub summary: &'static str,
    /// Makes one.
    pub build: B,
}

impl<B> fmt::Debug for Policy<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({})", self.name)
    }
}

/// The policy of that name.
pub(crate) fn find<B>(all: &[&'static Policy<B>], name: &str) -> Option<&'static Policy<B>> {
    all.iter().find(|policy| policy.name == name).copied()
}
