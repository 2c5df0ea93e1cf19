//! The tries and the findings of a run.

use std::fmt;
use std::ops::AddAssign;

/// Most violations that are told in words.
const TOLD_MAX: usize = 20;

/// Counts of one kind of work.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Workloads that were run.
    pub workloads: u64,
    /// Moments at which the power was cut.
    pub cuts: u64,
    /// States of the disk that were checked.
    pub states: u64,
    /// Calls to which the disk answered with an error.
    pub errors: u64,
    /// States that do not keep what was promised.
    pub violations: u64,
    /// The first of them in words.
    pub told: Vec<String>,
}

impl Report {
    /// A state was checked.
    pub fn checked(&mut self, result: Result<(), String>, context: impl FnOnce() -> String) {
        self.states += 1;
        if let Err(error) = result {
            self.violations += 1;
            if self.told.len() < TOLD_MAX {
                self.told.push(format!("{}: {error}", context()));
            }
        }
    }

    /// A row of a table in Markdown.
    pub fn row(&self, name: &str) -> String {
        let Report { workloads, cuts, states, violations, .. } = self;
        format!("| {name} | {workloads} | {cuts} | {states} | {violations} |")
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.workloads += other.workloads;
        self.cuts += other.cuts;
        self.states += other.states;
        self.violations += other.violations;
        self.errors += other.errors;
        self.told.extend(other.told);
        self.told.truncate(TOLD_MAX);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { workloads, cuts, states, violations, errors, told } = self;
        write!(f, "{workloads} workloads, {cuts} cuts, {states} states, {errors} errors, ")?;
        write!(f, "{violations} violations")?;
        told.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
