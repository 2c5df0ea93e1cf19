//! The groups of a scenario file.
//!
//! ```toml
//! [group."/vms/web"]                  # groups above are made if they have no table of their own
//! "io.weight" = "200"                 # the files of a group; the device is called `disk`
//! "io.max" = ["disk rbps=10M", "disk wiops=120"]
//!
//! [[task]]
//! name = "web"
//! group = "/vms/web"
//! ```

use super::DEVICE;
use super::error::Mistake;
use super::shape::{DiskTable, GroupTables, TaskTable};
use crate::task::Task;
use iopace_core::admit::Mode;
use iopace_core::request::GroupId;
use iopace_groups::tree::Tree;
use toml::Spanned;

/// Makes the tree: groups in the order of their paths, so that parents come first.
pub(super) fn resolve(tables: &GroupTables, disk: &DiskTable) -> Result<Tree, Mistake> {
    let given = disk.nr_group_requests.as_ref().map(|n| (DEVICE.to_string(), *n.get_ref()));
    let mut tree = Tree::with_group_requests(given);
    for (path, files) in tables {
        let id = tree.create_all(path.get_ref());
        let id = id.map_err(|error| (path.span(), error.to_string()))?;
        for (file, lines) in files {
            let text = lines.get_ref().text();
            let written = tree.write(id, file.get_ref(), &text, &[DEVICE]);
            written.map_err(|error| (lines.span(), error.to_string()))?;
        }
    }
    Ok(tree)
}

/// The group of a task.
pub(super) fn find(tree: &Tree, path: Option<&Spanned<String>>) -> Result<GroupId, Mistake> {
    let Some(path) = path else { return Ok(GroupId::ROOT) };
    tree.find(path.get_ref()).map_err(|error| (path.span(), error.to_string()))
}

/// How slots are given.
pub(super) fn slots(word: Option<&Spanned<String>>) -> Result<Mode, Mistake> {
    match word.map(|word| (word.get_ref().as_str(), word.span())) {
        None | Some(("guaranteed", _)) => Ok(Mode::Guaranteed),
        Some(("plain", _)) => Ok(Mode::Plain),
        Some((other, span)) => {
            Err((span, format!("slots are 'guaranteed' or 'plain', not '{other}'")))
        }
    }
}

/// Whether a blocking task sleeps is read off its group, so it must be the only one there.
pub(super) fn check_blocking(
    table: &Spanned<TaskTable>,
    task: &Task,
    others: &[Task],
) -> Result<(), Mistake> {
    let shares = |other: &Task| other.group == task.group && (other.blocking || task.blocking);
    match others.iter().find(|other| shares(other)) {
        Some(other) => {
            let message =
                format!("a blocking task needs a group of its own; '{}' is in it", other.name);
            Err((table.span(), message))
        }
        None => Ok(()),
    }
}
