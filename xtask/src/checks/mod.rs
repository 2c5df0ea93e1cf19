//! The checks: one file per subject, one line per check in [`CHECKS`].

mod circles;
mod commits;
mod docs;
mod layers;
mod lengths;
mod licences;
mod names;
mod policies;
mod soundness;
mod terminal;
mod units;
mod words;

use crate::ratchet::Ratchet;
use crate::tree::Tree;
use std::fmt;

pub use lengths::excepted_lines;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// The line, counted from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
    /// Whether it only warns.
    pub is_warning: bool,
}

impl Finding {
    /// A finding that fails the run.
    pub fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let (what, remedy) = (what.into(), remedy.into());
        Finding { path: path.to_string(), line, what, remedy, is_warning: false }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, what, remedy, is_warning } = self;
        f.write_str(if *is_warning { "warning: " } else { "" })?;
        match line {
            0 => write!(f, "{path}: {what}\n    {remedy}"),
            line => write!(f, "{path}:{line}: {what}\n    {remedy}"),
        }
    }
}

/// What a check is given to work with.
pub struct Context<'a> {
    /// The files.
    pub tree: &'a Tree,
    /// The exceptions that were there before the rule.
    pub ratchet: &'a Ratchet,
    /// What it found.
    pub findings: Vec<Finding>,
}

impl Context<'_> {
    /// Notes a finding.
    pub fn find(
        &mut self,
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding::new(path, line, what, remedy));
    }
}

/// One check.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// The rule, in one sentence.
    pub rule: &'static str,
    /// The check itself.
    pub run: fn(&mut Context<'_>),
    /// Files that break the rule.
    pub bad: fn() -> Samples,
    /// Files like them that keep it.
    pub good: fn() -> Samples,
}

/// Paths and texts of made-up files.
pub type Samples = Vec<(&'static str, String)>;

/// All checks.
pub static CHECKS: &[&Check] = &[
    &lengths::FILES,
    &lengths::LINES,
    &lengths::FUNCTIONS,
    &lengths::RATCHET,
    &words::BANNED,
    &words::PLACES,
    &policies::HEADINGS,
    &policies::PROPERTIES,
    &policies::SMALLEST,
    &policies::REGISTERED,
    &names::CHECK,
    &units::CHECK,
    &layers::MANIFESTS,
    &circles::CHECK,
    &circles::DAEMON,
    &layers::VERSIONS,
    &layers::POLICIES,
    &layers::CLOCKS,
    &layers::LINTS,
    &soundness::UNSAFE,
    &soundness::BOUNDS,
    &soundness::SLEEPS,
    &terminal::CHECK,
    &docs::MAP,
    &docs::LINKS,
    &docs::SCENARIOS,
    &licences::CHECK,
    &commits::CHECK,
];

/// What all checks find.
pub fn run(tree: &Tree, ratchet: &Ratchet) -> Vec<Finding> {
    let mut context = Context { tree, ratchet, findings: Vec::new() };
    for check in CHECKS {
        (check.run)(&mut context);
    }
    context.findings
}

/// What one check finds in these files.
fn findings(check: &Check, samples: &Samples) -> Vec<Finding> {
    let (tree, ratchet) = (Tree::of(samples), Ratchet::default());
    let mut context = Context { tree: &tree, ratchet: &ratchet, findings: Vec::new() };
    (check.run)(&mut context);
    context.findings
}

/// Runs each check on its own samples: one that is blind, or sees ghosts, is worse than none.
pub fn probe(check: &Check) -> Result<(), String> {
    let name = check.name;
    if findings(check, &(check.bad)()).is_empty() {
        return Err(format!("the check {name} does not see its bad sample: repair it in xtask"));
    }
    match findings(check, &(check.good)()).first() {
        Some(found) => Err(format!("the check {name} takes offence at its good sample: {found}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_sees_its_bad_sample_and_passes_its_good_one() {
        for check in CHECKS {
            assert_eq!(probe(check), Ok(()));
        }
    }

    #[test]
    fn a_blind_check_is_noticed() {
        let blind = Check { run: |_| {}, ..*CHECKS[0] };
        assert!(probe(&blind).unwrap_err().contains("does not see"));
    }

    #[test]
    fn a_check_that_sees_ghosts_is_noticed() {
        let nervous = Check { run: |context| context.find("x", 0, "what", "do"), ..*CHECKS[0] };
        assert!(probe(&nervous).unwrap_err().contains("takes offence"));
    }

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let finding = Finding::new("a.rs", 7, "what", "do this");
        assert_eq!(finding.to_string(), "a.rs:7: what\n    do this");
        assert_eq!(Finding::new("a.rs", 0, "what", "do").to_string(), "a.rs: what\n    do");
    }
}
