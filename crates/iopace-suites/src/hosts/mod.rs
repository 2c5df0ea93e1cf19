//! Hosts that share a limit ([`iopace_core::cluster`]), in random histories.
//!
//! # Model
//! Two to five hosts and a store, each with a clock of its own that goes wrong by up to a hundredth
//! and has any origin. Each message to the store and back takes from 1 ms to 4 s, mostly little; it
//! may be lost, or come twice. Hosts are cut off from the store, stopped (`SIGSTOP`) and killed for
//! up to twice the length of a session, also at the same time; what they want changes, and so does
//! the limit. After [`WILD`] nothing goes wrong any more.
//!
//! # Laws
//! 1. At no instant do all hosts that run use more than the limit together. One that was lowered
//!    counts from [`LOWERED`] later on.
//! 2. When nothing has gone wrong for [`CALM`], each has nine tenths of its share or more.
//!
//! A history with a [`Planted`] fault breaks the first law, or some of a few hundred do: a suite
//! that did not find those would prove nothing.

mod host;
mod store;

use crate::outcome::Outcome;
use crate::random::Random;
use host::Host;
use iopace_core::cluster::{Allowance, Cut, DRIFT_PART, Demand, Revision, Terms};
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeMap;
use store::{Reply, Request, Store};

/// The length of a session: the shortest that etcd keeps in any set-up is 2 s.
pub const LENGTH: Nanos = Nanos::from_secs(4);

/// For so long things go wrong.
pub const WILD: Nanos = Nanos::from_secs(30);

/// For so long they do not any more: a session that nobody renews ends, and a new one begins.
pub const CALM: Nanos = Nanos::from_secs(10);

/// A limit that is lowered holds by then: all have seen it, or have no session any more.
pub const LOWERED: Nanos = Nanos(LENGTH.0 / DRIFT_PART * (DRIFT_PART + 1));

/// The limit that is shared, at first.
const TERMS: Terms = Terms {
    limit: Allowance(1_000_000),
    each: Allowance(20_000),
    hosts_max: 5,
    cut: Cut { lowered_count: 0, kept: Allowance(0), of: Allowance(0) },
    set: Revision(0),
};

/// A host has a turn so often.
const TURN: Nanos = Nanos::from_millis(250);

/// A fault of a host that is put in on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// It goes on with its grant when its session has ended.
    NoEnd,
    /// It counts its session from when it hears of it, and to the last moment.
    TrustedClock,
    /// It raises its grant whatever others have got meanwhile.
    NoCondition,
    /// It goes by the limit that it knew first, whatever that was changed to.
    OldTerms,
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    Turn(usize),
    /// A request comes to the store: the host, its generation, when it was sent by its clock.
    Asked(usize, u32, Instant, Request),
    Told(usize, u32, Instant, Reply),
    /// A new trouble begins.
    Trouble,
}

/// A host with what happens to it.
struct Place {
    host: Host,
    clock: Clock,
    /// It was started anew so often: what was sent before is nobody's.
    generation: u32,
    /// Until these moments it is cut off from the store, or stands still.
    cut_until: Nanos,
    stopped_until: Nanos,
}

/// A clock that goes wrong, with an origin of its own.
#[derive(Clone, Copy)]
struct Clock {
    origin: u64,
    /// Its nanoseconds in a million of real ones.
    rate: u64,
}

impl Clock {
    fn draw(random: &mut Random) -> Clock {
        // A hundredth is what `DRIFT_PART` allows.
        Clock { origin: random.below(1 << 40), rate: 990_000 + random.below(20_001) }
    }

    fn at(self, now: Nanos) -> Instant {
        let since = u128::from(now.0) * u128::from(self.rate) / 1_000_000;
        Instant(self.origin + u64::try_from(since).expect("some minutes"))
    }
}

struct History {
    random: Random,
    planted: Option<Planted>,
    now: Nanos,
    store: Store,
    store_clock: Clock,
    places: Vec<Place>,
    demands: Vec<Demand>,
    /// The limits until now, and until when each counted; the present one last.
    limits: Vec<(Allowance, Option<Nanos>)>,
    events: BTreeMap<(Nanos, u64), Event>,
    added_count: u64,
}

impl History {
    fn new(seed: u64, planted: Option<Planted>) -> History {
        let mut random = Random(seed);
        // The first numbers of close seeds are close.
        (0..4).for_each(|_| _ = random.below(2));
        let count = 2 + random.below(4) as usize;
        let demands: Vec<Demand> = (0..count).map(|_| demand(&mut random)).collect();
        let place = |number| Place {
            host: Host::new(number, planted, demands.clone()),
            clock: Clock { origin: 0, rate: 1_000_000 },
            generation: 0,
            cut_until: Nanos::ZERO,
            stopped_until: Nanos::ZERO,
        };
        let places = (0..count).map(place).collect();
        let mut history = History {
            store_clock: Clock::draw(&mut random),
            random,
            planted,
            now: Nanos::ZERO,
            store: Store::new(LENGTH, TERMS),
            limits: vec![(TERMS.limit, None)],
            places,
            demands,
            events: BTreeMap::new(),
            added_count: 0,
        };
        for number in 0..count {
            history.places[number].clock = Clock::draw(&mut history.random);
            let first = Nanos(history.random.below(TURN.0));
            history.add(first, Event::Turn(number));
        }
        history.add(Nanos::from_millis(500), Event::Trouble);
        history
    }

    fn add(&mut self, after: Nanos, event: Event) {
        self.added_count += 1;
        self.events.insert((self.now + after, self.added_count), event);
    }

