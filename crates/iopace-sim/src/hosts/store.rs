//! A store as hosts see etcd: sessions with an end, records that go with them, and changes that are
//! carried out as a whole or not at all.

use iopace_core::cluster::{
    Allowance, Answer, GrantRecord, GrantWrite, HostRecord, Question, Revision, SessionId,
};
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// The length of a session, as the daemon has it: etcd grants no shorter ones than its election
/// takes, and after so long without a host its grants are free for others.
pub(super) const SESSION: Nanos = Nanos::from_secs(5);

/// A record of the daemon without groups, and each of its groups, as JSON with its key; grants are
/// as long as a group.
const RECORD_BYTES: u64 = 170;
const GROUP_BYTES: u64 = 80;

/// A record that a host publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostNews {
    pub(super) record: HostRecord,
    /// The amount that it wants of the limit.
    pub(super) wanted: Allowance,
}

/// A question to the store.
#[derive(Clone, Debug)]
pub(super) enum StoreQuestion {
    Open,
    Renew(SessionId),
    End(SessionId),
    /// The record of the host, which has none from another session.
    Publish(SessionId, HostNews),
    /// The sum of all other cells, by whoever stands for this one.
    PublishOthers(SessionId, HostRecord),
    /// About the host's grant.
    Grant(Question),
    /// All there is.
    Read,
}

/// The answer to it.
#[derive(Clone, Debug)]
pub(super) enum StoreAnswer {
    Opened(SessionId),
    /// It was done; or there is no such session, or the record is that of another one.
    Done(bool),
    Grant(Answer),
    Seen(StoreView),
}

/// All that the store has.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreView {
    pub(super) at: Revision,
    pub(super) hosts: BTreeMap<usize, (SessionId, HostNews)>,
    pub(super) others: Option<(SessionId, HostRecord)>,
    pub(super) grants: BTreeMap<usize, GrantRecord>,
}

/// Bytes and changes since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTraffic {
    /// Bytes of all records that were written.
    pub written_bytes: u64,
    /// Bytes of all answers.
    pub read_bytes: u64,
    /// Changes of anything, sessions included.
    pub changes_count: u64,
}

/// The store, which never fails itself; the ways to it do.
#[derive(Debug, Default)]
pub(super) struct SimStore {
    seen: StoreView,
    opened_count: u64,
    /// By number: the end, by the store's own clock.
    sessions: BTreeMap<SessionId, Instant>,
    pub(super) traffic: StoreTraffic,
}

impl SimStore {
    /// Answers a host at this instant of the store's clock.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        host: usize,
        question: StoreQuestion,
    ) -> StoreAnswer {
        self.end_sessions(now);
        if !matches!(question, StoreQuestion::Read | StoreQuestion::Grant(Question::Look)) {
            self.traffic.changes_count += 1;
        }
        match question {
            StoreQuestion::Open => {
                self.opened_count += 1;
                let id = SessionId(self.opened_count);
                self.sessions.insert(id, now + SESSION);
                StoreAnswer::Opened(id)
            }
            StoreQuestion::Renew(id) => {
                let end = self.sessions.get_mut(&id);
                StoreAnswer::Done(end.map(|end| *end = now + SESSION).is_some())
            }
            StoreQuestion::End(id) => {
                let was_there = self.sessions.remove(&id).is_some();
                self.end_sessions(now);
                StoreAnswer::Done(was_there)
            }
            StoreQuestion::Publish(id, news) => StoreAnswer::Done(self.publish(id, host, news)),
            StoreQuestion::PublishOthers(id, record) => {
                let is_there = self.sessions.contains_key(&id);
                if is_there {
                    self.change(bytes(&record));
                    self.seen.others = Some((id, record));
                }
                StoreAnswer::Done(is_there)
            }
            StoreQuestion::Grant(Question::Look) => {
                StoreAnswer::Grant(Answer::Stands(self.seen.grants.get(&host).copied()))
            }
            StoreQuestion::Grant(Question::Write(write)) => {
                StoreAnswer::Grant(self.write(host, write))
            }
            StoreQuestion::Read => {
                let StoreView { hosts, others, .. } = &self.seen;
                let hosts = hosts.values().map(|(_, news)| &news.record);
                let others = others.iter().map(|(_, record)| record);
                let all = hosts.chain(others).map(bytes).sum::<u64>();
                let all = all + GROUP_BYTES * self.seen.grants.len() as u64;
                // The gateway answers in base64.
                self.traffic.read_bytes += all / 3 * 4;
                StoreAnswer::Seen(self.seen.clone())
            }
        }
    }

    /// Records go with their sessions.
    fn end_sessions(&mut self, now: Instant) {
        self.sessions.retain(|_, end| now < *end);
        let Self { sessions, seen, .. } = self;
        let is_on = |id: &SessionId| sessions.contains_key(id);
        let StoreView { hosts, others, grants, .. } = seen;
        let before = hosts.len() + grants.len() + usize::from(others.is_some());
        hosts.retain(|_, (id, _)| is_on(id));
        others.take_if(|(id, _)| !is_on(id));
        grants.retain(|_, record| is_on(&record.session));
        if hosts.len() + grants.len() + usize::from(others.is_some()) < before {
            self.change(0);
        }
    }

    fn change(&mut self, bytes: u64) -> Revision {
        self.traffic.written_bytes += bytes;
        self.seen.at = Revision(self.seen.at.0 + 1);
        self.seen.at
    }

    fn publish(&mut self, id: SessionId, host: usize, news: HostNews) -> bool {
        let is_other = |(known, _): &(SessionId, HostNews)| *known != id;
        if !self.sessions.contains_key(&id) || self.seen.hosts.get(&host).is_some_and(is_other) {
            return false;
        }
        self.change(bytes(&news.record));
        self.seen.hosts.insert(host, (id, news));
        true
    }

    fn write(&mut self, host: usize, write: GrantWrite) -> Answer {
        let grants = &self.seen.grants;
        let own = grants.get(&host).copied();
        let last = grants.values().map(|record| record.changed).max().unwrap_or_default();
        let is_legal = own.map(|record| record.changed) == write.own
            && write.all.is_none_or(|all| last <= all)
            && self.sessions.contains_key(&write.session);
        if !is_legal {
            return Answer::Stands(own);
        }
        let changed = self.change(GROUP_BYTES);
        let record = GrantRecord { changed, session: write.session, grant: write.grant };
        self.seen.grants.insert(host, record);
        Answer::Done(changed)
    }
}

/// The length of a record.
fn bytes(record: &HostRecord) -> u64 {
    RECORD_BYTES + GROUP_BYTES * record.groups.len() as u64
}
