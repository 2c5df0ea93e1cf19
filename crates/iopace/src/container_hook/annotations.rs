//! Annotations `iopace.io/FILE` and the lines that they are: what they say is checked here, so that
//! a mistake is named whether a daemon runs or not.

use crate::output::nearest;
use iopace_daemon::printable;
use iopace_groups::files::{FILES, FileSpec};
use iopace_groups::tree::Tree;
use std::collections::BTreeMap;

/// Names of annotations for iopace begin so.
const PREFIX: &str = "iopace.io/";

/// Longest value, in bytes: all keys of `io.max` with numbers are a quarter of it.
const VALUE_BYTES_MAX: usize = 1_024;

/// Most characters of a name, a value or a problem in a message.
const SHOWN_MAX: usize = 160;

/// Lines for files, of all annotations that are for iopace; they hold on all devices.
///
/// # Errors
/// The first annotation that is wrong, and what would be right.
pub(super) fn lines(
    annotations: &BTreeMap<String, String>,
    allowed: &[String],
) -> Result<BTreeMap<String, String>, String> {
    let mut tree = Tree::new();
    let id = tree.create("/container").expect("the first group");
    let mut lines = BTreeMap::new();
    for (name, value) in annotations {
        let Some(file) = name.strip_prefix(PREFIX) else { continue };
        let wrong = |problem: String| format!("annotation {}: {problem}", shown(name));
        let spec = spec(file).map_err(wrong)?;
        if !allowed.iter().any(|one| one == file) {
            let allowed = allowed.join(", ");
            let problem = format!("only {allowed} may be set by annotations here (--allow)");
            return Err(wrong(problem));
        }
        let value = value.trim();
        let (_, example) = spec.example.split_once(' ').unwrap_or(("", spec.example));
        let right = format!("right is as in '{example}', which holds on all devices");
        if value.is_empty() || value.len() > VALUE_BYTES_MAX || value.contains(char::is_control) {
            let problem = "is empty, too long or of several lines";
            return Err(wrong(format!("'{}' {problem}; {right}", shown(value))));
        }
        let line = format!("default {value}");
        tree.write(id, file, &line, &[]).map_err(|error| {
            let problem = error.text.split("; an example").next().unwrap_or_default();
            wrong(format!("{}; {right}", shown(problem)))
        })?;
        lines.insert(file.to_owned(), line);
    }
    Ok(lines)
}

/// The file that may be written.
fn spec(file: &str) -> Result<&'static FileSpec, String> {
    let settings = || FILES.iter().filter(|spec| spec.writable);
    settings().find(|spec| spec.name == file).ok_or_else(|| {
        let names = || settings().map(|spec| spec.name);
        // No slip is that long, and to compare costs by the length.
        let short = Some(file).filter(|file| file.len() <= SHOWN_MAX);
        match short.and_then(|file| nearest(file, names())) {
            Some(meant) => format!("there is no such setting; did you mean {PREFIX}{meant}?"),
            None => {
                let all: Vec<String> = names().map(|name| format!("{PREFIX}{name}")).collect();
                format!("there is no such setting; there are {}", all.join(", "))
            }
        }
    })
}

/// The text of others, as a part of a line.
fn shown(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let rest = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{rest}", printable::name(&shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: [&str; 3] = ["io.max", "io.weight", "io.ioprio_class"];

    fn read(all: &[(&str, &str)]) -> Result<BTreeMap<String, String>, String> {
        let all = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        lines(&all.collect(), &ALLOWED.map(str::to_owned))
    }

    #[test]
    fn annotations_become_lines_for_all_devices() {
        let all = [
            ("io.kubernetes.cri.container-type", "sandbox"),
            ("iopace.io/io.ioprio_class", "IDLE"),
            ("iopace.io/io.max", " rbps=50M wiops=100 "),
            ("iopace.io/io.weight", "200"),
            ("iopace.iox", "1"),
        ];
        let right = [
            ("io.ioprio_class", "default IDLE"),
            ("io.max", "default rbps=50M wiops=100"),
            ("io.weight", "default 200"),
        ];
        let right = right.map(|(file, line)| (file.to_owned(), line.to_owned()));
        assert_eq!(read(&all), Ok(right.into()));
        assert_eq!(read(&[("app", "web")]), Ok(BTreeMap::new()));
    }

    #[test]
    fn a_mistake_names_annotation_and_remedy() {
        let long = "1".repeat(VALUE_BYTES_MAX + 1);
        let odd = format!("iopace.io/\u{1b}[2J{}", "x".repeat(1_000_000));
        let cases: [(&str, &str, &str); 13] = [
            ("iopace.io/io.maxx", "wbps=1", "did you mean iopace.io/io.max?"),
            ("iopace.io/limit", "50M", "there are iopace.io/io.weight, "),
            ("iopace.io/", "50M", "there are iopace.io/"),
            ("iopace.io/../io.max", "wbps=1", "no such setting"),
            ("iopace.io/io.stat", "", "no such setting"),
            (&odd, "1", "annotation iopace.io/\\x1b[2Jx"),
            ("iopace.io/io.min", "rbps=1M", "only io.max, io.weight, io.ioprio_class may be set"),
            ("iopace.io/io.max", "50M", "right is as in 'rbps=2097152 wiops=120'"),
            ("iopace.io/io.max", "srv wbps=50M", "which holds on all devices"),
            ("iopace.io/io.max", "wbps=1M\n8:0 wbps=9M", "of several lines"),
            ("iopace.io/io.weight", "0", "io.weight: "),
            ("iopace.io/io.weight", " ", "is empty"),
            ("iopace.io/io.weight", &long, "too long"),
        ];
        for (name, value, reason) in cases {
            let told = read(&[("iopace.io/io.ioprio_class", "BE"), (name, value)]);
            let told = told.expect_err(name);
            assert!(told.starts_with("annotation iopace.io/"), "{told}");
            assert!(told.contains(reason), "{told}");
            assert!(told.len() < 600 && !told.contains(char::is_control), "{told}");
        }
    }
}