    fn go(mut self) -> Result<(), String> {
        while let Some(((now, _), event)) = self.events.pop_first() {
            if now > WILD + CALM {
                break;
            }
            self.now = now;
            self.happen(event);
            self.check_limit()?;
        }
        self.check_shares()
    }

    /// Law 1.
    fn check_limit(&self) -> Result<(), String> {
        let runs = |place: &&Place| place.stopped_until <= self.now;
        let used = |place: &Place| place.host.used(place.clock.at(self.now));
        let all: u64 = self.places.iter().filter(runs).map(|place| used(place).0).sum();
        let counts = |until: &Option<Nanos>| until.is_none_or(|until| self.now <= until + LOWERED);
        let counted = self.limits.iter().filter(|(_, until)| counts(until));
        let limit = counted.map(|(limit, _)| limit.0).max().unwrap_or(0);
        if all <= limit {
            return Ok(());
        }
        let each: Vec<Allowance> = self.places.iter().map(used).collect();
        Err(format!("at {}: {all} of {limit} are used: {each:?}", self.now))
    }

    /// Law 2.
    fn check_shares(&self) -> Result<(), String> {
        for (number, place) in self.places.iter().enumerate() {
            let (due, used) = (place.host.due(), place.host.used(place.clock.at(self.now)));
            if used.0 < due.0 / 10 * 9 {
                return Err(format!("host {number} has {used:?} at the end, and {due:?} are due"));
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn(number) => self.turn(number),
            Event::Asked(number, generation, sent, request) => {
                let now = self.store_clock.at(self.now);
                let reply = self.store.answer(now, number, request);
                self.send(number, |_| Event::Told(number, generation, sent, reply.clone()));
            }
            Event::Told(number, generation, sent, reply) => {
                let (now, place) = (self.now, &mut self.places[number]);
                if place.generation != generation {
                    return;
                }
                match place.stopped_until.saturating_sub(now) {
                    Nanos::ZERO => place.host.hear(place.clock.at(now), sent, reply),
                    // It is read when the host goes on.
                    later => self.add(later, Event::Told(number, generation, sent, reply)),
                }
            }
            Event::Trouble => self.trouble(),
        }
    }

    fn turn(&mut self, number: usize) {
        let (now, place) = (self.now, &mut self.places[number]);
        let stopped = place.stopped_until.saturating_sub(now);
        if stopped > Nanos::ZERO {
            return self.add(stopped, Event::Turn(number));
        }
        let (sent, generation) = (place.clock.at(now), place.generation);
        for request in place.host.turn(sent) {
            self.send(number, |_| Event::Asked(number, generation, sent, request));
        }
        self.add(TURN, Event::Turn(number));
    }

    /// A message from or to a host: late, lost or doubled, as it comes.
    fn send(&mut self, number: usize, event: impl Fn(()) -> Event) {
        if self.places[number].cut_until > self.now {
            return;
        }
        let is_wild = self.now < WILD;
        let copies = match self.random.below(20) {
            0 if is_wild => 0,
            1 if is_wild => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let most_ms = if is_wild && self.random.below(10) == 0 { 4_000 } else { 40 };
            let delay = Nanos::from_millis(1 + self.random.below(most_ms));
            self.add(delay, event(()));
        }
    }

    /// Something goes wrong with one host, or it wants something else.
    fn trouble(&mut self) {
        if self.now >= WILD {
            let demands = self.demands.clone();
            self.places.iter_mut().for_each(|place| place.host.demands.clone_from(&demands));
            return;
        }
        let number = self.random.below(self.places.len() as u64) as usize;
        let left = WILD.saturating_sub(self.now);
        let long = Nanos(1 + self.random.below(LENGTH.0 * 2).min(left.0));
        let until = self.now + long;
        let place = &mut self.places[number];
        match self.random.below(5) {
            0 => place.cut_until = until,
            1 => place.stopped_until = until,
            2 => {
                place.generation += 1;
                place.stopped_until = until;
                place.host = Host::new(number, self.planted, self.demands.clone());
            }
            3 => self.change_limit(),
            _ => {
                self.demands[number] = demand(&mut self.random);
                for place in &mut self.places {
                    if self.random.below(3) > 0 {
                        place.host.demands.clone_from(&self.demands);
                    }
                }
            }
        }
        let next = Nanos(self.random.below(LENGTH.0 / 2)).min(left);
        self.add(next + Nanos(1), Event::Trouble);
    }

    /// Somebody sets another limit: from the static parts alone to three times the first one.
    fn change_limit(&mut self) {
        let limit = Allowance(TERMS.limit.0 / 10 * (1 + self.random.below(30)));
        let terms =
            self.store.terms().changed(limit).expect("a tenth is what the static parts are");
        self.store.set_terms(terms);
        if let Some((_, until)) = self.limits.last_mut() {
            *until = Some(self.now);
        }
        self.limits.push((limit, None));
    }
}

/// Nothing, little, or more than there is.
fn demand(random: &mut Random) -> Demand {
    let wanted = [0, TERMS.limit.0 / 20, TERMS.limit.0 * 4][random.below(3) as usize];
    Demand { wanted: Allowance(wanted), weight: 1 + random.below(4) as u32, ..Demand::default() }
}

/// So many histories from this seed on; the first that break a law are described.
pub fn run(seed: u64, count: u64, planted: Option<Planted>) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in seed..seed.saturating_add(count) {
        outcome.runs += 1;
        if let Err(broken) = History::new(seed, planted).go() {
            outcome.failures.push(format!("history {seed}: {broken}"));
            if outcome.is_enough() {
                break;
            }
        }
    }
    outcome
}
