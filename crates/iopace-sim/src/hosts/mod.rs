//! Hosts that share a volume, each with an engine of its own, in virtual time.
//!
//! # Model
//! ```text
//!   programs ─► engine of host A ─┐                        ┌─► records of all, each with a lease
//!   programs ─► engine of host B ─┼─► queue ─► disk model  │   (the store)
//!        ...                      │   in order of arrival  │
//!                  └──────────────┴── record, every look ──┘
//! ```
//! The engines are those of the daemon, each with a clock of its own that goes wrong by up to a
//! thousandth, or by as much as is said. The array serves commands in order of arrival until they
//! are at the disk, which may sort those it has. Hosts ask the store as the daemon does, one
//! question after the other (`agent.rs`, `member.rs`): each message takes 1 to 20 ms, and one in a
//! hundred is lost and sent again. With cells there is a store for each, and one above them.

mod agent;
mod array;
mod host;
mod letters;
mod limited;
mod measure;
mod member;
mod setup;
mod store;
mod wishes;

pub use measure::{Cell, HostsOutcome};
pub use setup::{ClockRates, Coordination, HostsSetup, Program, Trouble};
pub use store::StoreTraffic;

use crate::random::Random;
use array::Array;
use host::{HostClock, SimHost};
use iopace_core::request::{Extent, RequestId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::{Command, presets};
use letters::{AskedQuestion, Letter, LetterContent};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use store::SimStore;

/// Hosts begin to look at their stores within so long.
const FIRST_LOOK_MOST: Nanos = Nanos::from_millis(250);

/// Something that happens at an instant; with equal instants the one that was added first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostsEvent {
    /// The engine of a host has something to do.
    Turn(usize),
    /// A program of a host begins or ends.
    Switch(usize, usize, bool),
    /// A program of a host has thought.
    Thought(usize, usize),
    /// A command arrives at the array.
    AtArray(u64),
    /// A completion arrives at its host.
    AtHost(u64),
    /// A host looks at its engine, and its turn with the stores begins.
    Look(usize),
    /// The message of that number arrives at the store, or its answer at the host.
    Message(usize, u64),
    /// A host has waited long enough for the answer to the message of that number.
    Patience(usize, u64),
}

/// A command that is not completed.
#[derive(Clone, Copy, Debug)]
struct Flying {
    host: usize,
    id: RequestId,
    command: Command,
}

struct Hosts<'a> {
    setup: &'a HostsSetup,
    random: Random,
    now: Instant,
    array: Array,
    /// Those of the cells, and the upper one.
    stores: Vec<SimStore>,
    store_clock: HostClock,
    hosts: Vec<SimHost>,
    /// The next turn of each host that is known of: others that come are of the past.
    turns: Vec<Instant>,
    flying: BTreeMap<u64, Flying>,
    letters: BTreeMap<u64, Letter>,
    /// By host: the question that it waits for.
    asked: Vec<Option<AskedQuestion>>,
    events: BinaryHeap<Reverse<(Instant, u64, HostsEvent)>>,
    numbers_count: u64,
    outcome: HostsOutcome,
}

/// Carries out a run.
///
/// # Panics
/// If the disk of the setup is none.
pub fn run(setup: &HostsSetup) -> HostsOutcome {
    let mut hosts = Hosts::new(setup);
    let end = Instant::ZERO + setup.length;
    loop {
        let next = hosts.events.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at);
        let array = hosts.array.next();
        if next.min(array) >= end {
            hosts.outcome.traffic = hosts.stores.iter().map(|store| store.traffic).collect();
            return hosts.outcome;
        }
        if array <= next {
            hosts.now = hosts.now.max(array);
            hosts.completed();
        } else if let Some(Reverse((at, _, event))) = hosts.events.pop() {
            hosts.now = at;
            hosts.happen(event);
        }
    }
}

