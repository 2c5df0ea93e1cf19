//! Exceptions that were there before a rule: they may shrink and go, never grow.
//!
//! `xtask/ratchet.txt` has one per line: `file PATH LINES` or `function PATH NAME LINES`. An entry
//! is added by hand, so that it is seen in review; `tidy --tighten` only lowers and removes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where the exceptions are kept.
pub const PATH: &str = "xtask/ratchet.txt";

/// Lines that an entry may stand above what it excepts before it has to be lowered.
pub const SLACK_LINES: usize = 20;

/// The exceptions: what is excepted, and its lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ratchet {
    entries: BTreeMap<String, usize>,
}

/// The words of an entry for a file.
pub fn file(path: &str) -> String {
    format!("file {path}")
}

/// The words of an entry for a function.
pub fn function(path: &str, name: &str) -> String {
    format!("function {path} {name}")
}

impl Ratchet {
    /// Reads the entries.
    pub fn parse(text: &str) -> Result<Ratchet, String> {
        let mut entries = BTreeMap::new();
        for (i, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry =
                line.rsplit_once(' ').and_then(|(what, count)| Some((what, count.parse().ok()?)));
            let Some((what, lines_count)) = entry else {
                return Err(format!(
                    "{PATH}:{}: expected `file PATH LINES`, found `{line}`",
                    i + 1
                ));
            };
            entries.insert(what.to_string(), lines_count);
        }
        Ok(Ratchet { entries })
    }

    /// The lines allowed to `what`.
    pub fn allowed(&self, what: &str) -> Option<usize> {
        self.entries.get(what).copied()
    }

    /// Lowers each entry to what there is, and drops those that are no longer needed.
    pub fn tighten(&self, lines_count: impl Fn(&str) -> Option<usize>) -> Ratchet {
        let entries = self.entries.iter().filter_map(|(what, &allowed)| {
            lines_count(what).map(|actual| (what.clone(), actual.min(allowed)))
        });
        Ratchet { entries: entries.collect() }
    }

    /// The text to keep.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# What was too long when the rule came: it may shrink, never grow.\n\
             # `cargo xtask tidy --tighten` lowers entries; new ones are added by hand.\n",
        );
        for (what, lines_count) in &self.entries {
            let _ = writeln!(text, "{what} {lines_count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_it_writes() {
        let ratchet = Ratchet::parse("# words\n\nfile a.rs 500\nfunction a.rs f 70\n").unwrap();
        assert_eq!(ratchet.allowed(&file("a.rs")), Some(500));
        assert_eq!(ratchet.allowed(&function("a.rs", "f")), Some(70));
        assert_eq!(Ratchet::parse(&ratchet.text()).unwrap(), ratchet);
    }

    #[test]
    fn it_only_turns_one_way() {
        let ratchet = Ratchet::parse("file a 500\nfile b 500\nfile c 500\n").unwrap();
        let now = |what: &str| match what {
            "file a" => Some(450),
            "file b" => Some(600),
            _ => None,
        };
        let tightened = ratchet.tighten(now);
        assert_eq!(tightened, Ratchet::parse("file a 450\nfile b 500\n").unwrap());
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = Ratchet::parse("file a 1\nfile b many\n").unwrap_err();
        assert!(error.starts_with("xtask/ratchet.txt:2: "), "{error}");
    }
}
