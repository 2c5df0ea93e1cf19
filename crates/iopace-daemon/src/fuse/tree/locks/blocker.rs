//! What stands in the way of a lock.

/// The owner of the lock that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocker {
    /// That of an owner above, taken through an open file.
    Owner(u64, u64),
    /// An open file above has it.
    Whole(u64),
    /// Somebody past the mount has it.
    Below,
    /// A process past the mount shares memory by this file (0: it cannot be told which).
    Memory(u32),
}

impl Blocker {
    pub(super) fn handle(self) -> Option<u64> {
        match self {
            Blocker::Owner(_, handle) | Blocker::Whole(handle) => Some(handle),
            Blocker::Below | Blocker::Memory(_) => None,
        }
    }

    /// Whether it is past the mount: nobody tells when it goes.
    pub(super) fn is_past(self) -> bool {
        matches!(self, Blocker::Below | Blocker::Memory(_))
    }
}
