//! A host's part in one volume: its session, its slot, its grants.
//!
//! A turn, some times a second:
//! 1. The session is opened or renewed.
//! 2. All of the volume is read at once. A session counts from the last read as well: so no host
//!    goes by a limit that was changed longer ago than a session lasts.
//! 3. A slot is taken, if the host has none: the right to the static part of every limit.
//! 4. For each limit, the share by what all hosts want, and the question to the store about it.
//! 5. What the host wants is published, if it has changed.
//!
//! The store may be lost at each step. The turn ends then, and the host goes by what it has.

use super::questions::put_question;
use super::records::{HostValue, Keys, LimitKey, SlotRecord, VolumeRecord};
use super::store::{Condition, Store, StoreChange, StoreError, StoreOutcome, StorePut};
use super::view::VolumeView;
use super::weighing;
use crate::clock;
use iopace_core::cluster::{
    Allowance, Answer, Holder, Question, Revision, Session, SessionId, Terms, shares,
};
use iopace_core::time::{Instant, Nanos};
use serde::Serialize;
use std::collections::BTreeMap;

/// The length of a session: etcd grants no shorter ones than its election takes (1 s by default,
/// and half as much again), and after so long without a host its grants are free for others.
pub(super) const SESSION: Nanos = Nanos::from_secs(5);

/// A session is renewed when so much of its length is over: one renewal may be lost.
const RENEW_PART: u64 = 3;

/// A wish that has changed by less than this part is not published.
const WORTH_PART: u64 = 8;

/// How a host stands with the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreContact {
    /// It has a session, and the last turn went through.
    Joined,
    /// The last turn did not go through: why, and since when.
    Dark(StoreError, Instant),
}

/// What a limit lets the host have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) limit: Allowance,
    /// Now.
    pub(super) now: Allowance,
    /// From an instant on, whoever says nothing more, and from when; none: that is so already.
    pub(super) then: Option<(Instant, Allowance)>,
}

/// The session of the host.
#[derive(Clone, Copy, Debug)]
struct Ours {
    session: Session,
    /// When its last renewal was sent.
    renewed: Instant,
    /// When all was asked for that was read last.
    read: Instant,
}

impl Ours {
    /// Since then it lasts.
    fn since(&self) -> Instant {
        self.renewed.min(self.read)
    }
}

/// Has the engine go by what the limits let the host have now.
pub(super) type HoldLimits<'a> = dyn FnMut(&VolumeMember) + 'a;

/// The host's part in a volume.
#[derive(Debug)]
pub(super) struct VolumeMember {
    keys: Keys,
    host: String,
    /// Of the volume, if nobody has said any before.
    first: VolumeRecord,
    ours: Option<Ours>,
    parts: BTreeMap<LimitKey, Holder>,
    /// The number of its static part.
    pub(super) slot: Option<u32>,
    /// The volume as it was last seen.
    pub(super) view: VolumeView,
    pub(super) standing: StoreContact,
    /// When all was asked for that was read last; none: nothing since the start.
    pub(super) seen: Option<Instant>,
    published: Option<HostValue>,
}

impl VolumeMember {
    /// A host that has not asked the store yet.
    pub(super) fn new(keys: Keys, host: &str, first: VolumeRecord) -> VolumeMember {
        VolumeMember {
            keys,
            host: host.to_owned(),
            first,
            ours: None,
            parts: BTreeMap::new(),
            slot: None,
            view: VolumeView::default(),
            standing: StoreContact::Dark(
                StoreError::Unreachable("it was not asked yet".into()),
                clock::now(),
            ),
            seen: None,
            published: None,
        }
    }

    /// Goes by what was kept of a time before: the slot and the terms.
    pub(super) fn remember(&mut self, slot: Option<u32>, terms: Vec<(LimitKey, Terms)>) {
        self.slot = slot;
        for (key, terms) in terms {
            self.parts.insert(key, Holder::new(terms));
        }
    }

    /// The terms of all limits as the host knows them.
    pub(super) fn terms(&self) -> Vec<(LimitKey, Terms)> {
        self.parts.iter().map(|(key, holder)| (key.clone(), holder.terms())).collect()
    }

    /// How long the session lasts by the host's own clock if it is not renewed; zero: it is over.
    pub(super) fn session_left(&self, now: Instant) -> Nanos {
        self.ours.map_or(Nanos::ZERO, |ours| ours.session.end.since(now))
    }

    /// What each limit lets the host have.
    pub(super) fn allowed(&self, now: Instant) -> Vec<(LimitKey, Allowed)> {
        let of = |(key, holder): (&LimitKey, &Holder)| {
            let terms = holder.terms();
            // Without a slot there is no static part: one byte keeps the meters going.
            let missing = if self.slot.is_none() { terms.static_part().0 } else { 0 };
            let least = |allowed: u64| Allowance(allowed.saturating_sub(missing).max(1));
            let then = holder.until().filter(|_| holder.has_session(now));
            let then = then.map(|at| (at, least(terms.static_part().0)));
            (key.clone(), Allowed { limit: terms.limit, now: least(holder.allowed(now).0), then })
        };
        self.parts.iter().map(of).collect()
    }

