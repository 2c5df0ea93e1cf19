//! The search for faults: what is sound passes, and what is planted is found and made small.
//!
//! `IOPACE_FUZZ_RUNS=2000` tries so many scenarios.

use iopace_core::request::RequestId;
use iopace_core::sched::{Algorithm, Pop, Profile, Scheduler};
use iopace_core::table::Table;
use iopace_core::time::{Instant, Nanos};
use iopace_sim::fuzz::{FOUND_MAX, SearchOutcome, search, trial};
use iopace_sim::scenario::{Chosen, Scenario};

/// Of a run, unless the environment says otherwise: some ten seconds.
const RUNS: u64 = 16;

#[test]
fn random_scenarios_hold() {
    let runs = std::env::var("IOPACE_FUZZ_RUNS").ok();
    let runs = runs.map_or(RUNS, |runs| runs.parse().expect("a number"));
    let outcome = search(1, Some(runs), FOUND_MAX, &|_| (), &|_, _| true);
    assert_eq!(outcome.runs, runs);
    let texts = outcome.found.iter().map(|found| format!("seed {}\n{}", found.seed, found.text));
    assert!(outcome.found.is_empty(), "{}", texts.collect::<Vec<_>>().join("\n"));
}

/// Serves the latest first: with enough asking, the first waits for ever.
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

/// Forgets every hundredth request.
#[derive(Debug, Default)]
struct Forgetful(Unfair, u64);

impl Scheduler for Forgetful {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.0.push(now, id, table);
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        self.1 += 1;
        if self.1.is_multiple_of(100) {
            _ = self.0.pop(now, table);
        }
        self.0.pop(now, table)
    }
}

static UNFAIR: Algorithm = Algorithm {
    name: "unfair",
    summary: "the latest first",
    params: &[],
    counters: &[],
    // It promises what it does not keep, or nobody would look.
    profile: Profile { stream_wait: Some(&|_, load| load.service), ..Profile::PLAIN },
    build: &|_| Box::new(Unfair::default()),
};

static FORGETFUL: Algorithm = Algorithm {
    name: "forgetful",
    summary: "forgets requests",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: &|_| Box::new(Forgetful::default()),
};

/// Puts a broken scheduler in where there is one, on a slow disk that takes one request at a time.
/// All others have nothing to do, and runs are short, so that the search is.
fn plant(broken: &'static Algorithm, scenario: &mut Scenario) {
    scenario.steps.clear();
    scenario.duration = scenario.duration.min(Nanos::from_secs(4));
    match scenario.scheduler.is_some() && scenario.disk == "hdd-sata-250g" {
        true => scenario.scheduler = Some(Chosen::defaults(broken)),
        false => scenario.tasks.clear(),
    }
}

fn found(broken: &'static Algorithm) -> SearchOutcome {
    search(1, Some(256), 1, &|scenario| plant(broken, scenario), &|_, _| true)
}

#[test]
fn a_scheduler_that_starves_is_found_and_shrunk() {
    let outcome = found(&UNFAIR);
    let one = outcome.found.first().expect("the canary is found");
    assert_eq!(one.fault.law, "starves", "{}", one.text);
    assert!(one.text.lines().count() < one.lines_before, "{}", one.text);
    // Somebody who starves, and as many others as keep the disk busy.
    assert!(one.text.matches("[[task]]").count() <= 4, "{}", one.text);
    assert!(!one.text.contains("faults") && !one.text.contains("[group"), "{}", one.text);
    let mut scenario = Scenario::parse("small", &one.text).expect("a legal file");
    assert_eq!(trial::put(&scenario), Ok(()), "the file itself is sound");
    plant(&UNFAIR, &mut scenario);
    assert_eq!(trial::put(&scenario), Err(one.fault.clone()));
}

#[test]
fn a_scheduler_that_forgets_is_found_and_the_same_each_time() {
    let outcome = found(&FORGETFUL);
    let one = outcome.found.first().expect("the canary is found");
    assert_eq!(one.fault.law, "failed-over", "{}", one.text);
    assert!(one.text.matches("[[task]]").count() == 1, "{}", one.text);
    assert_eq!(found(&FORGETFUL), outcome);
}

#[test]
fn panics_are_faults() {
    static PANICS: Algorithm = Algorithm {
        name: "panics",
        summary: "cannot be made",
        params: &[],
        counters: &[],
        profile: Profile::PLAIN,
        build: &|_| panic!("a canary"),
    };
    let text = "why = \"?\"\nduration = \"1s\"\n[disk]\npreset = \"null\"\n";
    let mut scenario = Scenario::parse("a", text).expect("sound");
    assert_eq!(trial::put(&scenario), Ok(()));
    // The base of a device is made by the machine itself, without a guard.
    scenario.base = &PANICS;
    let fault = trial::put(&scenario).expect_err("a fault");
    assert_eq!((fault.law, fault.text.as_str()), ("panic", "It panics: a canary"));
}
