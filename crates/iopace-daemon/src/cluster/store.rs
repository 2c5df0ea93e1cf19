//! What a host asks of the store that all hosts share. etcd has it; tests have one in memory.

use iopace_core::cluster::{Revision, SessionId};
use iopace_core::time::Nanos;
use std::fmt;

/// A key of the store with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreEntry {
    /// The whole key.
    pub(super) key: String,
    /// The value: text of ours, or whatever somebody else has put there.
    pub(super) value: Vec<u8>,
    /// When it was last changed.
    pub(super) changed: Revision,
    /// The session with whose end it goes.
    pub(super) session: Option<SessionId>,
}

/// All keys below a prefix as of a revision, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreView {
    /// No change up to this one is missing.
    pub(super) at: Revision,
    /// The keys.
    pub(super) entries: Vec<StoreEntry>,
}

/// What has to hold for a change to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// There is no such key.
    Absent(String),
    /// The key was last changed at that revision.
    Unchanged(String, Revision),
    /// No key below this prefix was changed after that revision.
    NoneAfter(String, Revision),
}

/// A value to be put under a key, with the session that it goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StorePut {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) session: Option<SessionId>,
}

/// A change that is carried out as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoreChange {
    pub(super) conditions: Vec<Condition>,
    pub(super) puts: Vec<StorePut>,
    pub(super) removes: Vec<String>,
    /// The key that is told of if a condition does not hold.
    pub(super) look: Option<String>,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    /// It was carried out with this revision.
    Done(Revision),
    /// A condition does not hold; the key that was to be told of, if it is there.
    Refused(Option<StoreEntry>),
}

/// Why the store has not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreError {
    /// Nobody has answered, in words: what was asked may have been done, or be done later.
    Unreachable(String),
    /// It does not know the session.
    NoSession,
    /// It does not let us, in words.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unreachable(why) | StoreError::Refused(why) => f.write_str(why),
            StoreError::NoSession => f.write_str("etcd does not know this host's session any more"),
        }
    }
}

impl StoreError {
    /// What is to be said of a host whose turn has ended with it.
    pub(super) fn told(&self) -> String {
        match self {
            StoreError::Unreachable(why) => format!("etcd is not reached: {why}"),
            // It has answered.
            StoreError::Refused(_) | StoreError::NoSession => self.to_string(),
        }
    }
}

/// A store. Every call ends within a second or two.
pub(super) trait Store: Send {
    /// A new session that lasts `length` from when the store has heard of it or of its renewal.
    fn open(&mut self, length: Nanos) -> Result<SessionId, StoreError>;

    /// The session goes on for its length.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] if there is none of that number any more.
    fn renew(&mut self, id: SessionId) -> Result<(), StoreError>;

    /// The session ends, and what goes with it.
    fn end(&mut self, id: SessionId) -> Result<(), StoreError>;

    /// All below a prefix, nothing of it older than when this was called.
    fn read(&mut self, prefix: &str) -> Result<StoreView, StoreError>;

    /// Carries out a change.
    fn change(&mut self, change: &StoreChange) -> Result<StoreOutcome, StoreError>;

    /// What is known to be wrong with the program that answers, in words; each is told of once.
    fn flaw(&mut self) -> Option<String> {
        None
    }
}
