//! How long files, lines and functions may be.

use super::{Check, Context};
use crate::ratchet::{self, SLACK_LINES};
use crate::tree::{File, Tree};
use std::collections::BTreeMap;

/// Lines of a file before it needs an entry in the ratchet.
const FILE_LINES: usize = 400;

/// Lines of a file at the very most.
const FILE_LINES_MAX: usize = 800;

/// Lines of a function.
const FUNCTION_LINES: usize = 60;

/// Columns of a line (rustfmt's `max_width`).
const COLUMNS_MAX: usize = 100;

/// The check of files.
pub static FILES: Check = Check {
    name: "file-length",
    rule: "a file of Rust, JavaScript, CSS or HTML has at most 400 lines; an older one in \
           xtask/ratchet.txt keeps its size; what is in a folder vendor is not ours",
    run: files,
    bad: || vec![("a.rs", "\n".repeat(FILE_LINES + 1))],
    good: || vec![("a.rs", "\n".repeat(FILE_LINES)), ("a.md", "\n".repeat(999))],
};

/// The check of functions.
pub static FUNCTIONS: Check = Check {
    name: "function-length",
    rule: "a function has at most 60 lines; an older one in xtask/ratchet.txt keeps its size",
    run: functions,
    bad: || vec![("a.rs", format!("fn f() {{{}}}", "\n".repeat(FUNCTION_LINES)))],
    good: || vec![("a.rs", format!("fn f() {{{}}}", "\n".repeat(FUNCTION_LINES - 1)))],
};

/// The check of lines.
pub static LINES: Check = Check {
    name: "line-length",
    rule: "a line of Rust or shell has at most 100 columns",
    run: lines,
    bad: || vec![("a.rs", "é".repeat(COLUMNS_MAX + 1))],
    good: || vec![("a.rs", "é".repeat(COLUMNS_MAX)), ("a.md", "x".repeat(500))],
};

/// The check of the ratchet itself.
pub static RATCHET: Check = Check {
    name: "ratchet",
    rule: "an entry of xtask/ratchet.txt goes down with what it excepts, and goes when it may",
    run: entries,
    bad: || vec![(ratchet::PATH, "file gone.rs 500\n".into())],
    good: || vec![(ratchet::PATH, "file a.rs 500\n".into()), ("a.rs", "\n".repeat(495))],
};

fn ends_with(file: &File, endings: &[&str]) -> bool {
    file.path.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
}

fn files(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in tree.files.iter().filter(|file| ends_with(file, &["rs", "js", "css", "html"])) {
        let lines_count = match &file.source {
            Some(source) => source.lines.len(),
            None => file.text.lines().count(),
        };
        let allowed = context.ratchet.allowed(&ratchet::file(&file.path)).unwrap_or(FILE_LINES);
        if lines_count > allowed.min(FILE_LINES_MAX) {
            let what = format!("{lines_count} lines, of {allowed}");
            context.find(&file.path, 0, what, "split it by subject, or move its tests beside it");
        }
    }
}

fn functions(context: &mut Context<'_>) {
    let tree = context.tree;
    for (path, name, line, lines_count) in long_functions(tree) {
        let allowed =
            context.ratchet.allowed(&ratchet::function(path, &name)).unwrap_or(FUNCTION_LINES);
        if lines_count > allowed {
            let what = format!("`{name}` has {lines_count} lines, of {allowed}");
            context.find(path, line, what, "leave the control flow, move arithmetic to helpers");
        }
    }
}

/// Path, name, line and length of the functions that are too long.
fn long_functions(tree: &Tree) -> Vec<(&str, String, usize, usize)> {
    let functions = tree.rust().flat_map(|(file, source)| {
        source
            .functions()
            .into_iter()
            .map(move |f| (file.path.as_str(), f.name, f.line, f.lines_count))
    });
    functions.filter(|&(.., lines_count)| lines_count > FUNCTION_LINES).collect()
}

fn lines(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in &tree.files {
        if !ends_with(file, &["rs", "sh"]) {
            continue;
        }
        for (i, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let what = format!("{columns} columns, of {COLUMNS_MAX}");
                context.find(
                    &file.path,
                    i + 1,
                    what,
                    "break the line; in a string, end it with \\",
                );
            }
        }
    }
}

/// What is too long without its entry: the words of the entry, and the lines.
fn excepted(tree: &Tree) -> BTreeMap<String, usize> {
    let files = tree.rust().map(|(file, source)| (ratchet::file(&file.path), source.lines.len()));
    let mut excepted: BTreeMap<_, _> = files.filter(|&(_, count)| count > FILE_LINES).collect();
    for (path, name, _, lines_count) in long_functions(tree) {
        // Of two functions of one name the longer counts.
        let entry = excepted.entry(ratchet::function(path, &name)).or_default();
        *entry = lines_count.max(*entry);
    }
    excepted
}

/// The lines of what an entry of the ratchet excepts; `None` if it is not too long any more.
pub fn excepted_lines(tree: &Tree, what: &str) -> Option<usize> {
    excepted(tree).get(what).copied()
}

fn entries(context: &mut Context<'_>) {
    let Some(file) = context.tree.file(ratchet::PATH) else { return };
    let excepted = excepted(context.tree);
    for (i, line) in file.text.lines().enumerate() {
        let Some((what, allowed)) = line.rsplit_once(' ') else { continue };
        let Ok(allowed) = allowed.parse::<usize>() else { continue };
        let problem = match excepted.get(what) {
            None => "is not needed any more".to_string(),
            Some(&actual) if actual + SLACK_LINES < allowed => format!("is {actual} lines by now"),
            Some(_) => continue,
        };
        let what = format!("`{what}` {problem}");
        context.find(&file.path, i + 1, what, "run `cargo xtask tidy --tighten`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Finding;
    use crate::ratchet::Ratchet;

    fn found(check: &Check, lines_count: usize, entry: &str) -> Vec<Finding> {
        let tree = Tree::of(&[("a.rs", "\n".repeat(lines_count))]);
        let ratchet = Ratchet::parse(entry).unwrap();
        let mut context = Context { tree: &tree, ratchet: &ratchet, findings: Vec::new() };
        (check.run)(&mut context);
        context.findings
    }

    #[test]
    fn scripts_styles_and_pages_count_too() {
        let long = || "\n".repeat(FILE_LINES + 1);
        let samples =
            vec![("a.js", long()), ("b.css", long()), ("c.html", long()), ("d.md", long())];
        let found = super::super::findings(&FILES, &samples);
        let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, ["a.js", "b.css", "c.html"]);
    }

    #[test]
    fn an_entry_stops_growth() {
        assert!(found(&FILES, 450, "file a.rs 450").is_empty());
        assert!(!found(&FILES, 451, "file a.rs 450").is_empty());
    }

    #[test]
    fn no_entry_allows_more_than_the_most() {
        assert!(!found(&FILES, FILE_LINES_MAX + 1, "file a.rs 9999").is_empty());
    }

    #[test]
    fn an_entry_far_above_is_to_be_lowered() {
        let samples = [(ratchet::PATH, "file a.rs 500".to_string()), ("a.rs", "\n".repeat(470))];
        let (tree, ratchet) = (Tree::of(&samples), Ratchet::default());
        let mut context = Context { tree: &tree, ratchet: &ratchet, findings: Vec::new() };
        entries(&mut context);
        assert!(context.findings[0].what.contains("is 470 lines by now"));
    }
}
