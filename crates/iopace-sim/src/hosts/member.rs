//! A host's part in a store: its session, its record and its grant.
//!
//! A turn is that of the daemon, question by question: the session is opened or renewed, all is
//! read, the share of the limit is asked for, and the record is published, if it is news. The
//! session counts from the last read as well.

use super::store::{HostNews, SESSION, StoreAnswer, StoreQuestion, StoreView};
use iopace_core::cluster::{
    Allowance, Answer, Demand, Holder, HostRecord, SeenGrants, Session, SessionId, Terms, merged,
    shares,
};
use iopace_core::time::{Instant, Nanos};
use std::mem::replace;

/// A session is renewed when so much of its length is over: one renewal may be lost.
const RENEW_PART: u64 = 3;

/// Questions about the limit in a turn: an answer that says how the record stands may bring
/// another one.
const GRANT_QUESTIONS: u32 = 3;

/// Wishes that have changed by less than this part are not published.
const WISH_PART: u64 = 8;

/// The session of a host.
#[derive(Clone, Copy, Debug)]
struct OwnSession {
    session: Session,
    /// When its last renewal was sent, and the last read that was answered.
    renewed: Instant,
    read: Instant,
}

impl OwnSession {
    fn begun(id: SessionId, sent: Instant) -> OwnSession {
        let session = Session::begun(id, sent, SESSION);
        OwnSession { session, renewed: sent, read: sent }
    }

    /// It counts from then.
    fn since(&self) -> Instant {
        self.renewed.min(self.read)
    }
}

/// The question that waits for its answer.
#[derive(Clone, Copy, Debug)]
enum MemberStep {
    /// None: the turn is over.
    Idle,
    /// A renewal that was sent then; whether the session lasts by the host's clock.
    Renewing(Instant, bool),
    /// A session is ended in which the host takes no part, and whether another one is opened then.
    Ending(bool),
    Opening(Instant),
    Joining(OwnSession),
    Reading(Instant),
    /// The number of a question of the holder, and how many more there may be.
    Asking(u64, u32),
    Publishing,
    PublishingOthers,
}

/// The host's part.
#[derive(Debug)]
pub(super) struct StoreMember {
    own: usize,
    /// Its record is the sum of a cell.
    is_of_cell: bool,
    session: Option<OwnSession>,
    /// Its part in the limit, if there is one.
    pub(super) holder: Option<Holder>,
    /// The store as it was last read.
    pub(super) view: StoreView,
    news: HostNews,
    published: Option<HostNews>,
    step: MemberStep,
    /// Whether the last turn went through.
    pub(super) has_joined: bool,
}

impl StoreMember {
    /// A host of that number, which knows the terms of the limit, if there is one.
    pub(super) fn new(own: usize, terms: Option<Terms>) -> StoreMember {
        StoreMember {
            own,
            is_of_cell: false,
            session: None,
            holder: terms.map(Holder::new),
            view: StoreView::default(),
            news: HostNews::default(),
            published: None,
            step: MemberStep::Idle,
            has_joined: false,
        }
    }

    /// The part of a cell of that number in the upper store.
    pub(super) fn of_cell(cell: usize) -> StoreMember {
        StoreMember { is_of_cell: true, ..StoreMember::new(cell, None) }
    }

    /// A turn begins: the first question of it. `news` is what the host would publish.
    pub(super) fn begin(&mut self, now: Instant, news: HostNews) -> StoreQuestion {
        self.news = news;
        let Some(OwnSession { session, renewed, .. }) = self.session else {
            return self.open(now);
        };
        let is_on = session.is_on(now);
        if is_on && now.since(renewed) < Nanos(SESSION.0 / RENEW_PART) {
            return self.read(now);
        }
        self.step = MemberStep::Renewing(now, is_on);
        StoreQuestion::Renew(session.id)
    }

    fn open(&mut self, now: Instant) -> StoreQuestion {
        self.step = MemberStep::Opening(now);
        StoreQuestion::Open
    }

    fn read(&mut self, now: Instant) -> StoreQuestion {
        self.step = MemberStep::Reading(now);
        StoreQuestion::Read
    }

