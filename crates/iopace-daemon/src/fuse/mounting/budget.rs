//! How much is looked at of one process.

use super::patience::Patience;
use crate::limits::{BUSY_FILES_MAX, BUSY_PROCESS_PATIENCE};
use std::time::Duration;

/// How much is looked at of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Open files and mappings, together.
    pub(super) things_max: usize,
    /// Time.
    pub(super) patience: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { things_max: BUSY_FILES_MAX, patience: BUSY_PROCESS_PATIENCE }
    }
}

/// The work that is left for one process.
pub(super) struct Budget {
    things: usize,
    patience: Patience,
    /// Why the rest is not looked at.
    pub(super) ended: Option<&'static str>,
}

impl Budget {
    pub(super) fn new(bounds: &Bounds) -> Budget {
        let patience = Patience::of_this_thread(bounds.patience);
        Budget { things: bounds.things_max, patience, ended: None }
    }

    /// Whether one more open file or mapping may be looked at.
    pub(super) fn take(&mut self) -> bool {
        if self.things == 0 {
            self.ended = Some("more open files and mappings than are looked at");
        } else if self.patience.is_over() {
            self.ended = Some("looking at its open files and mappings takes too long");
        }
        self.things = self.things.saturating_sub(1);
        self.ended.is_none()
    }
}
