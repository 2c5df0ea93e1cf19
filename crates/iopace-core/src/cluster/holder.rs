//! A host's part in one limit: what it may use, and what it asks of the store.

use super::{Allowance, Revision, Session, SessionId, Terms};
use crate::time::{Instant, Nanos};
use crate::units::scaled;

/// A grant is changed when a sixteenth of the wanted share is missing, or is too much: a write for
/// each small change would be all that the store does.
const WORTH_PART: u64 = 16;

/// While less than this part of what may be granted is free, a 256th too much is given back.
const TIGHT_PART: u64 = 32;

/// A change of a host's record that the store carries out as a whole or not at all, and only if:
/// - the record was last changed at `own`, or is not there if that is none, and
/// - no record of the limit, its terms included, was changed after `all`, if that is said, and
/// - the session is one that the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantWrite {
    /// The grant from then on.
    pub grant: Allowance,
    /// The session that the record goes with.
    pub session: SessionId,
    /// See above.
    pub own: Option<Revision>,
    /// See above.
    pub all: Option<Revision>,
}

/// A question of a host to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Carry this out.
    Write(GrantWrite),
    /// Say how the host's own record stands.
    Look,
}

/// A host's record as it stands in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// When it was last changed.
    pub changed: Revision,
    /// The session that it goes with.
    pub session: SessionId,
    /// The grant.
    pub grant: Allowance,
}

/// The store's answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The write was carried out, with this revision.
    Done(Revision),
    /// A condition of the write does not hold, or it was asked for: so the host's record stands.
    Stands(Option<GrantRecord>),
    /// There was none in time: it may have been carried out, or be carried out later.
    Nothing,
}

/// The grants of the other hosts as of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenGrants {
    /// No change up to this one is missing.
    pub at: Revision,
    /// The sum of the grants of the others.
    pub others: Allowance,
}

/// How the host's record stands, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// There is none.
    Nothing,
    /// That of this session.
    Own(Revision, Allowance),
    /// That of a session before, which the store will remove some time.
    Former(Revision),
    /// It is not known what became of a write.
    Unknown,
}

impl Stored {
    /// The condition for the next write, and what the record grants to this session.
    fn stands(self) -> Option<(Option<Revision>, Allowance)> {
        match self {
            Stored::Nothing => Some((None, Allowance(0))),
            Stored::Own(changed, grant) => Some((Some(changed), grant)),
            Stored::Former(changed) => Some((Some(changed), Allowance(0))),
            Stored::Unknown => None,
        }
    }
}

/// A host's part in one limit.
///
/// ```text
///   begin ──► (wish ──► Question ──► answered)*     one question at a time
///             allowed(now) at any time
/// ```
/// A write without an answer may still be carried out, much later. What the host uses is the least
/// of all that its record may say until then; and it uses more only after another change of its
/// record, which makes the condition of the lost write fail for ever.
#[derive(Clone, Debug)]
pub struct Holder {
    terms: Terms,
    session: Option<Session>,
    stored: Stored,
    /// The part that is used: the store has it for this session, whatever becomes of writes under
    /// way.
    granted: Allowance,
    /// The question that is under way, and the number of the last one.
    asked: Option<Question>,
    sequence: u64,
    /// The condition of writes that were never answered.
    lost: Option<Option<Revision>>,
    /// The limit was lowered: no more than this is used, and the record has to say so.
    most: Option<Allowance>,
    /// A raise was refused that went by what was seen as of then.
    refused: Option<Revision>,
}

impl Holder {
    /// A host that has no grant yet.
    pub fn new(terms: Terms) -> Holder {
        Holder {
            terms,
            session: None,
            stored: Stored::Nothing,
            granted: Allowance(0),
            asked: None,
            sequence: 0,
            lost: None,
            most: None,
            refused: None,
        }
    }

    /// The limit was changed. If it was lowered, what is left of the grant is all that is used from
    /// now on.
    pub fn set_terms(&mut self, terms: Terms) {
        let (before, now) = (self.terms.cut, terms.cut);
        let is_same = terms.set == self.terms.set;
        self.terms = terms;
        if is_same && now == before {
            return;
        }
        // Nothing was granted of another limit.
        let is_next = is_same && now.lowered_count == before.lowered_count.wrapping_add(1);
        let part = if is_next { scaled(self.granted.0, now.kept.0, now.of.0) } else { 0 };
        self.granted = Allowance(part);
        self.most = Some(self.granted);
    }

    /// The limit as the host knows it.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The grant of the host, as far as it may be used.
    pub fn granted(&self) -> Allowance {
        self.granted
    }

    /// The host's allowance now: more than the static part only while the session lasts.
    pub fn allowed(&self, now: Instant) -> Allowance {
        let granted = if self.has_session(now) { self.granted } else { Allowance(0) };
        Allowance(self.terms.static_part().0 + granted.0)
    }

    /// Until when [`Holder::allowed`] stays as it is if nothing comes; none: for ever.
    pub fn until(&self) -> Option<Instant> {
        self.session.filter(|_| self.granted > Allowance(0)).map(|session| session.end)
    }

    /// Whether there is a session that lasts. One that has ended is not renewed any more: another
    /// one has to [begin](Holder::begin).
    pub fn has_session(&self, now: Instant) -> bool {
        self.session.is_some_and(|session| session.is_on(now))
    }

