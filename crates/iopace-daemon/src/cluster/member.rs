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
use crate::clock;
use iopace_core::cluster::{Allowance, Answer, Holder, Session, SessionId, Terms, shares};
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
    Dark(String, Instant),
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
            standing: StoreContact::Dark("it was not asked yet".into(), clock::now()),
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

    /// A turn. `wishes` is what the host would publish.
    pub(super) fn turn(&mut self, store: &mut dyn Store, wishes: &HostValue) {
        let turn = self.try_turn(store, wishes);
        self.standing = match (turn, &self.standing) {
            (Ok(()), _) => StoreContact::Joined,
            (Err(error), StoreContact::Joined) => {
                StoreContact::Dark(error.to_string(), clock::now())
            }
            (Err(error), StoreContact::Dark(_, since)) => {
                StoreContact::Dark(error.to_string(), *since)
            }
        };
    }

    fn try_turn(&mut self, store: &mut dyn Store, wishes: &HostValue) -> Result<(), StoreError> {
        self.keep_session(store, wishes)?;
        self.look(store)?;
        self.take_slot(store)?;
        self.ask(store)?;
        self.publish(store, wishes)
    }

    /// Opens a session, or renews it when it is time.
    fn keep_session(
        &mut self,
        store: &mut dyn Store,
        wishes: &HostValue,
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
                "another daemon is the host '{host}' there, or this one before it was started \
                 anew, for {} s more: give each its own `host`",
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
        self.view = view;
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
    fn ask(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        let Some(at) = self.view.hosts.keys().position(|host| *host == self.host) else {
            return Ok(());
        };
        for (key, limit) in &self.view.limits {
            let Some(holder) = self.parts.get_mut(key) else { continue };
            let all = shares(limit.terms.grantable(), &self.view.demands(key));
            let seen = self.view.others(limit, &self.host);
            // An answer that says how the record stands may bring another question.
            for _ in 0..3 {
                let wish = holder.wish(clock::now(), all[at], seen);
                let Some((number, question)) = wish else { break };
                let place = (&self.keys, key, &*self.host, limit.terms.set);
                match put_question(store, place, question) {
                    Ok(answer) => holder.answered(number, answer),
                    Err(error) => {
                        holder.answered(number, Answer::Nothing);
                        if error == StoreError::NoSession {
                            self.lose_session();
                        }
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
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

/// The queue and the groups of a host go into what all hosts compute: a smaller part is worth it.
const WEIGHED_PART: u64 = 32;

/// Whether something has changed by so much that others should know.
fn is_worth(before: &HostValue, now: &HostValue) -> bool {
    is_weighed_anew(before, now)
        || [(&before.wanted, &now.wanted), (&before.used, &now.used)]
            .into_iter()
            .any(|(before, now)| differs(before, now))
}

fn is_weighed_anew(before: &HostValue, now: &HostValue) -> bool {
    let other = |was: u64, is: u64| is.abs_diff(was) > is.max(was) / WEIGHED_PART;
    let queue = match (before.queue, now.queue) {
        (Some(was), Some(is)) => {
            other(was.window, is.window)
                || other(was.in_flight, is.in_flight)
                || other(was.done, is.done)
                || was.alone_ns != is.alone_ns
        }
        (was, is) => was.is_some() != is.is_some(),
    };
    queue
        || before.groups.len() != now.groups.len()
        || now.groups.iter().any(|(path, is)| {
            before.groups.get(path).is_none_or(|was| {
                (was.weight, was.tasks) != (is.weight, is.tasks)
                    || other(was.used, is.used)
                    || other(was.wanted, is.wanted)
            })
        })
}

fn differs(before: &BTreeMap<LimitKey, u64>, now: &BTreeMap<LimitKey, u64>) -> bool {
    before.len() != now.len()
        || before.iter().any(|(key, was)| {
            now.get(key).is_none_or(|is| is.abs_diff(*was) > is.max(was) / WORTH_PART)
        })
}
