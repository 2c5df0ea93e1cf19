//! The kit of a loadable scheduler for iopace: one file, a module of the policy's crate.
//!
//! A policy is a type with the trait [`Policy`] and one line, `kit::policy!(Type);`. The rest is
//! here: the functions that iopace calls, events, answers, the description, chance from a seed, a
//! line of log, and a small world for tests ([`World`]) that calls a policy as iopace does, by the
//! contract in its docs/policy-abi.md.
//!
//! Copy this file as it is; the crate needs `mod kit;` at its root, and no dependency. The crate is
//! `no_std`: a policy has its own memory and what it is told, no clock, no file, no thread. The
//! allocator and the words of a panic are those of the standard library, behind this file.
//!
//! Licence: MIT or Apache-2.0, at your choice, as iopace.

#![allow(dead_code, reason = "no policy needs all of it")]

extern crate alloc;
extern crate std;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::UnsafeCell;

// Times.

/// A time in nanoseconds, or an instant: so long after the beginning.
pub type Nanos = u64;

/// The instant that does not come.
pub const NEVER: Nanos = i64::MAX as u64;

/// A millisecond.
pub const MILLISECOND: Nanos = 1_000_000;

// Requests.

/// The name of a request. Names are in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its arrival number, never used again.
    pub sequence: u64,
    /// Its slot: a small number, used again when the request has ended.
    pub slot: u32,
}

/// An operation. A trim says that the content is no longer needed; a `Cache` is a read into the
/// cache, of which no data goes back. Flushes pass the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    Read = 0,
    Write = 1,
    Flush = 2,
    Trim = 3,
    WriteZeroes = 4,
    Cache = 5,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Cache];

    /// Whether it changes the disk.
    pub fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::Trim | Op::WriteZeroes)
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: Id,
    /// The connection or process that calls.
    pub task: u64,
    /// The number of the group that pays; 0 is the root.
    pub group: u32,
    /// The operation.
    pub op: Op,
    /// The owner of the extent: 0 is the disk itself, others are files without a place on it.
    pub space: u32,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// Whether a task waits for it.
    pub sync: bool,
    /// Whether a guarantee of its group pays for it.
    pub reserved: bool,
    /// When it came to iopace; it may have waited for a slot or a limit since.
    pub arrived: Nanos,
}

/// Requests by name, for a policy that looks them up. Memory: one place for each slot.
#[derive(Clone, Debug, Default)]
pub struct Requests(Vec<Option<Request>>);

impl Requests {
    /// Keeps a request, in the place of the one that had its slot before.
    pub fn insert(&mut self, request: Request) {
        let slot = request.id.slot as usize;
        if slot >= self.0.len() {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = Some(request);
    }

    /// The request of that name, if it is kept.
    pub fn get(&self, id: Id) -> Option<&Request> {
        self.0.get(id.slot as usize)?.as_ref().filter(|request| request.id == id)
    }

    /// Gives it up.
    pub fn remove(&mut self, id: Id) -> Option<Request> {
        self.0.get_mut(id.slot as usize)?.take_if(|request| request.id == id)
    }
}

// Groups.

/// The class of a group, in strict order among siblings: what is idle goes when nobody else has
/// anything to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Class {
    RealTime = 1,
    #[default]
    BestEffort = 2,
    Idle = 3,
}

/// The settings of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The number of the group above it; 0 is the root.
    pub parent: u32,
    /// Its share beside its siblings, 1 to 10,000.
    pub weight: u32,
    /// Its class.
    pub class: Class,
    /// Its guaranteed rates, a second each, 0: none. Bytes read, bytes written, reads, writes; then
    /// bytes and requests in both directions together.
    pub guarantees: [u64; 6],
    /// The latency that is aimed at; 0: none.
    pub latency: Nanos,
}

// Answers.

/// Why nothing goes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// Another has its turn.
    Turn = 0,
    /// The disk is kept idle for a task that is expected to go on.
    Anticipation = 1,
}

/// The answer to the question for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pop {
    /// Nothing is queued.
    Empty,
    /// This one goes now, and cannot be taken back.
    Next(Id),
    /// The same, and nothing else until one that was popped is done. With [`Policy::LEARNS`].
    Last(Id, Reason),
    /// Something is queued, but goes at this instant at the earliest, or after the next event.
    At(Nanos, Reason),
}