    /// A turn. `wishes` is what the host would publish. `hold` is called whenever what is allowed
    /// may have changed, and before the store is told that it is less: an answer may take seconds.
    pub(super) fn turn(
        &mut self,
        store: &mut dyn Store,
        wishes: &HostValue,
        hold: &mut HoldLimits<'_>,
    ) {
        let turn = self.try_turn(store, wishes, hold);
        self.standing = match (turn, &self.standing) {
            (Ok(()), _) => StoreContact::Joined,
            (Err(error), StoreContact::Joined) => StoreContact::Dark(error, clock::now()),
            (Err(error), StoreContact::Dark(_, since)) => StoreContact::Dark(error, *since),
        };
    }

    fn try_turn(
        &mut self,
        store: &mut dyn Store,
        wishes: &HostValue,
        hold: &mut HoldLimits<'_>,
    ) -> Result<(), StoreError> {
        self.keep_session(store, wishes, hold)?;
        self.look(store)?;
        hold(self);
        self.take_slot(store)?;
        self.ask(store, hold)?;
        self.publish(store, wishes)
    }

    /// Opens a session, or renews it when it is time.
    fn keep_session(
        &mut self,
        store: &mut dyn Store,
        wishes: &HostValue,
        hold: &mut HoldLimits<'_>,
    ) -> Result<(), StoreError> {
        let now = clock::now();
        if let Some(ours) = &mut self.ours {
            let id = ours.session.id;
            let is_on = ours.session.is_on(now);
            if is_on && now.since(ours.renewed) < Nanos(SESSION.0 / RENEW_PART) {
                return Ok(());
            }
            match store.renew(id) {
                Ok(()) if is_on => {
                    ours.renewed = now;
                    return Ok(());
                }
                // The records of a session that has ended by our clock may be there still.
                Ok(()) => _ = store.end(id),
                Err(StoreError::NoSession) => {}
                Err(error) => return Err(error),
            }
            self.lose_session();
            // Others may have had its grants for long.
            hold(self);
        }
        let sent = clock::now();
        let id = store.open(SESSION)?;
        let record = self.put(self.keys.host(&self.host), wishes, Some(id));
        let first = StoreChange {
            conditions: vec![Condition::Absent(record.key.clone())],
            look: Some(record.key.clone()),
            puts: vec![record],
            ..StoreChange::default()
        };
        let is_twin = match store.change(&first)? {
            StoreOutcome::Refused(found) => found.is_none_or(|found| found.session != Some(id)),
            StoreOutcome::Done(_) => false,
        };
        if is_twin {
            store.end(id)?;
            let host = &self.host;
            return Err(StoreError::Refused(format!(
                "another daemon is the host '{host}' there, or this one was until it was killed: \
                 then its session ends within {} s and this one takes its place by itself; else \
                 give each daemon a `host` of its own",
                SESSION.0 / 1_000_000_000
            )));
        }
        self.published = Some(wishes.clone());
        let session = Session::begun(id, sent, SESSION);
        self.ours = Some(Ours { session, renewed: sent, read: sent });
        self.parts.values_mut().for_each(|holder| holder.begin(session));
        Ok(())
    }

    fn lose_session(&mut self) {
        (self.ours, self.published) = (None, None);
        self.parts.values_mut().for_each(Holder::forget);
    }

    /// Reads all of the volume.
    fn look(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        let sent = clock::now();
        let view = VolumeView::of(&self.keys, &store.read(&self.keys.root)?);
        let is_older = view.at < self.view.at;
        let is_empty = view.volume.is_none() && (self.slot.is_some() || !self.parts.is_empty());
        if is_older || is_empty {
            // Whatever it has granted is unknown to it.
            self.lose_session();
            return Err(StoreError::Refused(format!(
                "{}: limits hold as this host knew them; if that is meant, end the daemons of all \
                 hosts and remove cluster-VOLUME.json of their `state`",
                if is_empty { "nothing is left of the volume" } else { "it has gone back in time" }
            )));
        }
        (self.view, self.seen) = (view, Some(sent));
        let Some(ours) = &mut self.ours else { return Ok(()) };
        let id = ours.session.id;
        if self.view.hosts.get(&self.host).is_none_or(|host| host.session != Some(id)) {
            self.lose_session();
            return Err(StoreError::NoSession);
        }
        ours.read = sent;
        ours.session.renewed(ours.since(), SESSION);
        let ours = *ours;
        self.slot = self.view.slot_of(&self.host);
        let VolumeView { limits, unread, .. } = &self.view;
        self.parts.retain(|key, _| limits.contains_key(key) || unread.contains(key));
        for (key, limit) in &self.view.limits {
            let holder = self.parts.entry(key.clone()).or_insert_with(|| {
                let mut holder = Holder::new(limit.terms);
                holder.begin(ours.session);
                holder
            });
            holder.set_terms(limit.terms);
            holder.noted(self.view.at, limit.grants.get(&self.host).copied());
            holder.renewed(ours.since(), SESSION);
        }
        Ok(())
    }

