//! Why a file of a group was not read or written.

use super::FILES;
use super::value::Value;
use crate::tree::error::quoted;
use core::fmt;

/// What kind of mistake it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileProblem {
    /// There is no file of this name.
    UnknownFile,
    /// The file says what is, and not what is to be; the daemon knows it, not the tree.
    ReadOnly,
    /// A line names a device that there is not.
    UnknownDevice,
    /// A line cannot be read, or its value is out of bounds.
    Malformed,
    /// A group above or below stands against it.
    Nesting,
}

/// A file that was not read or written, with the place and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The path of the group.
    pub group: String,
    /// The file that was asked for.
    pub file: String,
    /// The line, from 1; `None` where it is the whole.
    pub line: Option<usize>,
    /// What kind of mistake.
    pub problem: FileProblem,
    /// What is wrong and what would be right, in words.
    pub text: String,
}

impl FileError {
    /// About a line of a file that there is.
    pub(super) fn new<T: Value>(
        group: String,
        line: Option<usize>,
        (problem, text): (FileProblem, String),
    ) -> FileError {
        let text = match FILES.iter().find(|spec| spec.name == T::FILE) {
            Some(spec) if problem == FileProblem::Malformed => {
                format!("{text}; an example: {}", spec.example)
            }
            _ => text,
        };
        FileError { group, file: T::FILE.into(), line, problem, text }
    }

    /// About a file that is not a setting.
    pub(super) fn no_such(group: String, file: &str) -> FileError {
        if let Some(spec) = FILES.iter().find(|spec| spec.name == file) {
            let text = "read-only: it says what happened and holds no setting".into();
            let (file, problem) = (spec.name.into(), FileProblem::ReadOnly);
            return FileError { group, file, line: None, problem, text };
        }
        let names: Vec<&str> = FILES.iter().map(|spec| spec.name).collect();
        let text = format!("no such file; there are: {}", names.join(", "));
        let problem = FileProblem::UnknownFile;
        FileError { group, file: file.into(), line: None, problem, text }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            FileProblem::UnknownFile => write!(f, "{} {}", self.group, quoted(&self.file))?,
            _ => write!(f, "{} {}", self.group, self.file)?,
        }
        match self.line {
            Some(line) => write!(f, ", line {line}: {}", self.text),
            None => write!(f, ": {}", self.text),
        }
    }
}

impl std::error::Error for FileError {}
