//! Broken schedulers that the suites must catch.
#![allow(dead_code)]

use iopace_core::request::RequestId;
use iopace_core::sched::{Algorithm, Params, Pop, Profile, REGISTRY, Scheduler};
use iopace_core::table::Table;
use iopace_core::time::Instant;
use iopace_core::trace::Fault;
use iopace_core::verdict::Reason;

/// Fifo that does one thing wrong, once in so many calls of `pop`.
#[derive(Debug)]
struct Broken {
    inner: Box<dyn Scheduler>,
    every: u64,
    pops: u64,
    wrong: Wrong,
    last: Option<RequestId>,
}

/// The thing that it does wrong.
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
        if self.pops % self.every != self.every - 1 || table.queued_count() == 0 {
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
            Wrong::Invents => Pop::Ready(RequestId::forge(u64::MAX)),
            Wrong::Repeats => Pop::Ready(self.last.expect("it popped before")),
        }
    }
}

/// A broken scheduler for each thing that can be wrong, which it does once in `every` calls of
/// `pop`, and what the engine calls it.
pub fn canaries(every: u64) -> Vec<(&'static Algorithm, Fault)> {
    let broken = move |wrong: Wrong| -> Box<dyn Scheduler> {
        let fifo = REGISTRY[0];
        let inner = (fifo.build)(&fifo.defaults());
        Box::new(Broken { inner, every, pops: 0, wrong, last: None })
    };
    let canary = |(wrong, fault)| -> (&'static Algorithm, Fault) {
        let (name, summary, profile) = ("canary", "does one thing wrong", Profile::PLAIN);
        let build = Box::leak(Box::new(move |_: &Params| broken(wrong)));
        let canary = Algorithm { name, summary, params: &[], counters: &[], profile, build };
        (Box::leak(Box::new(canary)), fault)
    };
    let all = [
        (Wrong::Panics, Fault::Panicked),
        (Wrong::Stalls, Fault::Stalled),
        (Wrong::Loses, Fault::Forgot),
        (Wrong::Invents, Fault::Invented),
        (Wrong::Repeats, Fault::Invented),
    ];
    all.into_iter().map(canary).collect()
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