    /// Takes a free slot, if the host has none.
    fn take_slot(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        if self.slot.is_some() {
            return Ok(());
        }
        let hosts_max = match self.view.volume {
            Some(volume) => volume.hosts_max,
            None => {
                let put = self.put(self.keys.volume(), &self.first, None);
                store.change(&if_absent(put))?;
                return Ok(());
            }
        };
        let free = (0..hosts_max).find(|number| !self.view.slots.contains_key(number));
        let Some(number) = free else { return Ok(()) };
        let put = self.put(self.keys.slot(number), &SlotRecord { host: self.host.clone() }, None);
        if let StoreOutcome::Done(_) = store.change(&if_absent(put))? {
            self.slot = Some(number);
        }
        Ok(())
    }

    /// Asks for the share of each limit.
    fn ask(&mut self, store: &mut dyn Store, hold: &mut HoldLimits<'_>) -> Result<(), StoreError> {
        let keys: Vec<LimitKey> = self.view.limits.keys().cloned().collect();
        for key in &keys {
            // An answer that says how the record stands may bring another question.
            for _ in 0..3 {
                let before = self.part(key);
                let Some((number, question, set)) = self.wish(key) else { break };
                if self.part(key) != before {
                    hold(self);
                }
                let place = (&self.keys, key, &*self.host, set);
                let answer = put_question(store, place, question);
                let heard = answer.as_ref().map_or(Answer::Nothing, |answer| *answer);
                if let Some(holder) = self.parts.get_mut(key) {
                    holder.answered(number, heard);
                }
                if answer == Err(StoreError::NoSession) {
                    self.lose_session();
                }
                answer?;
                if self.part(key) != before {
                    hold(self);
                }
            }
        }
        Ok(())
    }

    /// What a limit lets the host have now.
    fn part(&self, key: &LimitKey) -> Option<Allowance> {
        Some(self.parts.get(key)?.allowed(clock::now()))
    }

    /// What to ask about a limit, with the number that the answer is to have and when the limit was
    /// set.
    fn wish(&mut self, key: &LimitKey) -> Option<(u64, Question, Revision)> {
        let at = self.view.hosts.keys().position(|host| *host == self.host)?;
        let limit = self.view.limits.get(key)?;
        let all = shares(limit.terms.grantable(), &self.view.demands(key));
        let seen = self.view.others(limit, &self.host);
        let (number, question) = self.parts.get_mut(key)?.wish(clock::now(), all[at], seen)?;
        Some((number, question, limit.terms.set))
    }

    /// Tells the others what the host wants, if it is something else than before.
    fn publish(&mut self, store: &mut dyn Store, wishes: &HostValue) -> Result<(), StoreError> {
        let Some(ours) = &self.ours else { return Ok(()) };
        let id = ours.session.id;
        if self.published.as_ref().is_some_and(|before| !is_worth(before, wishes)) {
            return Ok(());
        }
        let put = self.put(self.keys.host(&self.host), wishes, Some(id));
        // Only over our own: nobody takes the name of a host that has none for a moment.
        let change = StoreChange { puts: vec![put], ..StoreChange::default() };
        store.change(&change)?;
        self.published = Some(wishes.clone());
        Ok(())
    }

    /// Ends the session, so that others need not wait for its end.
    pub(super) fn leave(&mut self, store: &mut dyn Store) {
        if let Some(ours) = self.ours {
            self.lose_session();
            // It ends by itself else.
            _ = store.end(ours.session.id);
        }
    }

    fn put(&self, key: String, record: &impl Serialize, session: Option<SessionId>) -> StorePut {
        let value = serde_json::to_vec(record).expect("a record of ours is JSON");
        StorePut { key, value, session }
    }
}

fn if_absent(put: StorePut) -> StoreChange {
    let conditions = vec![Condition::Absent(put.key.clone())];
    StoreChange { conditions, puts: vec![put], ..StoreChange::default() }
}

/// Whether something has changed by so much that others should know.
fn is_worth(before: &HostValue, now: &HostValue) -> bool {
    weighing::is_news(before, now)
        || [(&before.wanted, &now.wanted), (&before.used, &now.used)]
            .into_iter()
            .any(|(before, now)| differs(before, now))
}

fn differs(before: &BTreeMap<LimitKey, u64>, now: &BTreeMap<LimitKey, u64>) -> bool {
    before.len() != now.len()
        || before.iter().any(|(key, was)| {
            now.get(key).is_none_or(|is| is.abs_diff(*was) > is.max(was) / WORTH_PART)
        })
}