/// The opinion of a policy about the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskView {
    /// Whether it has a head; `None`: not known.
    pub has_head: Option<bool>,
    /// Whether the policy found that out.
    pub is_learned: bool,
    /// The cost of a seek.
    pub seek: Nanos,
}

/// A load beside which a request waits, see [`Policy::wait_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Whether each request that is served is replaced at once (a stream); else a client submits
    /// when all of its own are done, so that those passed over do not come again.
    pub is_stream: bool,
    /// Clients, the one of the request included.
    pub clients: u64,
    /// Most requests of all clients at a time, the one that waits included; as many flushes, which
    /// pass the queue, come on top in a closed loop.
    pub requests: u64,
    /// The longest that the disk takes for one.
    pub service: Nanos,
}

// The policy.

/// A parameter, which can be set while the policy runs: a whole number. Its name is of `a-z`, `0-9`
/// and `_`, its unit a word (`ms`, `KiB`, `requests`, `0/1`), its doc a sentence.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub unit: &'static str,
    pub min: u64,
    pub default: u64,
    pub max: u64,
    pub doc: &'static str,
}

/// A counter that iopace shows, with the thing that it counts.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    pub name: &'static str,
    pub doc: &'static str,
}

/// The circumstances in which an instance begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Whether the disk has a head; `None`: not known.
    pub has_head: Option<bool>,
    /// Chance: the same in each run with the same seed.
    pub random: Random,
}

/// A scheduler: `push` and `pop`, the others as needed.
///
/// It is given requests and gives each back exactly once, by `pop`. Whatever else it answers, the
/// scheduler `fifo` takes over with all that is queued; so a policy panics rather than guesses.
pub trait Policy: Sized {
    /// Its name: `a-z`, `0-9`, `-`, a letter first, none of a built-in scheduler.
    const NAME: &'static str = env!("CARGO_PKG_NAME");
    /// Its version.
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    /// Its work in one sentence.
    const SUMMARY: &'static str = env!("CARGO_PKG_DESCRIPTION");
    /// Its parameters, at most 16.
    const PARAMETERS: &'static [Parameter] = &[];
    /// Its counters, at most 32.
    const COUNTERS: &'static [Counter] = &[];
    /// Whether it is told of requests that are done and of flushes. It costs a little.
    const LEARNS: bool = false;
    /// Whether what it popped stands, whatever comes before the disk has room for it, as in order
    /// of arrival: it is then asked for many requests at once, which is cheaper.
    const RUN_AHEAD: bool = false;
    /// Whether it divides the disk's time by the weights and classes of groups.
    const DIVIDES: bool = false;

    /// A new one; [`Policy::configure`] follows.
    fn new(start: Start) -> Self;

    /// A request is queued.
    fn push(&mut self, now: Nanos, request: Request);

    /// The next request for the disk. Asked only while the disk has room for one more.
    fn pop(&mut self, now: Nanos) -> Pop;

    /// New values, in the order of [`Policy::PARAMETERS`], each within its bounds.
    fn configure(&mut self, _values: &[u64]) {}

    /// Writes its counters, in the order of [`Policy::COUNTERS`].
    fn counters(&self, _into: &mut [u64]) {}

    /// One that was popped has ended; `ok`: it was carried out. With [`Policy::LEARNS`].
    fn done(&mut self, _now: Nanos, _id: Id, _ok: bool) {}

    /// A flush went to the disk past the queue. With [`Policy::LEARNS`].
    fn flush(&mut self, _now: Nanos, _flush: Request) {}

    /// It has ended. With [`Policy::LEARNS`].
    fn flushed(&mut self, _now: Nanos, _id: Id) {}

    /// The settings of a group from now on; a parent is told before its children.
    fn group(&mut self, _now: Nanos, _id: u32, _group: &Group) {}

    /// The group is gone; nothing of it is queued.
    fn group_gone(&mut self, _id: u32) {}

    /// A queued request adjoins the one that was popped last, and may go with it in one command:
    /// true if it is given up here.
    fn join(&mut self, _now: Nanos, _id: Id, _lead: Id) -> bool {
        false
    }

