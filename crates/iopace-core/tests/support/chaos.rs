//! Schedulers that make life hard: one that shakes another without breaking the contract, and
//! broken ones that the suite must catch.

use super::{Random, forged};
use iopace_core::request::RequestId;
use iopace_core::sched::{Algorithm, Build, ParamSpec, Params, Pop, Profile, REGISTRY, Scheduler};
use iopace_core::table::{Request, Table};
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Fault;
use iopace_core::verdict::Reason;
use std::collections::BTreeSet;

/// Wraps a scheduler: holds it back for bounded times, makes it anew with everything that it holds,
/// in its order or in another, and changes its parameters at random within their bounds.
#[derive(Debug)]
pub struct Chaos {
    inner: Box<dyn Scheduler>,
    algorithm: &'static Algorithm,
    params: Params,
    random: Random,
    held_until: Instant,
    /// What it holds, in the order in which it was given to it.
    held: Vec<RequestId>,
    /// What it has popped and is not done.
    popped: BTreeSet<RequestId>,
}

impl Chaos {
    fn new(algorithm: &'static Algorithm) -> Chaos {
        let params = algorithm.defaults();
        Chaos {
            inner: (algorithm.build)(&params),
            algorithm,
            params,
            random: Random(99),
            held_until: Instant::ZERO,
            held: Vec::new(),
            popped: BTreeSet::new(),
        }
    }

    fn shake(&mut self, now: Instant, table: &Table) {
        match self.random.below(40) {
            0 => self.held_until = now + Nanos(self.random.below(20_000_000)),
            1 => {
                self.params = params(self.algorithm, &mut self.random, u64::MAX);
                self.inner.configure(&self.params, table);
            }
            2 | 3 => self.refill(now, table),
            _ => {}
        }
    }

    /// Makes it anew and gives all back, at times in another order.
    fn refill(&mut self, now: Instant, table: &Table) {
        self.inner = (self.algorithm.build)(&self.params);
        self.popped.clear();
        let by = self.random.below(self.held.len().max(1) as u64) as usize;
        self.held.rotate_left(by);
        self.held.iter().for_each(|id| self.inner.push(now, *id, table));
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
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.held.push(id);
        self.inner.push(now, id, table);
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        self.shake(now, table);
        if now < self.held_until && !self.held.is_empty() {
            return Pop::At(self.held_until, Reason::Turn);
        }
        let pop = self.inner.pop(now, table);
        if let Pop::Ready(id) | Pop::Last(id, _) = pop {
            self.held.retain(|held| *held != id);
            self.popped.insert(id);
        }
        pop
    }

    fn join(&mut self, now: Instant, id: RequestId, lead: RequestId, table: &Table) -> bool {
        let joins = self.random.below(8) > 0 && self.inner.join(now, id, lead, table);
        if joins {
            self.held.retain(|held| *held != id);
            self.popped.insert(id);
        }
        joins
    }

    fn on_done(&mut self, now: Instant, id: RequestId, request: &Request, ok: bool) {
        if self.popped.remove(&id) {
            self.inner.on_done(now, id, request, ok);
        }
    }
}

/// The registry's schedulers in chaos, made from it.
pub fn in_chaos() -> Vec<&'static Algorithm> {
    let algorithm = |(index, inner): (usize, &&'static Algorithm)| -> &'static Algorithm {
        // A function pointer captures nothing: a parameter with one legal value tells it the place.
        let place = ParamSpec::new("place", "of the registry", [index as u64; 3], "which one");
        let (name, summary, params) = (inner.name, "in chaos", Box::leak(Box::new([place])));
        let build: Build = &|params: &Params| -> Box<dyn Scheduler> {
            Box::new(Chaos::new(REGISTRY[params.get(0) as usize]))
        };
        let (counters, profile) = (&[], Profile::PLAIN);
        Box::leak(Box::new(Algorithm { name, summary, params, counters, profile, build }))
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
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.inner.push(now, id, table);
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        self.pops += 1;
        if self.pops % 1_000 != 999 || table.queued_count() == 0 {
            let pop = self.inner.pop(now, table);
            if let Pop::Ready(id) | Pop::Last(id, _) = pop {
                self.last = Some(id);
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
                _ = self.inner.pop(now, table);
                self.inner.pop(now, table)
            }
            Wrong::Invents => Pop::Ready(forged(u64::MAX)),
            Wrong::Repeats => Pop::Ready(self.last.expect("it popped before")),
        }
    }
}

/// A broken scheduler for each thing that can be wrong, and what the engine calls it.
pub fn canaries() -> Vec<(&'static Algorithm, Fault)> {
    fn broken(wrong: Wrong) -> Box<dyn Scheduler> {
        let fifo = REGISTRY[0];
        let inner = (fifo.build)(&fifo.defaults());
        Box::new(Broken { inner, pops: 0, wrong, last: None })
    }
    let canary = |build: Build, fault| -> (&'static Algorithm, Fault) {
        let (name, summary, profile) = ("canary", "does one thing wrong", Profile::PLAIN);
        let canary = Algorithm { name, summary, params: &[], counters: &[], profile, build };
        (Box::leak(Box::new(canary)), fault)
    };
    vec![
        canary(&|_| broken(Wrong::Panics), Fault::Panicked),
        canary(&|_| broken(Wrong::Stalls), Fault::Stalled),
        canary(&|_| broken(Wrong::Loses), Fault::Forgot),
        canary(&|_| broken(Wrong::Invents), Fault::Invented),
        canary(&|_| broken(Wrong::Repeats), Fault::Invented),
    ]
}

/// Serves the latest first, so that the first waits for ever.
#[derive(Debug, Default)]
struct Unfair(Vec<RequestId>);

impl Scheduler for Unfair {
    fn push(&mut self, _now: Instant, id: RequestId, _table: &Table) {
        self.0.push(id);
    }

    fn pop(&mut self, _now: Instant, _table: &Table) -> Pop {
        self.0.pop().map_or(Pop::Empty, Pop::Ready)
    }
}

/// A scheduler that breaks no law but lets requests wait.
pub static UNFAIR: Algorithm = Algorithm {
    name: "unfair",
    summary: "the latest first",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: &|_| Box::new(Unfair::default()),
};
