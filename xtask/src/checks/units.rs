//! A bare number says its unit in its name.

use super::{Check, Context};
use crate::source::{Source, is_word};

/// Last words of a name that say what the number counts.
const UNITS: [&str; 26] = [
    "ns", "us", "ms", "s", "secs", "bytes", "kb", "kib", "mb", "mib", "gib", "count", "permille",
    "percent", "ops", "requests", "sectors", "pages", "blocks", "rpm", "bits", "index", "sequence",
    "seed", "mask", "mark",
];

/// Names of numbers that are just numbers, or whose unit stands beside them.
const PLAIN: [&str; 7] = ["n", "value", "sample", "min", "max", "default", "weight"];

/// Types that do not say what they count.
const BARE: [&str; 3] = ["u64", "u128", "f64"];

/// The check.
pub static CHECK: Check = Check {
    name: "units",
    rule: "in the core a public field or parameter of a bare number type ends in its unit",
    run: check,
    bad: || vec![(SAMPLE, "pub struct A {\n    pub wait: u64,\n}\n".into())],
    good: || {
        let text = "pub struct A {\n    pub wait_ns_max: u64,\n\
                    wait: u64,\n    pub b: Bytes,\n}\n\
                    impl A { pub fn set(&mut self, size_bytes: u64, f: fn(u64)) { let x: u64; } \
                    }\n";
        vec![(SAMPLE, text.into())]
    },
};

const SAMPLE: &str = "crates/iopace-core/src/a.rs";

fn check(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in tree.rust() {
        if !file.path.starts_with("crates/iopace-core/src/") || file.is_test() {
            continue;
        }
        for at in
            (0..source.tokens.len()).filter(|&at| source.text(at) == "pub" && !source.is_test(at))
        {
            let names = if is_bare(source, at + 1) { vec![at + 1] } else { parameters(source, at) };
            for name in names.into_iter().filter(|&name| !has_unit(source.text(name))) {
                let token = &source.tokens[name];
                let what = format!("`{}` is a bare number without a unit", token.text);
                let remedy = "give it a type (Bytes, Nanos, ...), or the unit as its last word";
                context.find(&file.path, token.line, what, remedy);
            }
        }
    }
}

/// Whether `name: u64` stands at `at`.
fn is_bare(source: &Source, at: usize) -> bool {
    let ends = [",", "}", ")", ";"].contains(&source.text(at + 3));
    let is_path = source.text(at + 2) == ":";
    is_word(source.text(at))
        && source.text(at + 1) == ":"
        && !is_path
        && BARE.contains(&source.text(at + 2))
        && ends
}

/// The bare parameters of the function that begins at `at`, if one does.
fn parameters(source: &Source, at: usize) -> Vec<usize> {
    let Some(name) = (at + 1..at + 5).find(|&at| source.text(at) == "fn") else {
        return Vec::new();
    };
    let is_plain = (at + 1..name).all(|at| ["const", "unsafe", "async"].contains(&source.text(at)));
    let Some(open) = (name..source.tokens.len()).find(|&at| source.text(at) == "(") else {
        return Vec::new();
    };
    if !is_plain {
        return Vec::new();
    }
    (open + 1..source.closing(open)).filter(|&at| is_bare(source, at)).collect()
}

fn has_unit(name: &str) -> bool {
    let mut words: Vec<&str> = name.split('_').collect();
    while words.len() > 1 && ["max", "min", "mean", "total"].contains(words.last().unwrap_or(&"")) {
        words.pop();
    }
    PLAIN.contains(&name) || words.last().is_some_and(|word| UNITS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_last_word() {
        assert!(has_unit("latency_ns") && has_unit("latency_ns_max") && has_unit("seed"));
        assert!(!has_unit("latency") && !has_unit("max_latency") && !has_unit("ns_latency"));
    }

    #[test]
    fn parameters_are_seen() {
        let source = Source::new("pub const fn f(a: u64, b: Bytes, c: Option<u64>) -> u64 { d }");
        assert_eq!(parameters(&source, 0).len(), 1);
        assert!(parameters(&Source::new("pub(crate) fn f(a: u64) {}"), 0).is_empty());
    }
}
