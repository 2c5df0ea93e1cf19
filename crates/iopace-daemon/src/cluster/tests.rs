//! Hosts with a store in memory, turn by turn.

use super::member::{StoreContact, VolumeMember};
use super::records::{HostValue, Keys, LimitKey, RateKind, VolumeRecord};
use super::setting;
use super::store::{
    Condition, Store, StoreChange, StoreEntry, StoreError, StoreOutcome, StoreView,
};
use super::view::VolumeView;
use crate::clock;
use iopace_core::cluster::{Revision, SessionId};
use iopace_core::time::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
struct Memory {
    revision: u64,
    sessions: Vec<SessionId>,
    entries: BTreeMap<String, StoreEntry>,
    /// Nobody answers.
    is_cut: bool,
}

/// A store that several members have.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    fn with<T>(&self, each: impl FnOnce(&mut Memory) -> T) -> Result<T, StoreError> {
        let mut memory = self.0.lock().expect("no test panics with it");
        match memory.is_cut {
            true => Err(StoreError::Unreachable("cut off".into())),
            false => Ok(each(&mut memory)),
        }
    }

    fn cut(&self, is_cut: bool) {
        self.0.lock().expect("no test panics with it").is_cut = is_cut;
    }
}

impl Memory {
    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Absent(key) => !self.entries.contains_key(key),
            Condition::Unchanged(key, at) => {
                self.entries.get(key).is_some_and(|entry| entry.changed == *at)
            }
            Condition::NoneAfter(prefix, at) => {
                let mut below = self.entries.values().filter(|entry| entry.key.starts_with(prefix));
                below.all(|entry| entry.changed <= *at)
            }
        }
    }
}

impl Store for Shared {
    fn open(&mut self, _: Nanos) -> Result<SessionId, StoreError> {
        self.with(|memory| {
            let id = SessionId(memory.sessions.len() as u64 + 1);
            memory.sessions.push(id);
            id
        })
    }

    fn renew(&mut self, id: SessionId) -> Result<(), StoreError> {
        let is_known = self.with(|memory| memory.sessions.contains(&id))?;
        if is_known { Ok(()) } else { Err(StoreError::NoSession) }
    }

    fn end(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.with(|memory| {
            memory.sessions.iter_mut().filter(|known| **known == id).for_each(|id| id.0 = 0);
            memory.entries.retain(|_, entry| entry.session != Some(id));
            memory.revision += 1;
        })
    }

    fn read(&mut self, prefix: &str) -> Result<StoreView, StoreError> {
        self.with(|memory| {
            let below = memory.entries.values().filter(|entry| entry.key.starts_with(prefix));
            StoreView { at: Revision(memory.revision), entries: below.cloned().collect() }
        })
    }

    fn change(&mut self, change: &StoreChange) -> Result<StoreOutcome, StoreError> {
        let outcome = self.with(|memory| {
            if !change.conditions.iter().all(|condition| memory.holds(condition)) {
                let found = change.look.as_ref().and_then(|key| memory.entries.get(key));
                return Some(StoreOutcome::Refused(found.cloned()));
            }
            let sessions = change.puts.iter().filter_map(|put| put.session);
            if !sessions.into_iter().all(|id| memory.sessions.contains(&id)) {
                return None;
            }
            memory.revision += 1;
            let changed = Revision(memory.revision);
            change.removes.iter().for_each(|key| _ = memory.entries.remove(key));
            for put in &change.puts {
                let (key, value, session) = (put.key.clone(), put.value.clone(), put.session);
                let entry = StoreEntry { key: key.clone(), value, changed, session };
                memory.entries.insert(key, entry);
            }
            Some(StoreOutcome::Done(changed))
        })?;
        outcome.ok_or(StoreError::NoSession)
    }
}

const TEN: VolumeRecord = VolumeRecord { hosts_max: 10, target_ns: None };

fn keys() -> Keys {
    Keys::new("iopace", "pool")
}

fn wbps() -> LimitKey {
    LimitKey { rate: RateKind::find("wbps").expect("one"), group: "/vms".into() }
}

fn wants(amount: u64) -> HostValue {
    let one = BTreeMap::from([(wbps(), amount)]);
    HostValue { wanted: one.clone(), used: one, ..HostValue::default() }
}

fn set(store: &mut Shared, file: &str, text: &str) -> Result<(), String> {
    set_for(store, "/vms", (file, text))
}

