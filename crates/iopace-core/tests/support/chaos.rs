//! Schedulers that make life hard: one that shakes another without breaking the contract, and
//! broken ones that the suite must catch.

use super::{Random, forged};
use iopace_core::request::{Done, Extent, GroupId, Op, Request, RequestId, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, Params, REGISTRY, Scheduler};
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Fault;
use iopace_core::units::Bytes;
use iopace_core::verdict::{Pop, Reason};

/// Wraps a scheduler: holds it back for bounded times, drains it and gives everything back in its
/// order or in another, and changes its parameters at random within their bounds.
#[derive(Debug)]
pub struct Chaos {
    inner: Box<dyn Scheduler>,
    algorithm: &'static Algorithm,
    random: Random,
    held_until: Instant,
    /// Whether what it holds was given to it out of order.
    is_shuffled: bool,
}

impl Chaos {
    fn new(algorithm: &'static Algorithm) -> Chaos {
        let inner = (algorithm.build)(&algorithm.defaults());
        Chaos {
            inner,
            algorithm,
            random: Random(99),
            held_until: Instant::ZERO,
            is_shuffled: false,
        }
    }

    fn shake(&mut self, now: Instant) {
        match self.random.below(40) {
            0 => self.held_until = now + Nanos(self.random.below(20_000_000)),
            1 => self.inner.configure(&params(self.algorithm, &mut self.random, u64::MAX)),
            2 | 3 => self.refill(now),
            _ => {}
        }
    }

    /// Drains it and gives all back, at times in another order.
    fn refill(&mut self, now: Instant) {
        let mut all = Vec::new();
        self.inner.drain(&mut all);
        let sequences: Vec<u64> = all.iter().map(|request| request.id().sequence()).collect();
        assert!(self.is_shuffled || sequences.is_sorted(), "a drain is in order of arrival");
        assert_eq!(self.inner.len(), 0, "a drain leaves nothing");
        let by = self.random.below(all.len().max(1) as u64) as usize;
        all.rotate_left(by);
        self.is_shuffled |= by > 0;
        all.into_iter().for_each(|request| self.inner.push(now, request));
    }
}

/// Legal parameters by chance, each at most `times` its default (or its least, if that is more).
pub fn params(algorithm: &Algorithm, random: &mut Random, times: u64) -> Params {
    let mut params = algorithm.defaults();
    for spec in algorithm.params {
        let highest = spec.default.max(spec.min).max(1).saturating_mul(times).min(spec.max);
        let value = spec.min + random.below(highest - spec.min + 1);
        params.set(spec.name, value).expect("within its bounds");
    }
    params
}

impl Scheduler for Chaos {
    fn push(&mut self, now: Instant, request: Request) {
        self.is_shuffled &= !self.inner.is_empty();
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
            5 => |_| Box::new(Chaos::new(REGISTRY[5])),
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
    wrong: Wrong,
    last: Option<RequestId>,
}

/// What it does wrong.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Panics,
    Stalls,
    Loses,
    Invents,
    Repeats,
}

impl Scheduler for Broken {
    fn push(&mut self, now: Instant, request: Request) {
        self.inner.push(now, request);
    }

    fn pop(&mut self, now: Instant) -> Pop {
        self.pops += 1;
        if self.pops % 1_000 != 999 || self.inner.is_empty() {
            let pop = self.inner.pop(now);
            if let Pop::Ready(request) = &pop {
                self.last = Some(request.id());
            }
            return pop;
        }
        match self.wrong {
            Wrong::Panics => panic!("the canary panics"),
            Wrong::Stalls => {
                self.pops -= 1;
                Pop::At(Instant::NEVER, Reason::Turn)
            }
            Wrong::Loses => {
                if let Pop::Ready(request) = self.inner.pop(now) {
                    request.abandon();
                }
                self.inner.pop(now)
            }
            Wrong::Invents => Pop::Ready(made_up(forged(u64::MAX), now)),
            Wrong::Repeats => Pop::Ready(made_up(self.last.expect("it popped before"), now)),
        }
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn drain(&mut self, into: &mut Vec<Request>) {
        self.inner.drain(into);
    }
}

/// A request that nobody submitted.
fn made_up(id: RequestId, now: Instant) -> Request {
    let submit = Submit {
        tag: Tag(0),
        task: TaskId(0),
        group: GroupId::ROOT,
        op: Op::Write,
        extent: Extent::new(Bytes(0), Bytes(512)).expect("small"),
        fua: false,
        sync: true,
    };
    Request::new(id, submit, now)
}

/// A broken scheduler for each thing that can be wrong, and what the engine calls it.
pub fn canaries() -> Vec<(&'static Algorithm, Fault)> {
    fn broken(wrong: Wrong) -> Box<dyn Scheduler> {
        let fifo = REGISTRY[0];
        let inner = (fifo.build)(&fifo.defaults());
        Box::new(Broken { inner, pops: 0, wrong, last: None })
    }
    let canary = |build, fault| -> (&'static Algorithm, Fault) {
        let (summary, params, counters) = ("does one thing wrong", &[], &[]);
        (Box::leak(Box::new(Algorithm { name: "canary", summary, params, counters, build })), fault)
    };
    vec![
        canary(|_| broken(Wrong::Panics), Fault::Panicked),
        canary(|_| broken(Wrong::Stalls), Fault::Stalled),
        canary(|_| broken(Wrong::Loses), Fault::Forgot),
        canary(|_| broken(Wrong::Invents), Fault::Invented),
        canary(|_| broken(Wrong::Repeats), Fault::Invented),
    ]
}

/// Serves the latest first, so that the first waits for ever.
#[derive(Debug, Default)]
struct Unfair(Vec<Request>);

impl Scheduler for Unfair {
    fn push(&mut self, _now: Instant, request: Request) {
        self.0.push(request);
    }

    fn pop(&mut self, _now: Instant) -> Pop {
        self.0.pop().map_or(Pop::Empty, Pop::Ready)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn drain(&mut self, into: &mut Vec<Request>) {
        into.append(&mut self.0);
    }
}

/// A scheduler that breaks no law but lets requests wait.
pub static UNFAIR: Algorithm = Algorithm {
    name: "unfair",
    summary: "the latest first",
    params: &[],
    counters: &[],
    build: |_| Box::new(Unfair::default()),
};
