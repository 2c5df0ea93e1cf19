//! Promises that the real engine keeps, and ones that it was never told of: those are broken.

use super::super::bench::{Bench, Client, DB, WEB, scheduler};
use super::{Raised, Watch};
use crate::api::{LiveReport, PromiseReport};
use iopace_core::engine::Config;
use iopace_core::group::{Rates, Settings, Weight};
use iopace_core::time::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

/// A bench, and who watches it.
struct Watched {
    bench: Bench,
    watch: Watch,
    /// What was promised without telling the engine.
    told: Vec<(&'static str, Settings)>,
    last: Option<LiveReport>,
}

impl Watched {
    fn new(config: Config, clients: &[Client]) -> Watched {
        let watch = Watch::new(BTreeSet::new());
        Watched { bench: Bench::new(config, clients), watch, told: Vec::new(), last: None }
    }

    /// Promises it, and tells the engine nothing.
    fn promise(mut self, path: &'static str, settings: Settings) -> Watched {
        self.told.push((path, settings));
        self
    }

    fn seconds(&mut self, count: usize) -> Vec<Raised> {
        let mut raised = Vec::new();
        for _ in 0..count {
            let mut report = self.bench.second();
            let mut settings = self.bench.settings.clone();
            settings.extend(self.told.iter().map(|(path, of)| ((*path).to_owned(), *of)));
            let all = BTreeMap::from([("disk".to_owned(), settings)]);
            raised.extend(self.watch.judge(&mut report, &all));
            self.last = Some(report);
        }
        raised
    }