fn set_for(store: &mut Shared, group: &str, lines: (&str, &str)) -> Result<(), String> {
    let seen = store.read(&keys().root).expect("it is there");
    let view = VolumeView::of(&keys(), &seen);
    let change = setting::change((&keys(), &view), ("pool", group), lines)?;
    assert!(matches!(store.change(&change), Ok(StoreOutcome::Done(_))));
    Ok(())
}

fn allowed(member: &VolumeMember) -> u64 {
    let all = member.allowed(clock::now());
    all.iter().find(|(key, _)| *key == wbps()).map_or(0, |(_, part)| part.now.0)
}

/// Two hosts of a volume with a limit of 10,000 for ten hosts.
fn two() -> (Shared, VolumeMember, VolumeMember) {
    let mut store = Shared::default();
    let [mut a, mut b] = ["a", "b"].map(|host| VolumeMember::new(keys(), host, TEN));
    for host in [&mut a, &mut b] {
        // The first one of all says first how many places there are.
        (0..2).for_each(|_| host.turn(&mut store, &wants(0), &mut |_| ()));
    }
    assert_eq!((a.slot, b.slot), (Some(0), Some(1)));
    set(&mut store, "io.max", "pool wbps=10000").expect("set");
    (store, a, b)
}

#[test]
fn a_limit_is_divided_by_what_hosts_want_and_never_exceeded() {
    let (mut store, mut a, mut b) = two();
    for (of_a, of_b) in [(10_000, 10_000), (10_000, 0), (0, 10_000), (500, 10_000)] {
        for _ in 0..8 {
            a.turn(&mut store, &wants(of_a), &mut |_| ());
            b.turn(&mut store, &wants(of_b), &mut |_| ());
            assert!(allowed(&a) + allowed(&b) <= 10_000);
        }
        let (of_a, of_b) = (allowed(&a), allowed(&b));
        assert!(of_a + of_b > 9_000, "{of_a} {of_b}");
    }
    assert!((500..700).contains(&allowed(&a)), "{}", allowed(&a));
}

/// A store that knows what the engine of host `a` goes by, and that nobody tells of less before it
/// holds there.
struct Watched(Shared, Arc<AtomicU64>);