    /// Its opinion about the disk.
    fn disk(&self) -> Option<DiskView> {
        None
    }

    /// Its state, for the report of a failure.
    fn dump(&self) -> String {
        String::new()
    }

    /// The bound of the wait of one request under its present parameters; `None`: it has none.
    /// `iopace policy test` holds it to this.
    fn wait_max(&self, _load: &Load) -> Option<Nanos> {
        None
    }
}

/// Makes the functions that iopace calls: `kit::policy!(Type);` at the root of the crate.
macro_rules! policy {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        mod exports {
            use super::*;
            use $crate::kit::{ABI, Place, describe, text};

            static PLACE: Place<$policy> = Place(core::cell::UnsafeCell::new(None));

            $crate::kit::policy! { @
                fn iopace_abi() -> u32 { ABI }
                fn iopace_describe() -> u64 { text(describe::<$policy>()) }
                fn iopace_make(seed: u64, head: u32) -> u32 { PLACE.make(seed, head) }
                fn iopace_pop(now: u64, bytes: u32, room: u32) -> u32 {
                    PLACE.with(|to| to.pop(now, bytes, room))
                }
                fn iopace_events(bytes: u32) -> () { PLACE.with(|to| to.events(bytes)) }
                fn iopace_configure(bytes: u32) -> () { PLACE.with(|to| to.configure(bytes)) }
                fn iopace_counters(bytes: u32) -> () { PLACE.with(|to| to.counters(bytes)) }
                fn iopace_join(
                    now: u64, bytes: u32, slot: u32, sequence: u64, lead: u32, lead_sequence: u64
                ) -> u32 {
                    let (id, lead) = ((slot, sequence), (lead, lead_sequence));
                    PLACE.with(|to| to.join(now, bytes, id, lead))
                }
                fn iopace_disk(bytes: u32) -> u32 { PLACE.with(|to| to.disk(bytes)) }
                fn iopace_dump() -> u64 { PLACE.with(|instance| text(instance.policy.dump())) }
                fn iopace_wait_max(load: u32, clients: u64, requests: u64, service: u64) -> u64 {
                    let load = (load, clients, requests, service);
                    PLACE.with(|to| to.wait_max(load))
                }
            }
        }
    };
    (@ $(fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty $body:block)*) => {
        // SAFETY: the names are those of the contract, and nothing else has them.
        $(#[unsafe(no_mangle)] extern "C" fn $name($($argument: $kind),*) -> $answer $body)*
    };
}
pub(crate) use policy;

/// Writes a line into iopace's log; at most 16 of a call arrive, of 1,024 bytes each.
pub fn log(line: &str) {
    #[cfg(target_arch = "wasm32")]
    {
        // SAFETY: this is the signature of the contract.
        #[link(wasm_import_module = "iopace")]
        unsafe extern "C" {
            fn log(address: *const u8, length: usize);
        }
        // SAFETY: the host reads so many bytes from there on, and the text lives until it returns.
        unsafe { log(line.as_ptr(), line.len()) }
    }
    #[cfg(not(target_arch = "wasm32"))]
    std::println!("log: {line}");
}

/// A stream of chance: PCG-XSH-RR 64/32 (O'Neill, 2014).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of that seed.
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_add(STREAM));
        random.next();
        random
    }

    /// The next 32 bits.
    pub fn next(&mut self) -> u32 {
        let state = self.0;
        self.0 = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(STREAM);
        ((((state >> 18) ^ state) >> 27) as u32).rotate_right((state >> 59) as u32)
    }

    /// A number below `end`, which is not 0; all are as likely but for `end` parts in 2^32.
    pub fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(end)) >> 32) as u32
    }
}

/// The increment of the stream: any odd number.
const STREAM: u64 = 1_442_695_040_888_963_407;

// The desk.

/// The number of the interface.
pub const ABI: u32 = 1;

/// Room for events, the least there may be: the fuel of a call bounds what 56 requests may cost.
const EVENTS_BYTES: usize = 4_096;

/// Most requests in an answer, and most parameters or counters.
const ANSWERS_MAX: usize = 64;
const VALUES_MAX: usize = 32;

/// Kinds of events.
const PUSH: u64 = 1;
const DONE: u64 = 2;
const FLUSH: u64 = 3;
const FLUSHED: u64 = 4;
const GROUP: u64 = 5;
const GROUP_GONE: u64 = 6;

