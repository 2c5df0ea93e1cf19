//! The records of all hosts, each with a lease, as etcd keeps them.

use iopace_core::cluster::HostRecord;
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// The lease of a record: the shortest that etcd keeps in any set-up is 2 s.
const LEASE: Nanos = Nanos::from_secs(4);

/// The store, which never fails itself; the ways to it do.
#[derive(Debug, Default)]
pub(super) struct RecordStore {
    /// By host: until when, and its record.
    records: BTreeMap<usize, (Instant, HostRecord)>,
}

impl RecordStore {
    /// A host's record comes: those of all hosts as of now.
    pub(super) fn exchange(
        &mut self,
        now: Instant,
        host: usize,
        record: HostRecord,
    ) -> Vec<(usize, HostRecord)> {
        self.records.retain(|_, (end, _)| now < *end);
        self.records.insert(host, (now + LEASE, record));
        self.records.iter().map(|(host, (_, record))| (*host, record.clone())).collect()
    }
}