    fn of(&self, path: &str) -> PromiseReport {
        let groups = &self.last.as_ref().expect("looked").devices[0].groups;
        let group = groups.iter().find(|group| group.group == path).expect("listed");
        group.promise.clone().expect("something is set")
    }
}

fn config(window_depth: u32) -> Config {
    Config { base: scheduler("fair"), window_depth, ..Config::default() }
}

fn rate(iops: u64) -> Rates {
    Rates { iops: NonZeroU64::new(iops), ..Rates::default() }
}

fn limit(iops: u64) -> Settings {
    let mut settings = Settings::default();
    settings.max.sustained = rate(iops);
    settings
}

fn weight(weight: u32) -> Settings {
    Settings { weight: Weight::new(weight).expect("legal"), ..Settings::default() }
}

fn one(raised: &[Raised], kind: &str, words: &str) {
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert_eq!((raised[0].kind, &*raised[0].device), (kind, "disk"));
    assert!(raised[0].text.contains(words), "'{words}' in {}", raised[0].text);
}

#[test]
fn promises_that_are_kept_raise_nothing() {
    let clients = [Client::new(1, WEB, 8), Client::new(2, DB, 8)];
    let mut limited = Watched::new(config(4), &clients);
    limited.bench.set(WEB, limit(50));
    assert_eq!(limited.seconds(90), []);
    let promise = limited.of("/vms/web");
    let used = promise.limit_used_permille.expect("a limit");
    assert!((990..=1_010).contains(&used), "{promise:?}");

    let mut weighted = Watched::new(config(1), &clients);
    weighted.bench.set(WEB, weight(300));
    assert_eq!(weighted.seconds(90), []);
    let share = weighted.of("/vms/web").weight_share.expect("both always wait");
    assert_eq!(share.due_permille, 750);
    assert!((700..=800).contains(&share.got_permille), "{share:?}");

    let mut guaranteed = Watched::new(config(1), &clients);
    guaranteed.bench.set(WEB, Settings { min: rate(800), ..Settings::default() });
    assert_eq!(guaranteed.seconds(90), []);
    assert!(guaranteed.of("/vms/web").guarantee_permille >= Some(950));
}

#[test]
fn a_limit_that_is_not_kept_is_told_once_and_so_is_its_end() {
    let clients = [Client::new(1, WEB, 4)];
    let mut watched = Watched::new(config(4), &clients).promise("/vms/web", limit(50));
    assert_eq!(watched.seconds(10), [], "not before all was seen under it");
    let raised = watched.seconds(30);
    one(&raised, "promise_broken", "/vms/web: the limit iops=50 is exceeded: 1000 requests/s");
    assert_eq!(watched.of("/vms/web").broken, ["promise_broken"]);
    watched.told.clear();
    one(&watched.seconds(30), "over", "/vms/web: promise_broken is over");
    assert_eq!(watched.seconds(20), []);
}

#[test]
fn weights_that_are_not_kept_are_told() {
    let clients = [Client::new(1, WEB, 8), Client::new(2, DB, 8)];
    let mut watched = Watched::new(config(1), &clients).promise("/vms/web", weight(400));
    let raised = watched.seconds(40);
    assert_eq!(raised.len(), 2, "{raised:?}");
    assert!(raised.iter().all(|raised| raised.kind == "promise_broken"));
    assert!(raised[1].text.contains("/vms/web: by weight it is due 80 %"), "{raised:?}");
}

#[test]
fn a_scheduler_answers_only_for_what_came_after_it() {
    let clients = [Client::new(1, WEB, 2), Client::new(2, DB, 16)];
    let fifo = Config { base: scheduler("fifo"), ..config(1) };
    let mut watched = Watched::new(fifo, &clients);
    assert_eq!(watched.seconds(20), []);
    watched.bench.insert("fair");
    assert_eq!(watched.seconds(40), []);
    let share = watched.of("/vms/web").weight_share.expect("both always wait");
    assert!((450..=550).contains(&share.got_permille), "{share:?}");
}

#[test]
fn a_guarantee_that_is_not_given_is_told() {
    let clients = [Client::new(1, WEB, 8), Client::new(2, DB, 8)];
    let promised = Settings { min: rate(900), ..Settings::default() };
    let mut watched = Watched::new(config(1), &clients).promise("/vms/web", promised);
    one(&watched.seconds(40), "guarantee_missed", "instead of the guaranteed 900 requests/s");
}

#[test]
fn a_latency_target_that_is_missed_is_told() {
    let promised = Settings { latency: Some(Nanos::from_millis(1)), ..Settings::default() };
    let watched = Watched::new(config(4), &[Client::new(1, WEB, 4)]);
    let mut watched = watched.promise("/vms/web", promised);
    one(&watched.seconds(40), "latency_missed", "the target is 1.0 ms");
}

#[test]
fn a_limit_that_something_else_keeps_it_from_is_told_with_what() {
    let clients = [Client::new(1, WEB, 16), Client::new(2, DB, 16)];
    let mut watched = Watched::new(config(2), &clients);
    watched.bench.set(WEB, limit(5_000));
    let raised = watched.seconds(40);
    one(&raised, "limit_unreachable", "of the 5000 requests/s that it may have");
    assert!(raised[0].text.contains("'window', not the limit"), "{raised:?}");
}

#[test]
fn settings_without_effect_are_told() {
    let mut watched = Watched::new(config(4), &[Client::new(1, WEB, 2)]);
    watched.bench.set(WEB, weight(300));
    assert_eq!(watched.seconds(58), []);
    one(&watched.seconds(10), "limit_inert", "no other group in /vms uses disk");
    // Whether others use a disk of several hosts is not known here.
    let mut shared = Watched::new(config(4), &[Client::new(1, WEB, 2)]);
    shared.watch.set_shared(BTreeSet::from(["disk".to_owned()]));
    let mut settings = weight(300);
    settings.max.sustained.bps = NonZeroU64::new(1 << 40);
    shared.bench.set(WEB, settings);
    assert_eq!(shared.seconds(68), []);
    // Another one comes.
    watched.bench.set(WEB, limit(5_000));
    let mut settings = limit(0);
    settings.max.sustained.bps = NonZeroU64::new(1 << 40);
    watched.bench.set(WEB, settings);
    let raised = watched.seconds(5);
    assert_eq!(raised, [], "the same kind, and not over yet");

    let clients = [Client::new(1, WEB, 2)];
    let mut read_only = Watched::new(config(4), &clients);
    read_only.watch = Watch::new(BTreeSet::from(["disk".to_owned()]));
    let mut settings = Settings::default();
    settings.max.sustained.wbps = NonZeroU64::new(1 << 20);
    read_only.bench.set(WEB, settings);
    one(&read_only.seconds(2), "limit_inert", "wbps=1M has no effect: disk refuses writes");
}

#[test]
fn a_disk_that_stalls_or_becomes_slow_is_told() {
    let mut watched = Watched::new(config(4), &[Client::new(1, WEB, 4)]);
    assert_eq!(watched.seconds(40), []);
    watched.bench.service = Some(20_000_000);
    assert_eq!(watched.seconds(4), []);
    one(&watched.seconds(10), "device_slow", "usual is 3.9 ms");
    watched.bench.service = Some(1_000_000);
    one(&watched.seconds(30), "over", "device_slow is over");
    watched.bench.service = None;
    one(&watched.seconds(20), "device_slow", "has finished nothing for 5 s");
}

#[test]
fn many_things_at_once_are_told_little_by_little() {
    use super::alarms::{Alarms, Key};
    let key = |number: u32| Key {
        device: "disk".into(),
        group: format!("/g{number:02}"),
        kind: "promise_broken",
    };
    let wrong = (0..20).map(|number| (key(number), "broken".to_owned())).collect();
    let mut alarms = Alarms::default();
    let raised: Vec<usize> = (0..5).map(|_| alarms.after(&wrong).len()).collect();
    assert_eq!(raised, [8, 8, 4, 0, 0]);
    let over: Vec<_> = (0..20).flat_map(|_| alarms.after(&super::Wrong::new())).collect();
    assert_eq!(over.len(), 20);
    assert!(over.iter().all(|raised| raised.kind == "over"), "{over:?}");
}

#[test]
fn what_depends_on_rates_is_wrong_after_three_seconds() {
    use super::alarms::{Alarms, Key};
    let wrong = |kind| {
        let key = Key { device: "disk".into(), group: "/g".into(), kind };
        super::Wrong::from([(key, "wrong".to_owned())])
    };
    let mut alarms = Alarms::default();
    let mut confirmed = |is_wrong: bool| {
        let seeming = if is_wrong { wrong("promise_broken") } else { super::Wrong::new() };
        let wrong = alarms.confirm(seeming);
        alarms.after(&wrong);
        !wrong.is_empty()
    };
    // Twice, a pause, and then for good; once it is raised, each second counts.
    let all = [true, true, false, true, true, true, true, false, true];
    let told = all.map(&mut confirmed);
    assert_eq!(told, [false, false, false, false, false, true, true, false, true]);
    assert_eq!(Alarms::default().confirm(wrong("device_slow")), wrong("device_slow"));
}

/// A target that a second or a few requests miss is not missed.
#[test]
fn a_latency_target_is_missed_in_most_seconds_by_more_than_a_few_requests() {
    let promised = Settings { latency: Some(Nanos::from_millis(10)), ..Settings::default() };
    let clients = [Client::new(1, WEB, 4)];
    let mut watched = Watched::new(config(4), &clients).promise("/vms/web", promised);
    assert_eq!(watched.seconds(12), []);
    watched.bench.service = Some(8_000_000);
    assert_eq!(watched.seconds(5), [], "half of the ten seconds");
    watched.bench.service = Some(1_000_000);
    assert_eq!(watched.seconds(12), []);
    watched.bench.service = Some(8_000_000);
    one(&watched.seconds(9), "latency_missed", "the target is 10.0 ms");

    // Some eight a second.
    let clients = [Client { think: 110_000_000, ..Client::new(1, WEB, 1) }];
    let mut rare = Watched::new(config(4), &clients).promise("/vms/web", promised);
    rare.bench.service = Some(20_000_000);
    assert_eq!(rare.seconds(40), []);
}

/// The fourth part of the time it asks for nothing, and its burst comes back.
#[test]
fn a_burst_is_no_broken_promise_and_more_than_it_is_one() {
    let mut bursts = limit(50);
    bursts.max.burst = rate(150);
    bursts.max.burst_length = Nanos::from_secs(2);
    let clients = [Client::new(1, WEB, 4)];
    let mut kept = Watched::new(config(4), &clients);
    kept.bench.set(WEB, bursts);
    for _ in 0..3 {
        assert_eq!(kept.seconds(30), []);
        // Its requests come ten seconds after their answers.
        kept.bench.clients[0].think = 10_000_000_000;
        assert_eq!(kept.seconds(1), []);
        kept.bench.clients[0].think = 0;
        assert_eq!(kept.seconds(12), []);
    }
    // 50 a second for ten seconds, 200 of the burst, and a hundredth: more than 71 a second.
    let think = 4 * 1_000_000_000 / 75;
    let clients = [Client { think, ..Client::new(1, WEB, 4) }];
    let mut watched = Watched::new(config(4), &clients).promise("/vms/web", bursts);
    watched.bench.service = Some(1_000);
    one(&watched.seconds(40), "promise_broken", "the limit iops=50 is exceeded: 75 requests/s");
}