/// A policy with its desk: what iopace calls, and what is written where.
pub struct Instance<P> {
    /// Addresses and sizes of the three below.
    desk: [u32; 5],
    pub(crate) events: [u64; EVENTS_BYTES / 8],
    answers: [u64; 2 * ANSWERS_MAX],
    values: [u64; VALUES_MAX],
    /// An answer that could not be given beside others.
    kept: Option<Pop>,
    /// The policy itself.
    pub policy: P,
}

impl<P: Policy> Instance<P> {
    /// One on the heap, where it stays.
    pub fn new(seed: u64, head: u32) -> Box<Instance<P>> {
        let has_head = [None, Some(false), Some(true)].get(head as usize).copied().flatten();
        let mut instance = Box::new(Instance {
            desk: [0; 5],
            events: [0; EVENTS_BYTES / 8],
            answers: [0; 2 * ANSWERS_MAX],
            values: [0; VALUES_MAX],
            kept: None,
            policy: P::new(Start { has_head, random: Random::new(seed) }),
        });
        // An address of the module has 32 bits; elsewhere nobody reads them.
        let events = instance.events.as_ptr() as usize as u32;
        let answers = instance.answers.as_ptr() as usize as u32;
        let values = instance.values.as_ptr() as usize as u32;
        instance.desk = [events, EVENTS_BYTES as u32, answers, ANSWERS_MAX as u32, values];
        instance
    }

    /// Takes the events that wait in the desk.
    pub fn events(&mut self, bytes: u32) {
        let mut words = &self.events[..bytes as usize / 8];
        while let [first, _, _, ..] = *words {
            let length = match first & 0xff {
                PUSH | FLUSH => 9,
                GROUP => 12,
                DONE | FLUSHED | GROUP_GONE => 3,
                kind => panic!("an event of kind {kind}: the host is newer than this policy"),
            };
            let (event, rest) = words.split_at(length);
            tell(&mut self.policy, event);
            words = rest;
        }
    }

    /// The next requests.
    pub fn pop(&mut self, now: Nanos, bytes: u32, room: u32) -> u32 {
        self.events(bytes);
        let room = if P::RUN_AHEAD { (room as usize).clamp(1, ANSWERS_MAX) } else { 1 };
        for count in 0..room {
            let answer = self.kept.take().unwrap_or_else(|| self.policy.pop(now));
            match answer {
                Pop::Next(id) => self.answer(count, id),
                // `Last` goes alone; the others are said anew when it is asked again.
                other if count > 0 => {
                    self.kept = Some(other).filter(|pop| matches!(pop, Pop::Last(..)));
                    return 1 | (count as u32) << 16;
                }
                Pop::Last(id, reason) => {
                    self.answer(0, id);
                    return 2 | (reason as u32) << 8 | 1 << 16;
                }
                Pop::At(at, reason) => {
                    self.answers[0] = at;
                    return 3 | (reason as u32) << 8;
                }
                Pop::Empty => return 0,
            }
        }
        1 | (room as u32) << 16
    }

    fn answer(&mut self, place: usize, id: Id) {
        self.answers[2 * place] = u64::from(id.slot);
        self.answers[2 * place + 1] = id.sequence;
    }

    /// Takes new parameters from the values.
    pub fn configure(&mut self, bytes: u32) {
        self.events(bytes);
        self.policy.configure(&self.values[..P::PARAMETERS.len()]);
    }

    /// Writes the counters into the values.
    pub fn counters(&mut self, bytes: u32) {
        self.events(bytes);
        self.policy.counters(&mut self.values[..P::COUNTERS.len()]);
    }

    /// Whether a request goes with the one popped last; names as slot and sequence.
    pub fn join(&mut self, now: Nanos, bytes: u32, id: (u32, u64), lead: (u32, u64)) -> u32 {
        self.events(bytes);
        let [id, lead] = [id, lead].map(|(slot, sequence)| Id { sequence, slot });
        u32::from(self.policy.join(now, id, lead))
    }

