//! A scheduler that shakes another one without breaking the contract.

use crate::random::Random;
use iopace_core::request::RequestId;
use iopace_core::sched::{Algorithm, Params, Pop, Profile, Scheduler};
use iopace_core::table::{Request, Table};
use iopace_core::time::{Instant, Nanos};
use iopace_core::verdict::Reason;
use std::collections::BTreeSet;

/// Wraps a scheduler: holds it back for bounded times, makes it anew with everything that it holds,
/// in its order or in another, and changes its parameters at random within their bounds.
#[derive(Debug)]
struct Chaos {
    inner: Box<dyn Scheduler>,
    algorithm: &'static Algorithm,
    params: Params,
    random: Random,
    held_until: Instant,
    /// The requests that it holds, in the order in which they were given to it.
    held: Vec<RequestId>,
    /// The requests that it has popped and that are not done.
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

/// This scheduler in chaos, under its own name. It lives as long as the program.
pub fn in_chaos(inner: &'static Algorithm) -> &'static Algorithm {
    let build = move |_: &Params| -> Box<dyn Scheduler> { Box::new(Chaos::new(inner)) };
    let (name, summary, profile) = (inner.name, "in chaos", Profile::PLAIN);
    let (params, counters, build) = (&[], &[], Box::leak(Box::new(build)));
    Box::leak(Box::new(Algorithm { name, summary, params, counters, profile, build }))
}
