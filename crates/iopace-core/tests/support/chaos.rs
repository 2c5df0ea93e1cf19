//! Schedulers that make life hard: one that shakes another without breaking the contract, and broken
//! ones that the suite must catch.

use super::{Random, forged};
use iopace_core::request::{Done, Extent, GroupId, Op, Request, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, Params, REGISTRY, Scheduler};
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Fault;
use iopace_core::units::Bytes;
use iopace_core::verdict::{Pop, Reason};

/// Wraps a scheduler: holds it back for bounded times, drains it and gives everything back, and
/// changes its parameters at random within their bounds.
#[derive(Debug)]
pub struct Chaos {
    inner: Box<dyn Scheduler>,
    algorithm: &'static Algorithm,
    random: Random,
    held_until: Instant,
}

impl Chaos {
    fn new(algorithm: &'static Algorithm) -> Chaos {
        let inner = (algorithm.build)(&algorithm.defaults());
        Chaos { inner, algorithm, random: Random(99), held_until: Instant::ZERO }
    }

    fn shake(&mut self, now: Instant) {
        match self.random.below(40) {
            0 => self.held_until = now + Nanos(self.random.below(20_000_000)),
            1 => {
                let mut params = self.algorithm.defaults();
                for spec in self.algorithm.params {
                    let span = (spec.max - spec.min + 1).min(1 << 30);
                    let value = spec.min + self.random.below(span);
                    params.set(spec.name, value).expect("within its bounds");
                }
                self.inner.configure(&params);
            }
            2 => {
                let mut all = Vec::new();
                self.inner.drain(&mut all);
                let sequences: Vec<u64> = all.iter().map(|r| r.id().sequence()).collect();
                assert!(sequences.is_sorted(), "a drain is in order of arrival");
                assert_eq!(self.inner.len(), 0, "a drain leaves nothing");
                all.into_iter().for_each(|request| self.inner.push(now, request));
            }
            _ => {}
        }
    }
}

impl Scheduler for Chaos {
    fn push(&mut self, now: Instant, request: Request) {
        self.inner.push(now, request);
    }

    fn pop(&mut self, now: Instant) -> Pop {
        self.shake(now);
        if now < self.held_until && !self.inner.is_empty() {
            return Pop::At(self.held_until, Reason::Turn);
        }
        self.inner.pop(now)
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn drain(&mut self, into: &mut Vec<Request>) {
        self.inner.drain(into);
    }

    fn on_done(&mut self, now: Instant, done: &Done) {
        self.inner.on_done(now, done);
    }
}

/// The registry's schedulers in chaos, made from it.
pub fn in_chaos() -> Vec<&'static Algorithm> {
    let wrap = |index: usize| -> fn(&Params) -> Box<dyn Scheduler> {
        // A function pointer cannot capture: one for each place of the registry.
        match index {
            0 => |_| Box::new(Chaos::new(REGISTRY[0])),
            1 => |_| Box::new(Chaos::new(REGISTRY[1])),
            2 => |_| Box::new(Chaos::new(REGISTRY[2])),
            3 => |_| Box::new(Chaos::new(REGISTRY[3])),
            4 => |_| Box::new(Chaos::new(REGISTRY[4])),
            _ => panic!("add a line for the new scheduler"),
        }
    };
    let algorithm = |(index, inner): (usize, &&'static Algorithm)| -> &'static Algorithm {
        Box::leak(Box::new(Algorithm {
            name: inner.name,
            summary: "in chaos",
            params: &[],
            counters: &[],
            build: wrap(index),
        }))
    };
    REGISTRY.iter().enumerate().map(algorithm).collect()
}

/// Fifo that does one thing wrong, rarely.
#[derive(Debug)]
struct Broken {
    inner: Box<dyn Scheduler>,
    pops: u64,
    fault: Fault,
}

impl Scheduler for Broken {
    fn push(&mut self, now: Instant, request: Request) {
        self.inner.push(now, request);
    }

    fn pop(&mut self, now: Instant) -> Pop {
        self.pops += 1;
        if self.pops % 1_000 != 999 || self.inner.is_empty() {
            return self.inner.pop(now);
        }
        match self.fault {
            Fault::Panicked => panic!("the canary panics"),
            Fault::Stalled => {
                self.pops -= 1;
                Pop::At(Instant::NEVER, Reason::Turn)
            }
            Fault::Forgot => {
                if let Pop::Ready(request) = self.inner.pop(now) {
                    request.abandon();
                }
                self.inner.pop(now)
            }
            Fault::Invented => {
                let submit = Submit {
                    tag: Tag(0),
                    task: TaskId(0),
                    group: GroupId::ROOT,
                    op: Op::Write,
                    extent: Extent::new(Bytes(0), Bytes(512)).expect("small"),
                    fua: false,
                    sync: true,
                };
                Pop::Ready(Request::new(forged(u64::MAX), submit, now))
            }
        }
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn drain(&mut self, into: &mut Vec<Request>) {
        self.inner.drain(into);
    }
}

/// A broken scheduler for each fault that the engine knows.
pub fn canaries() -> Vec<(&'static Algorithm, Fault)> {
    fn broken(fault: Fault) -> Box<dyn Scheduler> {
        let fifo = REGISTRY[0];
        Box::new(Broken { inner: (fifo.build)(&fifo.defaults()), pops: 0, fault })
    }
    let canary = |build, fault| -> (&'static Algorithm, Fault) {
        let (summary, params, counters) = ("does one thing wrong", &[], &[]);
        (Box::leak(Box::new(Algorithm { name: "canary", summary, params, counters, build })), fault)
    };
    vec![
        canary(|_| broken(Fault::Panicked), Fault::Panicked),
        canary(|_| broken(Fault::Stalled), Fault::Stalled),
        canary(|_| broken(Fault::Forgot), Fault::Forgot),
        canary(|_| broken(Fault::Invented), Fault::Invented),
    ]
}
