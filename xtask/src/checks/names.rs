//! A type has a name of its own in its crate.

use super::{Check, Context};
use crate::source::{Source, is_word};
use std::collections::BTreeMap;

/// Names that stood for several types of a crate when the rule came: the list only shrinks.
const KNOWN: [(&str, &[&str]); 2] = [("crates/iopace", &IOPACE), ("crates/iopace-daemon", &DAEMON)];

const IOPACE: [&str; 6] = ["Counts", "Doors", "Format", "Line", "Row", "Running"];

const DAEMON: [&str; 76] = [
    "Answer", "Asked", "Attached", "Before", "Budget", "Caller", "Case", "Change", "Claim",
    "Client", "Counted", "Counts", "Daemon", "Data", "Device", "Disk", "End", "Entered", "Entry",
    "File", "Found", "Handle", "Header", "Held", "How", "Inner", "Kept", "Kernel", "Kind", "Known",
    "Listed", "Listener", "Made", "Mapped", "Memory", "Opened", "Options", "Parts", "Patience",
    "Payer", "Payers", "Piece", "Place", "Problem", "Progress", "Queue", "Range", "RealDisk",
    "Record", "Refused", "Ring", "Room", "Seen", "Session", "Shared", "Shares", "Slot", "Spare",
    "Split", "Stand", "State", "Stay", "Stop", "Table", "Taking", "Target", "Telling", "Ticket",
    "Tried", "Turn", "Value", "Waiter", "Waiting", "Wanted", "Watch", "Write",
];

const PATH: &str = "xtask/src/checks/names.rs";

/// The check.
pub static CHECK: Check = Check {
    name: "type-names",
    rule: "a type has a name of its own in its crate, tests apart",
    run: |context| check(context, &KNOWN),
    bad: || samples("Line"),
    good: || samples("QueueLine"),
};

fn samples(name: &str) -> super::Samples {
    let test = "#[cfg(test)]\nmod tests {\n    struct Line;\n}\n";
    vec![
        ("crates/iopace-core/src/a.rs", format!("pub struct Line<'a>(&'a str);\n{test}")),
        ("crates/iopace-core/src/b.rs", format!("pub(super) enum {name} {{\n    One,\n}}\n")),
        ("crates/iopace-core/tests/c.rs", "struct Line;\n".into()),
        ("crates/iopace-disk/src/d.rs", "trait Line {}\n".into()),
    ]
}

/// Where a type is defined: the file, and the line counted from 1.
type Place<'a> = (&'a str, usize);

fn check(context: &mut Context<'_>, known: &[(&str, &[&str])]) {
    let tree = context.tree;
    let mut crates = BTreeMap::<&str, BTreeMap<&str, Vec<Place<'_>>>>::new();
    for (file, source) in tree.rust().filter(|(file, _)| !file.is_test()) {
        let Some((folder, _)) = file.path.split_once("/src/") else { continue };
        let names = crates.entry(folder).or_default();
        for (name, line) in types(source) {
            names.entry(name).or_default().push((&file.path, line));
        }
    }
    for (folder, names) in crates {
        let known =
            known.iter().find(|(known, _)| *known == folder).map_or(&[][..], |known| known.1);
        for (name, places) in names.iter().filter(|(name, _)| !known.contains(name)) {
            let (first, at) = places[0];
            for (path, line) in &places[1..] {
                let what = format!("`{name}` is the name of another type too, {first}:{at}");
                let remedy = "name the quantity or the role of each: `WaitingRequest`, `TaskQueue`";
                context.find(path, *line, what, remedy);
            }
        }
        for name in known.iter().filter(|name| names.get(*name).is_none_or(|p| p.len() < 2)) {
            let what = format!("`{name}` of {folder} is not the name of several types any more");
            context.find(PATH, 0, what, "take it out of KNOWN");
        }
    }
}

/// The types that are defined in a file, and their lines.
fn types(source: &Source) -> impl Iterator<Item = (&str, usize)> {
    let is_type = |at: &usize| ["struct", "enum", "trait"].contains(&source.text(*at));
    (0..source.tokens.len())
        .filter(is_type)
        .filter(|&at| !source.is_test(at) && is_word(source.text(at + 1)))
        .map(|at| (source.text(at + 1), source.tokens[at].line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Finding;
    use crate::ratchet::Ratchet;
    use crate::tree::Tree;

    fn findings(samples: &[(&str, String)], known: &[(&str, &[&str])]) -> Vec<Finding> {
        let (tree, ratchet) = (Tree::of(samples), Ratchet::default());
        let mut context = Context { tree: &tree, ratchet: &ratchet, findings: Vec::new() };
        check(&mut context, known);
        context.findings
    }

    #[test]
    fn a_known_name_passes_until_it_is_unique() {
        let known: [(&str, &[&str]); 1] = [("crates/iopace-core", &["Line"])];
        assert_eq!(findings(&samples("Line"), &known), []);
        let found = findings(&samples("QueueLine"), &known);
        assert_eq!((found.len(), found[0].path.as_str()), (1, PATH));
        assert!(found[0].what.contains("`Line` of crates/iopace-core"), "{}", found[0]);
    }

    #[test]
    fn a_name_that_is_taken_is_found_where_it_comes_again() {
        let found = findings(&samples("Line"), &[]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/iopace-core/src/b.rs", 1));
        assert!(found[0].what.ends_with("crates/iopace-core/src/a.rs:1"), "{}", found[0]);
    }

    #[test]
    fn macros_and_prose_define_nothing() {
        let text =
            "// struct A\nmacro_rules! m { ($n:ident) => { struct $n; } }\nfn f(s: &str) {}\n";
        assert_eq!(types(&Source::new(text)).count(), 0);
    }
}