    /// The opinion about the disk.
    pub fn disk(&mut self, bytes: u32) -> u32 {
        self.events(bytes);
        let Some(view) = self.policy.disk() else { return 0 };
        self.values[0] = view.seek;
        let head = view.has_head.map_or(0, |has_head| 2 | u32::from(has_head) << 2);
        1 | head | u32::from(view.is_learned) << 3
    }

    /// The bound of a wait; 0 for none. The load as kind, clients, requests and service.
    pub fn wait_max(&self, (kind, clients, requests, service): (u32, u64, u64, u64)) -> u64 {
        let load = Load { is_stream: kind == 1, clients, requests, service };
        self.policy.wait_max(&load).map_or(0, |wait| wait.clamp(1, NEVER))
    }
}

/// Tells a policy of one event.
fn tell<P: Policy>(policy: &mut P, event: &[u64]) {
    let (now, number) = (event[1], (event[0] >> 32) as u32);
    let (id, flags) = (Id { sequence: event[2], slot: number }, event[0] >> 8);
    match event[0] & 0xff {
        PUSH => policy.push(now, request(id, event)),
        DONE => policy.done(now, id, flags & 4 != 0),
        FLUSH => policy.flush(now, request(id, event)),
        FLUSHED => policy.flushed(now, id),
        GROUP => policy.group(now, number, &group(event)),
        _ => policy.group_gone(number),
    }
}

fn request(id: Id, event: &[u64]) -> Request {
    let (op, flags) = (Op::ALL[event[0] as usize >> 16 & 0xff], event[0] >> 8);
    let (sync, reserved) = (flags & 1 != 0, flags & 2 != 0);
    let (task, group, space) = (event[3], event[4] as u32, (event[4] >> 32) as u32);
    let (offset, length, arrived) = (event[5], event[6], event[7]);
    Request { id, task, group, op, space, offset, length, sync, reserved, arrived }
}

fn group(event: &[u64]) -> Group {
    let (parent, weight) = (event[3] as u32, (event[3] >> 32) as u32);
    let class = [Class::RealTime, Class::BestEffort, Class::Idle][event[4] as u32 as usize - 1];
    let guarantees = [event[5], event[6], event[7], event[8], event[10], event[11]];
    Group { parent, weight, class, guarantees, latency: event[9] }
}

/// The place of the one instance of a module.
pub struct Place<P>(pub UnsafeCell<Option<Box<Instance<P>>>>);

// SAFETY: a module has one thread, and iopace makes one call at a time.
unsafe impl<P> Sync for Place<P> {}

impl<P: Policy> Place<P> {
    /// Makes the instance; the address of its desk.
    pub fn make(&self, seed: u64, head: u32) -> u32 {
        std::panic::set_hook(Box::new(|panic| log(&format!("{panic}"))));
        let instance = Instance::new(seed, head);
        let desk = instance.desk.as_ptr() as usize as u32;
        // SAFETY: nothing of it is borrowed, as no call is under way but this one.
        unsafe { *self.0.get() = Some(instance) };
        desk
    }

    /// Calls it.
    pub fn with<T>(&self, call: impl FnOnce(&mut Instance<P>) -> T) -> T {
        // SAFETY: it is borrowed for this call only, and no call is made within another.
        let place = unsafe { &mut *self.0.get() };
        call(place.as_mut().expect("iopace_make was called first"))
    }
}

/// A text where iopace can read it for as long as the module lives: address and length.
pub fn text(text: String) -> u64 {
    let text = text.leak();
    (text.as_ptr() as usize as u64) << 32 | text.len() as u64
}

/// The description of a policy.
pub fn describe<P: Policy>() -> String {
    const { assert!(P::PARAMETERS.len() <= 16, "a policy has at most 16 parameters") };
    const { assert!(P::COUNTERS.len() <= VALUES_MAX, "a policy has at most 32 counters") };
    let parameters =
        P::PARAMETERS.iter().map(|Parameter { name, unit, min, default, max, doc }| {
            let [name, unit, doc] = [name, unit, doc].map(|text| json(text));
            let bounds = format!("\"min\": {min}, \"default\": {default}, \"max\": {max}");
            format!("{{\"name\": {name}, \"unit\": {unit}, {bounds}, \"doc\": {doc}}}")
        });
    let counters = P::COUNTERS.iter().map(|Counter { name, doc }| {
        format!("{{\"name\": {}, \"doc\": {}}}", json(name), json(doc))
    });
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let counters = counters.collect::<Vec<_>>().join(", ");
    let [name, version, summary] = [P::NAME, P::VERSION, P::SUMMARY].map(json);
    let (learns, run_ahead, divides) = (P::LEARNS, P::RUN_AHEAD, P::DIVIDES);
    format!(
        "{{\"name\": {name}, \"version\": {version}, \"summary\": {summary}, \
         \"parameters\": [{parameters}], \"counters\": [{counters}], \
         \"learns\": {learns}, \"run_ahead\": {run_ahead}, \"divides\": {divides}}}"
    )
}

