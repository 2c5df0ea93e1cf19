//! The files of the project as the checks see them.

use crate::source::Source;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Endings of the files that are read; of others only the name counts.
const TEXT_ENDINGS: [&str; 13] = [
    "rs", "md", "toml", "txt", "sh", "py", "js", "css", "html", "yml", "service", "fio", "Makefile",
];

/// Folders of what others wrote and keep: it is taken as it comes, and only the names count.
const VENDOR: &str = "vendor";

/// The answer of `git log` with the latest subjects, as if it were a file.
pub const COMMITS: &str = "@commits";

/// The answer of `cargo tree` with a licence for each package, as if it were a file.
pub const LICENCES: &str = "@licences";

/// Commits whose subjects are looked at.
const COMMITS_COUNT: usize = 30;

/// One file that was read.
#[derive(Debug)]
pub struct File {
    /// Its path from the root, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
    /// The same taken apart, if it is Rust.
    pub source: Option<Source>,
}

impl File {
    /// A file with this text.
    pub fn new(path: &str, text: &str) -> File {
        let source = path.ends_with(".rs").then(|| Source::new(text));
        File { path: path.to_string(), text: text.to_string(), source }
    }

    /// Its name without folder and ending.
    pub fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    }

    /// Its folder, without a slash at the end; empty for the root.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Whether all of it is test or example.
    pub fn is_test(&self) -> bool {
        let is_in = |folder: &str| self.path.split('/').any(|part| part == folder);
        is_in("tests") || is_in("benches") || is_in("examples") || self.stem() == "tests"
    }
}

/// All files.
#[derive(Debug, Default)]
pub struct Tree {
    /// Those that were read, in order of their path.
    pub files: Vec<File>,
    /// The paths of all files and folders.
    pub paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the project.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        for (path, answer) in [(COMMITS, commits(root)), (LICENCES, licences(root)?)] {
            tree.files.push(File::new(path, &answer));
        }
        Ok(tree)
    }

    /// A tree of samples.
    pub fn of(samples: &[(&str, String)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in samples {
            tree.add(File::new(path, text));
        }
        tree
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.source.as_ref()?)))
    }

    fn add(&mut self, file: File) {
        let mut path = file.path.as_str();
        loop {
            self.paths.insert(path.to_string());
            let Some((folder, _)) = path.rsplit_once('/') else { break };
            path = folder;
        }
        self.files.push(file);
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<(), String> {
        let failed = |what: &Path, error| format!("cannot read {}: {error}", what.display());
        let place = root.join(folder);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&place).map_err(|error| failed(&place, error))? {
            entries.push(entry.map_err(|error| failed(&place, error))?);
        }
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type().map_err(|error| failed(&entry.path(), error))?;
            if kind.is_dir() {
                if name != ".git" && !is_generated(&path, &entry.path()) {
                    self.paths.insert(path.clone());
                    self.read_folder(root, &path)?;
                }
            } else if kind.is_file() {
                let ending = name.rsplit('.').next().unwrap_or_default();
                let is_text =
                    !is_vendored(&path) && (TEXT_ENDINGS.contains(&ending) || path == ".ci/run");
                match fs::read_to_string(entry.path()) {
                    Ok(text) if is_text => self.add(File::new(&path, &text)),
                    Err(error) if is_text => return Err(failed(&entry.path(), error)),
                    _ => {
                        self.paths.insert(path);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a file is others' work.
fn is_vendored(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(folder, _)| folder.split('/').any(|part| part == VENDOR))
}

/// Whether a folder holds what a tool made: build results, and what the fuzzer found.
fn is_generated(path: &str, place: &Path) -> bool {
    let made = ["target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", "fuzz/coverage"];
    made.contains(&path) || place.join("CACHEDIR.TAG").exists()
}

/// The latest subjects, oldest last; empty where there is no history.
fn commits(root: &Path) -> String {
    let count = format!("-{COMMITS_COUNT}");
    let output =
        Command::new("git").arg("-C").arg(root).args(["log", &count, "--format=%s"]).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        _ => String::new(),
    }
}

/// `name version`, a tab, and the licence of each package in the build, as cargo knows it.
fn licences(root: &Path) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["tree", "--workspace", "--quiet", "--prefix", "none", "--format", "{p}\t{l}"])
        .output()
        .map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree failed; does the workspace build?\n{why}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_brings_its_folders() {
        let tree = Tree::of(&[("a/b/c.rs", String::new())]);
        assert_eq!(
            tree.paths.iter().map(String::as_str).collect::<Vec<_>>(),
            ["a", "a/b", "a/b/c.rs"]
        );
    }

    #[test]
    fn what_others_wrote_is_known_by_its_folder() {
        assert!(is_vendored("crates/x/src/page/vendor/chart-1.0/chart.min.js"));
        assert!(!is_vendored("crates/x/src/page/vendor.js"));
        assert!(!is_vendored("vendor"));
    }

    #[test]
    fn tests_are_known_by_their_place() {
        assert!(File::new("crates/x/tests/a.rs", "").is_test());
        assert!(File::new("crates/x/src/sched/rr/tests.rs", "").is_test());
        assert!(!File::new("crates/x/src/testing.rs", "").is_test());
    }
}
