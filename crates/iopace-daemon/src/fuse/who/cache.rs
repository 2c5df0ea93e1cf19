//! Callers that were looked at: a bounded table in shards, each with a lock of its own.
//!
//! A full shard forgets the first entry that nobody used since it was last asked (second chance).

use super::Pays;
use super::facts::Facts;
use crate::groups::Claim;
use crate::limits::{CALLERS_MAX, RECHECK_FIRST, RECHECK_MAX};
use iopace_core::time::{Instant, Nanos};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A thread and its user: a server may act for one user after the other.
pub(super) type Key = (u32, u32);

/// Several times as many as there are threads of FUSE.
pub(super) const SHARDS: usize = 16;

const SHARD_MAX: usize = CALLERS_MAX / SHARDS;

/// A caller and who pays for it.
pub(super) struct Entry {
    key: Key,
    pub(super) facts: Arc<Facts>,
    pub(super) claim: Claim,
    /// When it is to be looked at again, and how long after that if it is the same then.
    due: Instant,
    interval: Nanos,
    used: bool,
}

/// What the table says of a caller.
pub(super) enum Found {
    /// Who pays.
    Paid(Pays),
    /// This was known of it; it is to be looked at again, by who asked.
    Due(Arc<Facts>, Pays),
    /// Nothing.
    Unknown,
}

#[derive(Default)]
struct Shard {
    places: HashMap<Key, usize>,
    entries: Vec<Entry>,
    hand: usize,
}

pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
}

impl Cache {
    pub(super) fn new() -> Cache {
        Cache { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, at: usize) -> MutexGuard<'_, Shard> {
        self.shards[at % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, key: Key, now: Instant) -> Found {
        let mut shard = self.shard(key.0 as usize);
        let Some(place) = shard.places.get(&key).copied() else { return Found::Unknown };
        let entry = &mut shard.entries[place];
        entry.used = true;
        let (facts, claim) = (&entry.facts, entry.claim.clone());
        let pays = Pays { task: facts.process.into(), is_kernel: facts.is_kernel(), claim };
        if now < entry.due {
            return Found::Paid(pays);
        }
        // One looks, the others go on meanwhile with what is known.
        entry.interval = Nanos(entry.interval.as_nanos().saturating_mul(2)).min(RECHECK_MAX);
        entry.due = now + entry.interval;
        Found::Due(Arc::clone(&entry.facts), pays)
    }

    pub(super) fn insert(&self, key: Key, facts: Arc<Facts>, claim: Claim, now: Instant) {
        let interval = RECHECK_FIRST;
        let entry = Entry { key, facts, claim, due: now + interval, interval, used: false };
        let mut shard = self.shard(key.0 as usize);
        if let Some(place) = shard.places.get(&key).copied() {
            shard.entries[place] = entry;
            return;
        }
        if shard.entries.len() >= SHARD_MAX {
            let victim = shard.victim();
            shard.remove(victim);
        }
        let place = shard.entries.len();
        shard.places.insert(key, place);
        shard.entries.push(entry);
    }

    /// Shows all entries, shard by shard.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&Entry)) {
        for at in 0..SHARDS {
            self.shard(at).entries.iter().for_each(&mut *visit);
        }
    }

    /// Forgets the entries that are gone.
    pub(super) fn forget(&self, gone: &dyn Fn(&Entry) -> bool) {
        for at in 0..SHARDS {
            let mut shard = self.shard(at);
            let mut place = 0;
            while place < shard.entries.len() {
                if gone(&shard.entries[place]) {
                    shard.remove(place);
                } else {
                    place += 1;
                }
            }
        }
    }

    /// The callers of a shard.
    pub(super) fn callers(&self, at: usize) -> Vec<(Key, Arc<Facts>)> {
        let shard = self.shard(at);
        shard.entries.iter().map(|entry| (entry.key, Arc::clone(&entry.facts))).collect()
    }

    /// Forgets one, if nothing else is known of it by now.
    pub(super) fn forget_one(&self, key: Key, facts: &Arc<Facts>) {
        let mut shard = self.shard(key.0 as usize);
        let place = shard.places.get(&key).copied();
        if let Some(place) = place.filter(|at| Arc::ptr_eq(&shard.entries[*at].facts, facts)) {
            shard.remove(place);
        }
    }
}

impl Shard {
    /// Whom to forget: within two rounds somebody is found.
    fn victim(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.entries.len();
            if !std::mem::take(&mut self.entries[self.hand].used) {
                return self.hand;
            }
        }
    }

    fn remove(&mut self, place: usize) {
        let gone = self.entries.swap_remove(place);
        self.places.remove(&gone.key);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(moved.key, place);
        }
    }
}
