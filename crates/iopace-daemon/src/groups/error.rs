//! Why something about groups was refused.

use iopace_core::group::files::FileError;
use iopace_core::group::tree::TreeError;

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
    /// No such connection, or it has opened no export yet.
    #[error("no connection {0} has an export open; 'iopace group list' shows those that have")]
    NoConnection(u64),
    /// No such device.
    #[error("there is no device '{name}'; there are: {}", .known.join(", "))]
    NoDevice {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}
