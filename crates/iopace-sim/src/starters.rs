//! Scenarios to begin with: typical questions, commented, to be changed.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starter {
    /// The word for it.
    pub name: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// All of them; the first is the one to begin with.
pub static STARTERS: &[Starter] = &[
    Starter {
        name: "noisy-neighbour",
        question: "what a busy neighbour does to a service, and what helps",
        text: include_str!("../starters/noisy-neighbour.toml"),
    },
    Starter {
        name: "backup-beside-database",
        question: "whether a backup may run beside a database",
        text: include_str!("../starters/backup-beside-database.toml"),
    },
    Starter {
        name: "writers-and-reader",
        question: "who waits when programs write more than the disk takes",
        text: include_str!("../starters/writers-and-reader.toml"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::scenario::Scenario;

    #[test]
    fn what_one_begins_with_runs_and_holds() {
        for starter in STARTERS {
            let scenario = match Scenario::parse(starter.name, starter.text) {
                Ok(scenario) => scenario,
                Err(error) => panic!("{error}"),
            };
            let report = judge(&scenario);
            assert!(!report.checks.is_empty() && report.holds(), "{}: {report:#?}", starter.name);
            assert_eq!(report.unfinished, 0, "{}", starter.name);
        }
    }

    /// `fair` learns from the first second of a stream and a small reader, and from who of the two
    /// comes first, on a disk with a head: the shares at the end must not depend on that.
    #[test]
    fn the_first_one_holds_whatever_the_seed() {
        for seed in 1..=8 {
            let scenario = Scenario::parse(STARTERS[0].name, STARTERS[0].text);
            let scenario = scenario.map(|scenario| Scenario { seed, ..scenario });
            let report = judge(&scenario.expect("a legal scenario"));
            assert!(report.holds(), "seed {seed}: {report:#?}");
        }
    }
}
