//! Why the tree of groups was not changed, or a group not found.

use crate::limits::{GROUP_DEPTH_MAX, GROUPS_MAX};
use core::fmt;

/// Most names that an error lists: a screen line or two.
const NEARBY_MAX: usize = 12;

/// Most characters of a user's words that an error repeats.
const QUOTED_MAX: usize = 80;

/// A user's words as they may stand in a message: in quotes, one line, not too long.
pub(crate) fn quoted(words: &str) -> String {
    let mut shown: String = words.chars().take(QUOTED_MAX).flat_map(char::escape_debug).collect();
    if words.chars().nth(QUOTED_MAX).is_some() {
        shown.push_str("...");
    }
    format!("'{shown}'")
}

/// The first names of a list, and how many there are besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearby {
    /// In order.
    pub names: Vec<String>,
    /// So many more.
    pub more: usize,
}

impl Nearby {
    /// The first twelve names of a list.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Nearby {
        let mut nearby = Nearby { names: Vec::new(), more: 0 };
        for name in names {
            if nearby.names.len() < NEARBY_MAX {
                nearby.names.push(name.into());
            } else {
                nearby.more += 1;
            }
        }
        nearby
    }
}

impl fmt::Display for Nearby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return f.write_str("none");
        }
        f.write_str(&self.names.join(", "))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

/// Why a change or a search of the tree failed; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The path cannot be one.
    #[error(
        "{} is no path of a group: {problem}; right is '/' or names after slashes, as /vms/web",
        quoted(path)
    )]
    BadPath {
        /// What was asked for.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There is no such group.
    #[error("no group {}; groups in {nearest}: {nearby}", quoted(path))]
    NotFound {
        /// What was asked for.
        path: String,
        /// How far the path leads.
        nearest: String,
        /// What there is.
        nearby: Nearby,
    },
    /// There is such a group already.
    #[error("there is a group {path} already")]
    Exists {
        /// Its path.
        path: String,
    },
    /// More than [`GROUP_DEPTH_MAX`] below the root.
    #[error("{} is too deep: a group is at most {GROUP_DEPTH_MAX} below the root", quoted(path))]
    TooDeep {
        /// What was asked for.
        path: String,
    },
    /// [`GROUPS_MAX`] ids are taken.
    #[error(
        "no room for {}: there may be {GROUPS_MAX} groups; {dying} removed ones still have \
         requests",
        quoted(path)
    )]
    TooMany {
        /// What was asked for.
        path: String,
        /// So many of them are of removed groups.
        dying: usize,
    },
    /// The root stays.
    #[error("the root group / cannot be removed")]
    Root,
    /// A group with groups in it stays.
    #[error("{path} is not removed: remove the groups in it first: {children}")]
    HasChildren {
        /// Its path.
        path: String,
        /// The groups in it.
        children: Nearby,
    },
    /// A group that somebody pays as stays.
    #[error(
        "{path} is not removed: {members} exports or connections pay as it; move or end them first"
    )]
    HasMembers {
        /// Its path.
        path: String,
        /// How many exports and connections.
        members: usize,
    },
}
