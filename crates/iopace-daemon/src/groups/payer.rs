//! Who pays for a connection's requests: the group can be changed while the connection is busy.
//!
//! The connection's thread reads the group when it begins to gather requests and keeps it until
//! they are submitted. Meanwhile it shows the group as in use, so that nobody gives the number of a
//! removed group to another one before the device has seen the requests.

use iopace_core::request::GroupId;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// No group has this number: there are far fewer.
const NONE: u32 = u32::MAX;

/// The group of a connection.
#[derive(Debug)]
pub struct Payer {
    group: AtomicU32,
    /// The group of the requests that are gathered and not submitted.
    used: AtomicU32,
}

impl Default for Payer {
    /// The root, and nothing gathered.
    fn default() -> Payer {
        Payer { group: AtomicU32::new(GroupId::ROOT.0), used: AtomicU32::new(NONE) }
    }
}

impl Payer {
    /// Who pays for its next request.
    pub fn group(&self) -> GroupId {
        GroupId(self.group.load(SeqCst))
    }

    /// Another group pays from its next request on.
    pub(crate) fn set(&self, group: GroupId) {
        self.group.store(group.0, SeqCst);
    }

    /// The connection's thread begins to gather requests: this group pays for them.
    pub(crate) fn begin(&self) -> GroupId {
        loop {
            let group = self.group.load(SeqCst);
            self.used.store(group, SeqCst);
            // Whoever has changed the group before this has not seen it as used: again.
            if self.group.load(SeqCst) == group {
                return GroupId(group);
            }
        }
    }

    /// What was gathered is submitted.
    pub(crate) fn end(&self) {
        self.used.store(NONE, SeqCst);
    }

    /// The group of requests that are gathered and not submitted.
    pub(crate) fn in_use(&self) -> Option<GroupId> {
        let used = self.used.load(SeqCst);
        (used != NONE).then_some(GroupId(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_gathered_stays_with_its_group() {
        let payer = Payer::default();
        payer.set(GroupId(3));
        assert_eq!((payer.begin(), payer.in_use()), (GroupId(3), Some(GroupId(3))));
        payer.set(GroupId(4));
        assert_eq!((payer.group(), payer.in_use()), (GroupId(4), Some(GroupId(3))));
        payer.end();
        assert_eq!((payer.in_use(), payer.begin()), (None, GroupId(4)));
    }
}
