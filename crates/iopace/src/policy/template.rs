//! `iopace policy new`: a crate to begin with.

use crate::cli::PolicyNewArgs;
use crate::output::{Failure, print};
use crate::units::shell_word;
use iopace_core::sched::{self, AUTO};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name that the template has, for the crate and for the policy, and the same as cargo names
/// files.
const PLACEHOLDER: &str = "template-policy";
const PLACEHOLDER_OF_FILES: &str = "template_policy";

/// Characters of a name.
const NAME_CHARS_MAX: usize = 32;

/// Names of crates that Rust has itself: a crate of that name does not build.
const OF_RUST: &[&str] = &["alloc", "core", "proc-macro", "std", "test"];

/// Words of Rust, which name no crate.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "unsafe",
    "unsized", "use", "virtual", "where",
];

/// A file of the template, from its place in the source tree.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../../contrib/policy/template/", $path)))),*]
    };
}

/// The files by their paths in the crate.
static FILES: [(&str, &str); 8] = files![
    ".cargo/config.toml",
    ".gitignore",
    "Cargo.toml",
    "README.md",
    "scenario.toml",
    "src/kit.rs",
    "src/lib.rs",
    "src/tests.rs",
];

/// Writes the crate.
///
/// # Errors
/// A name that cannot be one, a directory that exists or cannot be made.
pub(super) fn run(args: &PolicyNewArgs) -> Result<(), Failure> {
    let name = &args.name;
    check(name)
        .map_err(|why| Failure::usage(format!("'{name}' cannot be the name of a policy: {why}")))?;
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(name));
    let failed = |error: io::Error| {
        let shown = dir.display();
        Failure::new(match error.kind() {
            io::ErrorKind::AlreadyExists => format!("{shown} exists: name another directory"),
            _ => format!("{shown} cannot be made: {error}"),
        })
    };
    if let Some(above) = dir.parent() {
        fs::create_dir_all(above).map_err(failed)?;
    }
    fs::create_dir(&dir).map_err(failed)?;
    for (path, text) in FILES {
        let path = dir.join(path);
        write(&path, &named(text, name)).map_err(|error| {
            Failure::new(format!("{} cannot be written: {error}", path.display()))
        })?;
    }
    let place = shell_word(&dir.display().to_string());
    print(&format!(
        "{}: the scheduler '{name}', in src/lib.rs\n\
         now: cd {place}\n     \
         cargo test            its own tests\n     \
         iopace policy test    the laws of schedulers, and a load beside fifo and fair\n     \
         iopace policy bench   what a request costs\n",
        dir.display(),
    ))
}

/// A text of the template with this name.
fn named(text: &str, name: &str) -> String {
    text.replace(PLACEHOLDER, name).replace(PLACEHOLDER_OF_FILES, &name.replace('-', "_"))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// Whether it can be the name of a policy and of its crate; if not, why, as the rest of a sentence.
fn check(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !name.chars().all(is_legal) || name.len() > NAME_CHARS_MAX {
        return Err(format!(
            "it has 1 to {NAME_CHARS_MAX} letters a-z, digits and '-', and begins with a letter"
        ));
    }
    if sched::find(name).is_some() {
        return Err(format!("there is a scheduler '{name}'; try 'my-{name}'"));
    }
    if [AUTO, "none", "all"].contains(&name) {
        return Err("where a scheduler is named, the word means something else".into());
    }
    if OF_RUST.contains(&name) || KEYWORDS.contains(&name) {
        return Err(format!("Rust has that word for itself; try 'my-{name}'"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_crate_and_of_a_scheduler() {
        for name in ["mine", "a", "lifo-2", &"a".repeat(32)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let long = "a".repeat(33);
        for name in ["", "2a", "-a", "Mine", "my_own", "a/b", "é", "fair", "none", "fn", &long] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_crate_has_its_name_everywhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("deep/my-own");
        let args = PolicyNewArgs { name: "my-own".into(), dir: Some(dir.clone()) };
        run(&args).expect("the directory is new");
        for (path, _) in FILES {
            let text = fs::read_to_string(dir.join(path)).expect("it was written");
            assert!(
                !text.contains("template-policy") && !text.contains("template_policy"),
                "{path}"
            );
        }
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).expect("it was written");
        assert!(manifest.contains("name = \"my-own\""), "{manifest}");
        let failure = run(&args).expect_err("it is there now");
        assert!(failure.message.contains("exists"), "{}", failure.message);
    }
}