    /// A new session is there; that before counts no more, nor what it was granted.
    pub fn begin(&mut self, session: Session) {
        self.forget();
        self.session = Some(session);
    }

    /// The session was renewed by what was sent at `sent`, for so long.
    pub fn renewed(&mut self, sent: Instant, length: Nanos) {
        if let Some(session) = &mut self.session {
            session.renewed(sent, length);
        }
    }

    /// The store does not know the session any more.
    pub fn forget(&mut self) {
        (self.session, self.granted, self.asked) = (None, Allowance(0), None);
        self.refused = None;
        // A session that begins later is granted by the terms as they are.
        self.most = None;
        // A record may be there still, and writes of the session before find no session any more.
        (self.stored, self.lost) = (Stored::Unknown, None);
    }

    /// The host is to have `share` of what may be granted, as the shares of all are by what was
    /// seen: what to ask the store for, with the number that the answer is to have.
    pub fn wish(
        &mut self,
        now: Instant,
        share: Allowance,
        seen: SeenGrants,
    ) -> Option<(u64, Question)> {
        let session = self.session.filter(|session| session.is_on(now))?;
        if self.asked.is_some() {
            return None;
        }
        let Some((own, held)) = self.stored.stands() else { return self.ask(Question::Look) };
        let write =
            |grant, all| Question::Write(GrantWrite { grant, session: session.id, own, all });
        if self.lost.is_some() {
            return self.ask(write(self.granted, None));
        }
        let grantable = self.terms.grantable().0;
        let free = grantable.saturating_sub(seen.others.0);
        self.most = self.most.filter(|most| held > *most);
        if let Some(most) = self.most {
            // The record has to say that it is less before anything else is asked for.
            self.granted = share.min(most);
            return self.ask(write(self.granted, None));
        }
        // Others that have not said yet that they have less make nobody have less than his share.
        let wanted = if share < held { share.0 } else { share.0.min(free).max(held.0) };
        let worth = scaled(wanted, 1, WORTH_PART);
        // Where little is free, what is too much here is missing elsewhere.
        let is_tight = free.saturating_sub(held.0) < scaled(grantable, 1, TIGHT_PART);
        let kept = if is_tight { worth / WORTH_PART } else { worth };
        if wanted.saturating_add(kept) < held.0 {
            // Less is used from now on, and the store is told then.
            self.granted = Allowance(wanted);
            return self.ask(write(self.granted, None));
        }
        self.granted = self.granted.max(Allowance(wanted).min(held));
        // The host's own last change is one that has to be seen, too; and what was refused would be
        // again.
        let is_new = own.is_none_or(|own| seen.at >= own)
            && self.refused.is_none_or(|refused| seen.at > refused);
        let is_worth = wanted > held.0.saturating_add(worth);
        if is_worth && is_new { self.ask(write(Allowance(wanted), Some(seen.at))) } else { None }
    }

    /// The host's record was seen as it stands at that revision. If it is another one than the
    /// store has said, somebody else has changed it, and others may have what it said.
    pub fn noted(&mut self, at: Revision, record: Option<GrantRecord>) {
        let Stored::Own(changed, _) = self.stored else { return };
        let is_old = at < changed || self.asked.is_some();
        if !is_old && record.map(|record| record.changed) != Some(changed) {
            self.stands(record);
        }
    }

    fn ask(&mut self, question: Question) -> Option<(u64, Question)> {
        self.asked = Some(question);
        self.sequence += 1;
        Some((self.sequence, question))
    }

    /// The answer to the question with that number. That to any other one is none of its business.
    pub fn answered(&mut self, sequence: u64, answer: Answer) {
        if sequence != self.sequence {
            return;
        }
        let Some(asked) = self.asked.take() else { return };
        match (asked, answer) {
            (Question::Write(write), Answer::Done(revision)) => {
                self.stored = Stored::Own(revision, write.grant);
                // One that was asked for before the limit was lowered may come to more.
                self.granted = self.most.map_or(write.grant, |most| most.min(write.grant));
                self.most = self.most.filter(|most| write.grant > *most);
                self.lost = None;
            }
            (Question::Write(write), Answer::Nothing) => {
                self.stored = Stored::Unknown;
                self.lost = Some(write.own);
            }
            (asked, Answer::Stands(record)) => {
                // The own record is as it was: so another one has changed.
                if let Question::Write(GrantWrite { own, all: Some(all), .. }) = asked
                    && record.map(|record| record.changed) == own
                {
                    self.refused = Some(all);
                }
                self.stands(record);
            }
            (Question::Look, _) => {}
        }
    }

    fn stands(&mut self, record: Option<GrantRecord>) {
        let id = self.session.map(|session| session.id);
        self.stored = match record {
            None => Stored::Nothing,
            Some(record) if Some(record.session) == id => Stored::Own(record.changed, record.grant),
            Some(record) => Stored::Former(record.changed),
        };
        let (own, held) = self.stored.stands().unwrap_or_default();
        self.granted = self.granted.min(held);
        // Lost writes had another condition: they fail from now on.
        if self.lost.is_some_and(|condition| condition != own) {
            self.lost = None;
        }
    }
}