impl Watched {
    fn held(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl Store for Watched {
    fn open(&mut self, length: Nanos) -> Result<SessionId, StoreError> {
        assert!(self.held() <= 50, "it has no session, and goes by {}", self.held());
        self.0.open(length)
    }

    fn renew(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.0.renew(id)
    }

    fn end(&mut self, id: SessionId) -> Result<(), StoreError> {
        self.0.end(id)
    }

    fn read(&mut self, prefix: &str) -> Result<StoreView, StoreError> {
        self.0.read(prefix)
    }

    fn change(&mut self, change: &StoreChange) -> Result<StoreOutcome, StoreError> {
        for put in change.puts.iter().filter(|put| put.key.ends_with("grants/a")) {
            let value: serde_json::Value = serde_json::from_slice(&put.value).expect("JSON");
            let grant = value["grant"].as_u64().expect("a number");
            assert!(self.held() <= grant + 50, "{} is used, {grant} told", self.held());
        }
        self.0.change(change)
    }
}

#[test]
fn less_holds_in_the_engine_before_the_store_hears_of_it() {
    let (mut store, mut a, mut b) = two();
    let held = Arc::new(AtomicU64::new(50));
    let mut watched = Watched(store.clone(), Arc::clone(&held));
    let mut hold = |member: &VolumeMember| held.store(allowed(member), Ordering::Relaxed);
    a.leave(&mut store);
    for (of_a, of_b) in [(10_000, 0), (10_000, 10_000), (200, 10_000)] {
        for _ in 0..8 {
            a.turn(&mut watched, &wants(of_a), &mut hold);
            b.turn(&mut store, &wants(of_b), &mut |_| ());
        }
    }
    assert!((200..700).contains(&allowed(&a)), "{}", allowed(&a));
    // The session is ended by somebody else: the static part holds before there is another one.
    a.turn(&mut watched, &wants(10_000), &mut hold);
    let sessions = store.with(|memory| memory.sessions.clone()).expect("it answers");
    for id in sessions {
        store.end(id).expect("ended");
    }
    for _ in 0..3 {
        a.turn(&mut watched, &wants(10_000), &mut hold);
        hold(&a);
    }
    assert_eq!(a.standing, StoreContact::Joined);
}

#[test]
fn who_is_in_the_dark_has_his_grant_and_who_leaves_gives_it_back() {
    let (mut store, mut a, mut b) = two();
    for _ in 0..8 {
        a.turn(&mut store, &wants(10_000), &mut |_| ());
        b.turn(&mut store, &wants(10_000), &mut |_| ());
    }
    let before = allowed(&a);
    store.cut(true);
    a.turn(&mut store, &wants(10_000), &mut |_| ());
    assert!(matches!(a.standing, StoreContact::Dark(..)));
    assert_eq!(allowed(&a), before, "until the session ends");
    let all = a.allowed(clock::now());
    assert_eq!(all[0].1.then.map(|(_, then)| then.0), Some(50), "its static part then");
    store.cut(false);
    a.leave(&mut store);
    assert_eq!(allowed(&a), 50);
    for _ in 0..4 {
        b.turn(&mut store, &wants(10_000), &mut |_| ());
    }
    assert!(allowed(&b) >= 9_000, "{}", allowed(&b));
}

#[test]
fn two_daemons_of_one_name_are_not_one_host() {
    let (mut store, mut a, _) = two();
    let mut twin = VolumeMember::new(keys(), "a", TEN);
    twin.turn(&mut store, &wants(10_000), &mut |_| ());
    let StoreContact::Dark(error, _) = &twin.standing else { panic!("it has joined") };
    let why = error.told();
    assert!(why.starts_with("another daemon is the host 'a'"), "the store is reached: {why}");
    assert_eq!(twin.slot, None);
    // One that was killed and is started anew waits for the end of the session.
    a.leave(&mut store);
    twin.turn(&mut store, &wants(10_000), &mut |_| ());
    assert_eq!((&twin.standing, twin.slot), (&StoreContact::Joined, Some(0)));
}

#[test]
fn what_cannot_hold_for_several_hosts_is_refused() {
    let (mut store, ..) = two();
    for (file, text, why) in [
        ("io.max", "pool wbps=5", "too low for 10 hosts|cannot be lowered"),
        ("io.max", "pool wbps=100 wbps-burst=200", "a burst"),
        ("io.latency", "pool target=5ms", "cannot hold for several hosts"),
        ("io.max", "other wbps=100", "no volume \"other\": with --cluster a line begins"),
        ("io.max", "pool wbps=490", "cannot be lowered below 500 B/s"),
    ] {
        let error = set(&mut store, file, text).expect_err(text);
        assert!(why.split('|').any(|why| error.contains(why)), "{text}: {error}");
    }
    set(&mut store, "io.max", "pool wbps=500").expect("as much as the static parts");
    set(&mut store, "io.max", "pool wbps=max").expect("removed");
    set(&mut store, "io.max", "pool wbps=900").expect("set anew");
    set(&mut store, "io.weight", "250").expect("a weight");
}

#[test]
fn a_line_at_its_default_leaves_nothing_in_the_store() {
    let (mut store, ..) = two();
    let left = |store: &mut Shared| {
        let seen = store.read(&keys().root).expect("it is there");
        let view = VolumeView::of(&keys(), &seen);
        (view.set.len(), view.limits.len())
    };
    assert_eq!(left(&mut store), (1, 1));
    for (file, text, back) in [
        ("io.weight", "400", "pool default"),
        ("io.weight", "400", "default 100"),
        ("io.min", "pool riops=50", "pool riops=0"),
    ] {
        set(&mut store, file, text).expect("set");
        assert_eq!(left(&mut store), (2, 1), "{text}");
        set(&mut store, file, back).expect("set back");
        assert_eq!(left(&mut store), (1, 1), "{back}");
    }
    set(&mut store, "io.max", "pool default").expect("set back");
    assert_eq!(left(&mut store), (0, 0));
}

#[test]
fn groups_above_and_below_stand_against_it_as_on_one_host() {
    let (mut store, ..) = two();
    let mut refused = |group: &str, file: &str, text: &str, why: &str| {
        let error = set_for(&mut store, group, (file, text)).expect_err(text);
        assert!(error.contains(why), "{group} {text}: {error}");
    };
    refused("/vms/web", "io.weight", "400", "set it for '/vms'");
    refused("/", "io.weight", "400", "no group beside it");
    refused("/vms/web", "io.max", "pool wbps=20000", "/vms");
    refused("/", "io.max", "pool wbps=5000", "/vms");
    set_for(&mut store, "/vms/web", ("io.max", "pool wbps=9000")).expect("below it");
    set_for(&mut store, "/", ("io.max", "pool wbps=20000")).expect("above it");
}