impl<'a> Hosts<'a> {
    fn new(setup: &'a HostsSetup) -> Hosts<'a> {
        let disk = (presets::find(setup.disk).expect("a preset").build)();
        let whole = Extent::new(Bytes::ZERO, disk.capacity()).expect("a disk has an end");
        let host = |at: usize| SimHost::new(setup, at, whole, setup.seed);
        let mut hosts = Hosts {
            setup,
            random: Random::new(setup.seed, "messages"),
            now: Instant::ZERO,
            array: Array::new(disk),
            stores: (0..=setup.cells_count()).map(|_| SimStore::default()).collect(),
            store_clock: HostClock::draw(
                &mut Random::new(setup.seed, "store"),
                setup.clock_rates.map(|rates| rates.of_stores),
            ),
            hosts: (0..setup.hosts_count).map(host).collect(),
            turns: vec![Instant::NEVER; setup.hosts_count],
            flying: BTreeMap::new(),
            letters: BTreeMap::new(),
            asked: vec![None; setup.hosts_count],
            events: BinaryHeap::new(),
            numbers_count: 0,
            outcome: HostsOutcome::default(),
        };
        for host in 0..setup.hosts_count {
            let programs: Vec<Program> = hosts.hosts[host].programs().cloned().collect();
            for (at, program) in programs.into_iter().enumerate() {
                hosts.add(program.from, HostsEvent::Switch(host, at, true));
                hosts.add(program.until, HostsEvent::Switch(host, at, false));
            }
            let first = Nanos(hosts.random.below(FIRST_LOOK_MOST.0));
            hosts.add(first, HostsEvent::Look(host));
        }
        hosts
    }

    fn number(&mut self) -> u64 {
        self.numbers_count += 1;
        self.numbers_count
    }

    fn add(&mut self, after: Nanos, event: HostsEvent) {
        let number = self.number();
        self.events.push(Reverse((self.now + after, number, event)));
    }

    /// The time since the beginning.
    fn passed(&self) -> Nanos {
        self.now.since(Instant::ZERO)
    }

    /// Whether the host is gone; if it only stands still, the event comes when it goes on.
    fn is_away(&mut self, host: usize, event: HostsEvent) -> bool {
        let now = self.passed();
        if self.setup.is_in(now, Trouble::Killed(host)) {
            return true;
        }
        let Some(until) = self.setup.stopped_until(now, host) else { return false };
        self.add(until.saturating_sub(now), event);
        true
    }

    fn happen(&mut self, event: HostsEvent) {
        let host = match &event {
            HostsEvent::AtArray(number) => return self.arrived(*number),
            HostsEvent::AtHost(number) => self.flying[number].host,
            HostsEvent::Message(host, number) if self.is_question(*number) => {
                return self.question(*host, *number);
            }
            HostsEvent::Turn(host)
            | HostsEvent::Switch(host, ..)
            | HostsEvent::Thought(host, _)
            | HostsEvent::Look(host)
            | HostsEvent::Message(host, _)
            | HostsEvent::Patience(host, _) => *host,
        };
        if self.is_away(host, event.clone()) {
            return;
        }
        let now = self.hosts[host].clock.at(self.now);
        match event {
            HostsEvent::Turn(_) if self.turns[host] > self.now => return,
            HostsEvent::Turn(_) | HostsEvent::AtArray(_) => {}
            HostsEvent::Switch(_, at, is_on) => self.hosts[host].switch(now, at, is_on),
            HostsEvent::Thought(_, at) => self.hosts[host].submit(now, at),
            HostsEvent::AtHost(number) => {
                if let Some(flying) = self.flying.remove(&number) {
                    self.hosts[host].complete(now, flying.id);
                }
            }
            HostsEvent::Look(_) => self.look(host, now),
            HostsEvent::Message(_, number) => self.answer(host, number, now),
            HostsEvent::Patience(_, number) => self.patience(host, number, now),
        }
        self.turn(host, now);
    }

    /// A host does all that there is to do.
    fn turn(&mut self, host: usize, now: Instant) {
        let turn = self.hosts[host].turn(now);
        let way = self.way(host);
        for start in turn.starts {
            let number = self.number();
            let (op, extent, fua) = (start.op, start.extent, start.fua);
            let command = Command { id: number, op, extent, fua };
            self.flying.insert(number, Flying { host, id: start.id, command });
            if self.setup.limit.is_some() {
                self.outcome.starts.push((self.passed(), extent.len().get()));
            }
            match way {
                Nanos::ZERO => self.array.submit(self.now, command),
                way => self.add(way, HostsEvent::AtArray(number)),
            }
        }
        for (think, at) in turn.thinking {
            self.add(think, HostsEvent::Thought(host, at));
        }
        for done in turn.done {
            self.outcome.done(self.now, Cell { host, group: done.group }, done.size, done.at_disk);
        }
        self.turns[host] = Instant::NEVER;
        if let Some(at) = turn.again {
            let at = self.hosts[host].clock.real(at).max(self.now);
            self.turns[host] = at;
            self.add(at.since(self.now), HostsEvent::Turn(host));
        }
    }

    /// The way of a host to the array: half of it each way.
    fn way(&self, host: usize) -> Nanos {
        let last = (self.setup.hosts_count as u64 - 1).max(1);
        Nanos(self.setup.way_most.0 / 2 * host as u64 / last)
    }

    fn arrived(&mut self, number: u64) {
        if let Some(flying) = self.flying.get(&number) {
            self.array.submit(self.now, flying.command);
        }
    }

    /// The array has completed something.
    fn completed(&mut self) {
        while let Some(done) = self.array.poll(self.now) {
            let way = self.way(self.flying[&done.id].host);
            match way {
                Nanos::ZERO => self.happen(HostsEvent::AtHost(done.id)),
                way => self.add(way, HostsEvent::AtHost(done.id)),
            }
        }
    }

    fn is_question(&self, number: u64) -> bool {
        let letter = self.letters.get(&number);
        letter.is_some_and(|letter| matches!(letter.content, LetterContent::Question(_)))
    }
}
