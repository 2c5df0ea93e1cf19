//! The store of a history: records with sessions and conditions, as etcd has them.

use iopace_core::cluster::{
    Allowance, Answer, GrantRecord, GrantWrite, Question, Revision, SessionId, Terms,
};
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// A question of a host, on its way to the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// A new session.
    Open,
    /// The session goes on.
    Renew(SessionId),
    /// About its record, with the number of the question.
    Record(u64, Question),
    /// The records of all.
    All,
}

/// The answer, on its way back.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// The number of the session, which lasts for the usual length.
    Session(SessionId),
    /// It goes on, or there is none of that number.
    Renewed(bool),
    /// The answer to that question.
    Record(u64, Answer),
    /// The limit and the grants of all as of a revision.
    All(Revision, Terms, Vec<(usize, Allowance)>),
}

/// One store that never fails itself; its messages do.
#[derive(Debug)]
pub(super) struct Store {
    length: Nanos,
    /// Of the last change or removal of any record.
    revision: Revision,
    terms: Terms,
    opened_count: u64,
    /// By number: the end, by the store's own clock.
    sessions: BTreeMap<SessionId, Instant>,
    /// By host.
    records: BTreeMap<usize, GrantRecord>,
}

impl Store {
    pub(super) fn new(length: Nanos, terms: Terms) -> Store {
        Store {
            length,
            revision: Revision(1),
            terms,
            opened_count: 0,
            sessions: BTreeMap::new(),
            records: BTreeMap::new(),
        }
    }

    /// Answers a host at this instant of the store's clock.
    pub(super) fn answer(&mut self, now: Instant, host: usize, request: Request) -> Reply {
        self.end_sessions(now);
        match request {
            Request::Open => {
                self.opened_count += 1;
                let id = SessionId(self.opened_count);
                self.sessions.insert(id, now + self.length);
                Reply::Session(id)
            }
            Request::Renew(id) => {
                let end = self.sessions.get_mut(&id);
                Reply::Renewed(end.map(|end| *end = now + self.length).is_some())
            }
            Request::Record(number, Question::Look) => {
                Reply::Record(number, Answer::Stands(self.records.get(&host).copied()))
            }
            Request::Record(number, Question::Write(write)) => {
                Reply::Record(number, self.write(host, write))
            }
            Request::All => {
                let grants = self.records.iter().map(|(host, record)| (*host, record.grant));
                Reply::All(self.revision, self.terms, grants.collect())
            }
        }
    }

    /// The limit at present.
    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    /// Somebody changes the limit.
    pub(super) fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
        self.change();
    }

    fn end_sessions(&mut self, now: Instant) {
        self.sessions.retain(|_, end| now < *end);
        let before = self.records.len();
        let Store { sessions, records, .. } = self;
        records.retain(|_, record| sessions.contains_key(&record.session));
        if self.records.len() < before {
            self.change();
        }
    }

    fn change(&mut self) -> Revision {
        self.revision = Revision(self.revision.0 + 1);
        self.revision
    }

    fn write(&mut self, host: usize, write: GrantWrite) -> Answer {
        let own = self.records.get(&host).copied();
        let is_legal = own.map(|record| record.changed) == write.own
            && write.all.is_none_or(|all| self.revision <= all)
            && self.sessions.contains_key(&write.session);
        if !is_legal {
            return Answer::Stands(own);
        }
        let changed = self.change();
        let record = GrantRecord { changed, session: write.session, grant: write.grant };
        self.records.insert(host, record);
        Answer::Done(changed)
    }
}