    /// The next question of the turn; none: it is over.
    pub(super) fn heard(&mut self, now: Instant, answer: StoreAnswer) -> Option<StoreQuestion> {
        self.has_joined = false;
        match (replace(&mut self.step, MemberStep::Idle), answer) {
            (MemberStep::Renewing(sent, true), StoreAnswer::Done(true)) => {
                self.session.as_mut()?.renewed = sent;
                Some(self.read(now))
            }
            (MemberStep::Renewing(_, false), StoreAnswer::Done(true)) => {
                // The records of a session that has ended by the host's clock may be there still.
                let id = self.session?.session.id;
                self.lose_session();
                self.step = MemberStep::Ending(true);
                Some(StoreQuestion::End(id))
            }
            (MemberStep::Renewing(..), _) => {
                self.lose_session();
                Some(self.open(now))
            }
            (MemberStep::Ending(true), _) => Some(self.open(now)),
            (MemberStep::Opening(sent), StoreAnswer::Opened(id)) => {
                self.step = MemberStep::Joining(OwnSession::begun(id, sent));
                Some(StoreQuestion::Publish(id, self.news.clone()))
            }
            (MemberStep::Joining(own), StoreAnswer::Done(true)) => {
                self.published = Some(self.news.clone());
                self.session = Some(own);
                self.holder.iter_mut().for_each(|holder| holder.begin(own.session));
                Some(self.read(now))
            }
            (MemberStep::Joining(own), _) => {
                // The record of a session before is there still.
                self.step = MemberStep::Ending(false);
                Some(StoreQuestion::End(own.session.id))
            }
            (MemberStep::Reading(sent), StoreAnswer::Seen(view)) => self.seen(now, sent, view),
            (MemberStep::Asking(number, left), StoreAnswer::Grant(answer)) => {
                self.holder.as_mut()?.answered(number, answer);
                self.ask(now, left)
            }
            (MemberStep::Publishing, StoreAnswer::Done(true)) => {
                self.published = Some(self.news.clone());
                self.over()
            }
            (MemberStep::PublishingOthers, StoreAnswer::Done(true)) => self.over(),
            _ => None,
        }
    }

    fn over(&mut self) -> Option<StoreQuestion> {
        self.has_joined = true;
        None
    }

    /// There was no answer in time: the turn is over.
    pub(super) fn gave_up(&mut self) {
        self.has_joined = false;
        if let MemberStep::Asking(number, _) = replace(&mut self.step, MemberStep::Idle)
            && let Some(holder) = &mut self.holder
        {
            holder.answered(number, Answer::Nothing);
        }
    }

    fn lose_session(&mut self) {
        (self.session, self.published) = (None, None);
        self.holder.iter_mut().for_each(Holder::forget);
    }

    /// The store as it was after `sent`.
    fn seen(&mut self, now: Instant, sent: Instant, view: StoreView) -> Option<StoreQuestion> {
        self.view = view;
        let mut own = self.session?;
        if self.view.hosts.get(&self.own).is_none_or(|(id, _)| *id != own.session.id) {
            self.lose_session();
            return None;
        }
        own.read = sent;
        own.session.renewed(own.since(), SESSION);
        self.session = Some(own);
        if let Some(holder) = &mut self.holder {
            holder.noted(self.view.at, self.view.grants.get(&self.own).copied());
            holder.renewed(own.since(), SESSION);
        }
        self.ask(now, GRANT_QUESTIONS)
    }

    /// The next question about the limit, or the record.
    fn ask(&mut self, now: Instant, left: u32) -> Option<StoreQuestion> {
        let StoreView { at, hosts, grants, .. } = &self.view;
        let place = hosts.keys().position(|host| *host == self.own)?;
        if left > 0
            && let Some(holder) = &mut self.holder
        {
            let demand = |(_, news): &(_, HostNews)| Demand {
                wanted: news.wanted,
                weight: 1,
                ..Demand::default()
            };
            let demands: Vec<Demand> = hosts.values().map(demand).collect();
            let share = shares(holder.terms().grantable(), &demands)[place];
            let others = grants.iter().filter(|(host, _)| **host != self.own);
            let others = Allowance(others.map(|(_, record)| record.grant.0).sum());
            if let Some((number, question)) =
                holder.wish(now, share, SeenGrants { at: *at, others })
            {
                self.step = MemberStep::Asking(number, left - 1);
                return Some(StoreQuestion::Grant(question));
            }
        }
        let is_worth = |before: &HostNews| {
            let (was, is) = (before.wanted.0, self.news.wanted.0);
            let is_changed = self.is_of_cell && self.news != *before;
            is_changed
                || is.abs_diff(was) > is.max(was) / WISH_PART
                || self.news.record.is_news(&before.record)
        };
        if !self.published.as_ref().is_none_or(is_worth) {
            return self.over();
        }
        self.step = MemberStep::Publishing;
        Some(StoreQuestion::Publish(self.session?.session.id, self.news.clone()))
    }

    /// The sum of the records of all but its own.
    pub(super) fn others(&self) -> HostRecord {
        let others = self.view.hosts.iter().filter(|(number, _)| **number != self.own);
        let others: Vec<HostRecord> = others.map(|(_, (_, news))| news.record.clone()).collect();
        merged(&others)
    }

    /// Publishes the sum of all other cells, if it is another one than the store has: hosts have
    /// told of what is worth it, and small errors of many sums would add up.
    pub(super) fn publish_others(&mut self, sum: HostRecord) -> Option<StoreQuestion> {
        let id = self.session?.session.id;
        if self.view.others.as_ref() == Some(&(id, sum.clone())) {
            return None;
        }
        self.step = MemberStep::PublishingOthers;
        Some(StoreQuestion::PublishOthers(id, sum))
    }
}
