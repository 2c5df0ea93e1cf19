//! Why something about groups was refused.

use crate::limits::MOVED_MAX;
use iopace_groups::files::FileError;
use iopace_groups::tree::TreeError;

/// Why something about groups was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// No such group, or it cannot be made or removed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A file that cannot be read or written so.
    #[error(transparent)]
    File(#[from] FileError),
    /// No such export.
    #[error("there is no export '{name}'; there are: {}", .known.join(", "))]
    NoExport {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It was removed in this moment.
    #[error("the export is removed")]
    ExportGone,
    /// No such connection, or it has opened no export yet.
    #[error("no connection {0} has an export open; 'iopace group list' shows those that have")]
    NoConnection(u64),
    /// Processes pay only where something is mounted.
    #[error("nothing is mounted by this daemon: processes pay for nothing here")]
    NoMount,
    /// No such process.
    #[error("there is no process {0}, or it cannot be seen from here")]
    NoProcess(u32),
    /// A cgroup that no group can stand for.
    #[error("the cgroup {path} of process {pid} {problem}")]
    Cgroup {
        /// The process.
        pid: u32,
        /// The path of the cgroup.
        path: String,
        /// The problem, and the remedy.
        problem: &'static str,
    },
    /// There is no room for another process that is moved.
    #[error("{MOVED_MAX} processes are moved already: use a rule, or end some of them")]
    TooManyMoved,
    /// Processes that are there pay as it.
    #[error(
        "{path} is not removed: {count} processes pay as it, such as {pid} ({program}); move or \
         end them first"
    )]
    Processes {
        /// The group.
        path: String,
        /// How many.
        count: usize,
        /// One of them.
        pid: u32,
        /// Its program.
        program: String,
    },
    /// A rule names it.
    #[error("{path} is not removed: a rule of a mount names it: {rule}")]
    Rule {
        /// The group.
        path: String,
        /// The rule.
        rule: String,
    },
    /// A number of the kernel says too little.
    #[error("devices on the disk {number}: {}; name one of them", .known.join(", "))]
    SeveralOn {
        /// The number.
        number: String,
        /// The devices.
        known: Vec<String>,
    },
    /// No such device.
    #[error("there is no device '{name}'; there are: {}", .known.join(", "))]
    NoDevice {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}
