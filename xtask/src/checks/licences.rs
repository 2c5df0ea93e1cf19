//! Whose code comes in: each dependency may be used under a licence of the list.

use super::{Check, Context};
use crate::tree::LICENCES;

/// Licences that ask for nothing but their text (the same list as deny.toml).
const ALLOWED: [&str; 8] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// The check.
pub static CHECK: Check = Check {
    name: "licences",
    rule: "each dependency may be used under a licence of xtask/src/checks/licences.rs",
    run: check,
    bad: || vec![(LICENCES, "priority-queue v2.7.0\tLGPL-3.0-or-later OR MPL-2.0\n".into())],
    good: || {
        vec![(
            LICENCES,
            "a v1 (proc-macro)\tMIT/Apache-2.0\nb v1\t(MIT OR GPL-3.0) AND Unicode-3.0 (*)\n"
                .into(),
        )]
    },
};

fn check(context: &mut Context<'_>) {
    if let Some(file) = context.tree.file("deny.toml") {
        for licence in ALLOWED.iter().filter(|name| !file.text.contains(&format!("\"{name}\""))) {
            let what = format!("`{licence}` is allowed by tidy and not here");
            context.find("deny.toml", 0, what, "keep the two lists the same");
        }
    }
    let Some(file) = context.tree.file(LICENCES) else { return };
    let mut lines: Vec<&str> =
        file.text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        let Some((package, expression)) = line.split_once('\t') else { continue };
        if !is_allowed(expression) {
            let what = format!("{package} is under `{expression}`");
            let remedy =
                "take another crate; a licence is added to the list in a commit of its own";
            context.find("Cargo.lock", 0, what, remedy);
        }
    }
}

/// Whether a licence expression can be met. `AND` binds closer than `OR`.
fn is_allowed(expression: &str) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let is_met = alternatives(&words, &mut at);
    is_met && at == words.len()
}

fn alternatives(words: &[&str], at: &mut usize) -> bool {
    let mut is_met = conditions(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        is_met |= conditions(words, at);
    }
    is_met
}

fn conditions(words: &[&str], at: &mut usize) -> bool {
    let mut is_met = licence(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        is_met &= licence(words, at);
    }
    is_met
}

fn licence(words: &[&str], at: &mut usize) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let is_met = alternatives(words, at);
        let is_closed = words.get(*at) == Some(&")");
        *at += 1;
        return is_met && is_closed;
    }
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
        let exception = words.get(*at - 1).copied().unwrap_or_default();
        return ALLOWED.contains(&format!("{word} WITH {exception}").as_str());
    }
    ALLOWED.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lists_are_compared() {
        let some = "allow = [\"MIT\"]".to_string();
        let found = crate::checks::findings(&CHECK, &vec![("deny.toml", some)]);
        assert_eq!(found.len(), ALLOWED.len() - 1);
    }

    #[test]
    fn expressions_are_understood() {
        for good in
            ["MIT", "GPL-2.0 OR MIT", "MIT AND BSD-3-Clause", "Apache-2.0 WITH LLVM-exception OR X"]
        {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-2.0",
            "MIT AND GPL-2.0",
            "(MIT OR X) AND Y",
            "(MIT",
            "GPL-2.0 WITH MIT",
            "MIT MIT",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
