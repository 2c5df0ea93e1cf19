//! Words that do not belong in the tree.

use super::{Check, Context};
use crate::tree::File;

/// What is banned, and what to do instead. Written in halves, or this file would find itself.
const BANNED_WORDS: [(&str, &str); 7] = [
    (concat!("TO", "DO"), "do it, or write it down where plans are kept"),
    (concat!("FIX", "ME"), "fix it, or say in `# Limits` what does not work"),
    (concat!("XX", "X"), "say what is the matter"),
    (concat!("todo", "!"), "write the code, or leave the function out"),
    (concat!("unimplemented", "!"), "write the code, or leave the function out"),
    (concat!("dbg", "!"), "take it out; the daemon logs with tracing"),
    (
        concat!("#[ign", "ore"),
        "make the test work, or delete it: a test that never runs holds nothing",
    ),
];

/// Beginnings of paths that exist on one machine only.
const PLACES_OF_A_MACHINE: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// The check of words.
pub static BANNED: Check = Check {
    name: "banned-words",
    rule: "nothing is left undone, switched off or printed for debugging",
    run: banned,
    bad: || vec![("a.rs", format!("// {} later", BANNED_WORDS[0].0))],
    good: || vec![("a.rs", "// the method todos() is fine, so is MAXXXL\n".into())],
};

/// The check of machine paths.
pub static PLACES: Check = Check {
    name: "machine-paths",
    rule: "no path of one machine: the tree means the same everywhere",
    run: places,
    bad: || vec![("a.md", format!("see {}x", PLACES_OF_A_MACHINE[0]))],
    good: || vec![("a.md", format!("see a{}x and /run/iopace", PLACES_OF_A_MACHINE[0]))],
};

/// Lines of the files that people write, with their numbers.
fn lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let is_written = !file.path.starts_with('@') && !file.path.ends_with(".lock");
    file.text.lines().enumerate().filter(move |_| is_written).map(|(i, line)| (i + 1, line))
}

/// Whether `word` stands in `line`, not as part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    line.match_indices(word).any(|(at, _)| {
        let is_open = !line[..at].ends_with(is_part) || word.starts_with(|c| !is_part(c));
        let is_closed =
            !line[at + word.len()..].starts_with(is_part) || word.ends_with(|c| !is_part(c));
        is_open && (is_closed || word.starts_with('#'))
    })
}

fn banned(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in &tree.files {
        for (line, text) in lines(file) {
            for (word, remedy) in BANNED_WORDS {
                if has_word(text, word) {
                    context.find(&file.path, line, format!("`{word}`"), remedy);
                }
            }
        }
    }
}

fn places(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in &tree.files {
        for (line, text) in lines(file) {
            for place in PLACES_OF_A_MACHINE {
                let is_start =
                    |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.');
                if text.match_indices(place).any(|(at, _)| is_start(at)) {
                    let remedy = "name it by its role, or take a relative path";
                    context.find(
                        &file.path,
                        line,
                        format!("`{place}` is a place on one machine"),
                        remedy,
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_not_a_part_of_a_word() {
        assert!(has_word("a stop, b", "stop") && has_word("stop", "stop"));
        assert!(!has_word("stopping", "stop") && !has_word("nonstop", "stop"));
        assert!(has_word("  x!(1)", "x!") && !has_word("ax!(1)", "x!"));
        assert!(has_word("#[skip]", "#[skip") && has_word("#[skip = \"why\"]", "#[skip"));
    }
}
