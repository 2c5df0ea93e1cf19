//! The result of a suite.

use std::collections::BTreeMap;

/// Failures that are described: one cause makes most runs of a suite fail, and each run that fails
/// may take long.
const FAILURES_MAX: usize = 3;

/// Is told of runs that are done and of runs in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// The findings of a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Runs that were carried out.
    pub runs: u64,
    /// Things that were counted over all runs, by a word for them: `requests`, `merged`.
    pub counts: BTreeMap<&'static str, u64>,
    /// Findings that are no failure, each a sentence, as the longest wait that was seen.
    pub notes: Vec<String>,
    /// Each failure in a sentence, with all that is needed to see it again; empty if the scheduler
    /// passed.
    pub failures: Vec<String>,
    /// Promises that the scheduler would keep, or properties that it has, and that its profile does
    /// not state.
    pub unstated: Vec<String>,
}

impl Outcome {
    /// Whether the scheduler passed.
    pub fn holds(&self) -> bool {
        self.failures.is_empty()
    }

    /// Adds the findings of another part of the suite.
    #[must_use]
    pub fn and(mut self, other: Outcome) -> Outcome {
        self.runs += other.runs;
        for (word, count) in other.counts {
            *self.counts.entry(word).or_default() += count;
        }
        self.notes.extend(other.notes);
        self.failures.extend(other.failures);
        self.unstated.extend(other.unstated);
        self
    }

    /// So many more of these were counted.
    pub(crate) fn count(&mut self, word: &'static str, more: u64) {
        *self.counts.entry(word).or_default() += more;
    }

    /// Whether more runs would add nothing but the same failure.
    pub(crate) fn is_enough(&self) -> bool {
        self.failures.len() >= FAILURES_MAX
    }
}
