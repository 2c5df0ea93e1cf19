//! One host of a history: it looks at the store, renews its session and asks for its share.

use super::store::{Reply, Request};
use super::{LENGTH, Planted, TERMS};
use iopace_core::cluster::{
    Allowance, Answer, Demand, Holder, Question, Revision, SeenGrants, Session, SessionId, shares,
};
use iopace_core::time::{Instant, Nanos};

/// A question is given up after this time.
const PATIENCE: Nanos = Nanos::from_millis(800);

/// A session is renewed when so much of its length is over: one renewal may be lost.
const RENEW_PART: u64 = 3;

/// A host, which knows nothing but its own clock and what it is told.
#[derive(Debug)]
pub(super) struct Host {
    number: usize,
    planted: Option<Planted>,
    holder: Holder,
    /// Its session, and when the last renewal was sent.
    session: Option<(SessionId, Instant)>,
    /// When it asked for a session, if it waits for one.
    opening: Option<Instant>,
    /// The number of a question, and when it was asked.
    asked: Option<(u64, Instant)>,
    /// When the last renewal was sent that was answered, and the last look.
    renewed: Instant,
    read: Instant,
    /// The grants of all, as it saw them last.
    seen: (Revision, Vec<(usize, Allowance)>),
    /// The wishes of each host: published by a way of its own, and never wrong for long.
    pub(super) demands: Vec<Demand>,
}

impl Host {
    pub(super) fn new(number: usize, planted: Option<Planted>, demands: Vec<Demand>) -> Host {
        Host {
            number,
            planted,
            holder: Holder::new(TERMS),
            session: None,
            opening: None,
            asked: None,
            renewed: Instant::ZERO,
            read: Instant::ZERO,
            seen: (Revision(0), Vec::new()),
            demands,
        }
    }

    /// The amount that it uses at this instant of its clock, if it has as much to do.
    pub(super) fn used(&self, now: Instant) -> Allowance {
        match (self.planted, self.holder.until()) {
            // The grant is used on, whether the session lasts or not.
            (Some(Planted::NoEnd), Some(end)) => {
                self.holder.allowed(Instant(now.0.min(end.0.saturating_sub(1))))
            }
            _ => self.holder.allowed(now),
        }
    }

    /// The part of the limit that is due to it, by the demands of all.
    pub(super) fn due(&self) -> Allowance {
        shares(self.holder.terms().grantable(), &self.demands)[self.number]
    }

    /// A turn, some times a second: the requests that it sends.
    pub(super) fn turn(&mut self, now: Instant) -> Vec<Request> {
        let mut sent = vec![Request::All];
        if let Some((number, since)) = self.asked
            && now.since(since) > PATIENCE
        {
            self.asked = None;
            self.holder.answered(number, Answer::Nothing);
        }
        if !self.holder.has_session(now) {
            self.session = None;
        }
        match &mut self.session {
            Some((id, renewed)) if now.since(*renewed) > Nanos(LENGTH.0 / RENEW_PART) => {
                *renewed = now;
                sent.push(Request::Renew(*id));
            }
            Some(_) => {}
            None if self.opening.is_none_or(|since| now.since(since) > PATIENCE) => {
                self.opening = Some(now);
                sent.push(Request::Open);
            }
            None => {}
        }
        let others = self.seen.1.iter().filter(|(host, _)| *host != self.number);
        let seen = SeenGrants {
            at: self.seen.0,
            others: Allowance(others.map(|(_, grant)| grant.0).sum()),
        };
        if self.asked.is_none()
            && let Some((number, ask)) = self.holder.wish(now, self.due(), seen)
        {
            self.asked = Some((number, now));
            sent.push(Request::Record(number, self.forged(ask)));
        }
        sent
    }

    /// As a planted fault has it.
    fn forged(&self, ask: Question) -> Question {
        match (self.planted, ask) {
            (Some(Planted::NoCondition), Question::Write(mut write)) => {
                write.all = None;
                Question::Write(write)
            }
            (_, ask) => ask,
        }
    }

    /// A reply comes to what was sent at `sent`, both by its own clock.
    pub(super) fn hear(&mut self, now: Instant, sent: Instant, reply: Reply) {
        // A clock that is trusted: counted from the reply on, and to the last moment.
        let (since, length) = match self.planted {
            Some(Planted::TrustedClock) => (now, Nanos(LENGTH.0 / 31 * 32)),
            _ => (sent, LENGTH),
        };
        match reply {
            Reply::Session(id) if self.opening == Some(sent) => {
                self.opening = None;
                self.session = Some((id, sent));
                self.asked = None;
                (self.renewed, self.read) = (since, since);
                self.holder.begin(Session::begun(id, since, length));
            }
            // The answer to a question that was given up: the store ends it by itself.
            Reply::Session(_) => {}
            Reply::Renewed(true) => {
                self.renewed = self.renewed.max(since);
                self.lasts(length);
            }
            Reply::Renewed(false) => {
                self.session = None;
                self.asked = None;
                self.holder.forget();
            }
            Reply::Record(number, answer) => {
                if self.asked.is_some_and(|(asked, ..)| asked == number) {
                    self.asked = None;
                    self.holder.answered(number, answer);
                }
            }
            Reply::All(revision, terms, grants) if revision >= self.seen.0 => {
                self.seen = (revision, grants);
                if self.planted != Some(Planted::OldTerms) {
                    self.holder.set_terms(terms);
                }
                self.read = self.read.max(since);
                self.lasts(length);
            }
            Reply::All(..) => {}
        }
    }

    /// A session counts from the last look as well: it knows the limit of then at least.
    fn lasts(&mut self, length: Nanos) {
        self.holder.renewed(self.renewed.min(self.read), length);
    }
}