/// A text as JSON.
fn json(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

// The world of tests.

/// A device with one policy, for its tests: it puts requests through the desk as iopace does, and
/// panics if the policy gives one twice, gives one that it does not have, or forgets one.
#[cfg(test)]
pub struct World<P> {
    /// The time, which a test may change.
    pub now: Nanos,
    pub instance: Box<Instance<P>>,
    /// Bytes of events that wait in the desk.
    bytes: usize,
    sequence: u64,
    /// By slot: a request that is queued, or at the disk (true).
    requests: Vec<Option<(Request, bool)>>,
    /// Answered, and not handed out yet.
    ahead: alloc::collections::VecDeque<Id>,
    values: Vec<u64>,
}

#[cfg(test)]
impl<P: Policy> World<P> {
    /// One with these parameters; the others are at their defaults.
    pub fn new(parameters: &[(&str, u64)]) -> World<P> {
        let mut world = World {
            now: 0,
            instance: Instance::new(1, 0),
            bytes: 0,
            sequence: 0,
            requests: Vec::new(),
            ahead: Default::default(),
            values: P::PARAMETERS.iter().map(|parameter| parameter.default).collect(),
        };
        world.configure(parameters);
        world
    }

    /// Sets parameters by name.
    pub fn configure(&mut self, parameters: &[(&str, u64)]) {
        for (name, value) in parameters {
            let at = P::PARAMETERS.iter().position(|parameter| parameter.name == *name);
            let at = at.unwrap_or_else(|| panic!("no parameter {name}"));
            let Parameter { min, max, .. } = P::PARAMETERS[at];
            assert!((min..=max).contains(value), "{name}={value} is out of {min} to {max}");
            self.values[at] = *value;
        }
        self.instance.values[..self.values.len()].copy_from_slice(&self.values);
        self.instance.configure(core::mem::take(&mut self.bytes) as u32);
    }

    /// The value of a counter.
    pub fn counter(&mut self, name: &str) -> u64 {
        let at = P::COUNTERS.iter().position(|counter| counter.name == name);
        self.instance.counters(core::mem::take(&mut self.bytes) as u32);
        self.instance.values[at.unwrap_or_else(|| panic!("no counter {name}"))]
    }

    /// How many are queued.
    pub fn queued_count(&self) -> usize {
        self.requests.iter().flatten().filter(|(_, is_at_disk)| !is_at_disk).count()
    }

    /// Queues a request of a task in the root, for which it waits.
    pub fn push(&mut self, task: u64, op: Op, offset: u64, length: u64) -> Id {
        let (id, group, space, arrived) = (Id::default(), 0, 0, self.now);
        let (sync, reserved) = (true, false);
        let request =
            Request { id, task, group, op, space, offset, length, sync, reserved, arrived };
        self.push_request(request)
    }

    /// Queues one like this, under a new name.
    pub fn push_request(&mut self, like: Request) -> Id {
        let slot = self.requests.iter().position(Option::is_none).unwrap_or(self.requests.len());
        let id = Id { sequence: self.sequence, slot: slot as u32 };
        self.sequence += 1;
        let request = Request { id, ..like };
        self.requests.resize(self.requests.len().max(slot + 1), None);
        self.requests[slot] = Some((request, false));
        let flags = u64::from(request.sync) | u64::from(request.reserved) << 1;
        let place = u64::from(request.group) | u64::from(request.space) << 32;
        let Request { task, offset, length, arrived, op, .. } = request;
        let first = PUSH | flags << 8 | (op as u64) << 16;
        self.event(first, id, &[task, place, offset, length, arrived, 0]);
        id
    }

    /// Says what holds for a group.
    pub fn group(&mut self, number: u32, group: &Group) {
        let Group { parent, weight, class, guarantees, latency } = *group;
        let above = u64::from(parent) | u64::from(weight) << 32;
        let [bytes, written, reads, writes, both, all] = guarantees;
        let rest = [above, class as u64, bytes, written, reads, writes, latency, both, all];
        self.event(GROUP, Id { sequence: 0, slot: number }, &rest);
    }

    fn event(&mut self, first: u64, id: Id, rest: &[u64]) {
        if self.bytes + 24 + 8 * rest.len() > EVENTS_BYTES {
            self.instance.events(core::mem::take(&mut self.bytes) as u32);
        }
        let head = [first | u64::from(id.slot) << 32, self.now, id.sequence];
        for word in head.iter().chain(rest) {
            self.instance.events[self.bytes / 8] = *word;
            self.bytes += 8;
        }
    }

    /// Asks for the next request, which is at the disk then.
    pub fn pop(&mut self) -> Pop {
        if let Some(id) = self.ahead.pop_front() {
            self.starts(id);
            return Pop::Next(id);
        }
        let bytes = core::mem::take(&mut self.bytes) as u32;
        let answer = self.instance.pop(self.now, bytes, ANSWERS_MAX as u32);
        let reason = if answer >> 8 & 0xff == 0 { Reason::Turn } else { Reason::Anticipation };
        let answers = &self.instance.answers;
        let id = |at: usize| Id { slot: answers[2 * at] as u32, sequence: answers[2 * at + 1] };
        self.ahead.extend((1..(answer >> 16) as usize).map(id));
        let (first, at) = (id(0), answers[0]);
        let kind = answer & 0xff;
        assert!(kind != 0 || self.queued_count() == 0, "it forgot some that are queued");
        if kind == 1 || kind == 2 {
            self.starts(first);
        }
        [Pop::Empty, Pop::Next(first), Pop::Last(first, reason), Pop::At(at, reason)][kind as usize]
    }

    fn starts(&mut self, id: Id) {
        let queued = self
            .requests
            .get_mut(id.slot as usize)
            .and_then(Option::as_mut)
            .filter(|(request, is_at_disk)| request.id == id && !*is_at_disk);
        queued.unwrap_or_else(|| panic!("it gave {id:?}, which is not queued")).1 = true;
    }

    /// A request at the disk is done.
    pub fn done(&mut self, id: Id) -> Request {
        let place =
            self.requests[id.slot as usize].take_if(|(of, is_at_disk)| of.id == id && *is_at_disk);
        if P::LEARNS {
            self.event(DONE | 4 << 8, id, &[]);
        }
        place.unwrap_or_else(|| panic!("{id:?} is not at the disk")).0
    }

    /// Serves one request, for which it waits as long as the policy says.
    pub fn serve(&mut self) -> Option<Request> {
        loop {
            match self.pop() {
                Pop::Empty => return None,
                Pop::Next(id) | Pop::Last(id, _) => return Some(self.done(id)),
                Pop::At(at, _) => {
                    assert!(at < NEVER, "it holds all back, and nothing is at the disk");
                    self.now = at.max(self.now + 1);
                }
            }
        }
    }

    /// Serves all that is queued; in which order.
    pub fn drain(&mut self) -> Vec<Id> {
        core::iter::from_fn(|| self.serve()).map(|request| request.id).collect()
    }

    /// A disk that takes `service` for each request of a load drawn from the seed, with up to
    /// `requests` queued at any time; the longest wait for a start.
    pub fn run(&mut self, seed: u64, requests: usize, service: Nanos) -> Nanos {
        let (mut random, mut longest) = (Random::new(seed), 0);
        for _ in 0..2_000 {
            while self.queued_count() < requests {
                let op = if random.below(2) == 0 { Op::Read } else { Op::Write };
                let (task, page) = (u64::from(random.below(4)), u64::from(random.below(1 << 20)));
                self.push(task, op, page * 4_096, 4_096);
            }
            let request = self.serve().expect("some are queued");
            longest = longest.max(self.now - request.arrived);
            self.now += service;
        }
        self.drain();
        longest
    }
}
