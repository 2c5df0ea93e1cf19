//! Looks at a real device with a model behind it, and readers of what was seen.

use super::look::Looker;
use super::{Hub, INTERVAL, Item, spread};
use crate::api::{EventReport, LiveGroup, LiveReport};
use crate::clock;
use crate::config::{Backend, DaemonConfig, DeviceConfig, GroupConfig};
use crate::daemon::Daemon;
use crate::limits::{
    LIVE_EVENTS_KEPT, LIVE_GROUPS_IDLE_MAX, LIVE_GROUPS_KEPT, LIVE_GROUPS_MAX, LIVE_KEPT,
};
use std::collections::BTreeSet;
use std::sync::Arc;

fn report(sequence: u64) -> LiveReport {
    LiveReport { sequence, uptime_ns: 0, interval_ns: 1, devices: Vec::new() }
}

fn event(text: &str) -> EventReport {
    EventReport { device: "disk".into(), age_ns: 0, kind: "exchanged".into(), text: text.into() }
}

/// A daemon without sockets; devices that nobody uses.
fn daemon(groups: Vec<GroupConfig>) -> Arc<Daemon> {
    let backend = Backend::Emulated { model: "null".into(), store: None, size: None, cache: None };
    let devices = vec![DeviceConfig::new("disk", backend)];
    Daemon::start(DaemonConfig { devices, groups, ..DaemonConfig::default() }).expect("starts")
}

fn shown(item: Option<Item>) -> String {
    match item {
        Some(Item::Interval(interval)) => format!("live {}", interval.report().sequence),
        Some(Item::Event(event)) => event.text,
        None => "nothing".into(),
    }
}

#[test]
fn a_reader_that_keeps_up_gets_everything_and_a_slow_one_the_newest_with_all_events() {
    let hub = Arc::new(Hub::new());
    hub.raise(event("before"), clock::now());
    hub.add(report(1));
    let (mut quick, mut slow) = (hub.reader(None), hub.reader(None));
    assert_eq!(shown(quick.try_next()), "live 1");
    assert_eq!(shown(quick.try_next()), "nothing");
    for sequence in 2..5 {
        hub.add(report(sequence));
        hub.raise(event(&format!("event {sequence}")), clock::now());
        assert_eq!(shown(quick.try_next()), format!("live {sequence}"));
        assert_eq!(shown(quick.try_next()), format!("event {sequence}"));
    }
    let seen: Vec<String> = (0..5).map(|_| shown(slow.try_next())).collect();
    assert_eq!(seen, ["event 2", "event 3", "live 4", "event 4", "nothing"]);
}

#[test]
fn whoever_comes_back_gets_what_it_missed() {
    let hub = Arc::new(Hub::new());
    hub.add(report(1));
    let mut reader = hub.reader(None);
    assert_eq!(shown(reader.try_next()), "live 1");
    let id = reader.id();
    drop(reader);
    hub.add(report(2));
    hub.raise(event("missed"), clock::now());
    hub.add(report(3));
    let mut again = hub.reader(Some(&id));
    let seen: Vec<String> = (0..4).map(|_| shown(again.try_next())).collect();
    assert_eq!(seen, ["live 2", "missed", "live 3", "nothing"]);
    // What was missed is told in full; after that it is like any other.
    hub.add(report(4));
    hub.add(report(5));
    assert_eq!(shown(again.try_next()), "live 5");
    // Ids of another run, of the future, or of nobody.
    let (run, _) = id.split_once('-').expect("two parts");
    for wrong in [&*format!("{run}-99"), "0-1", "", "-", "x-y-z", &*format!("{run}--1")] {
        assert_eq!(shown(hub.reader(Some(wrong)).try_next()), "live 5", "{wrong}");
    }
}

#[test]
fn what_is_kept_has_a_bound() {
    let hub = Arc::new(Hub::new());
    let id = hub.reader(None).id();
    for sequence in 1..=LIVE_KEPT as u64 + 30 {
        hub.add(report(sequence));
    }
    for _ in 0..LIVE_EVENTS_KEPT + 5 {
        hub.raise(event("again"), clock::now());
    }
    let history = hub.history(usize::MAX);
    assert_eq!((history.len(), history[0].report().sequence), (LIVE_KEPT, 31));
    assert_eq!(hub.history(2)[0].report().sequence, LIVE_KEPT as u64 + 29);
    let mut reader = hub.reader(Some(&id));
    let seen = std::iter::from_fn(|| reader.try_next()).count();
    assert_eq!(seen, LIVE_KEPT + LIVE_EVENTS_KEPT);
}

#[test]
fn a_report_is_made_text_once_for_all() {
    let hub = Arc::new(Hub::new());
    hub.add(report(7));
    let interval = hub.latest().expect("one");
    let json = interval.json();
    assert_eq!(json.as_ptr(), hub.latest().expect("one").json().as_ptr());
    let read: LiveReport = serde_json::from_slice(&json).expect("understood");
    assert_eq!((read, json.contains(&b'\n')), (report(7), false));
}

#[test]
fn memory_for_a_text_is_reserved_once_one_was_made() {
    let hub = Arc::new(Hub::new());
    hub.add(report(1));
    let text = hub.latest().expect("one").json();
    // Also when nobody asks for the next one.
    hub.add(report(2));
    hub.add(report(3));
    let newest = hub.latest().expect("one");
    let place = newest.place();
    assert_eq!(newest.json().as_ptr(), place);
    assert_eq!(newest.json().len(), text.len());
}

#[test]
fn the_history_is_made_text_once_after_each_report() {
    let hub = Arc::new(Hub::new());
    let read = |most| -> Vec<LiveReport> {
        let text: Vec<u8> = hub.told(most).pieces().flatten().collect();
        serde_json::from_slice(&text).expect("understood")
    };
    assert_eq!(read(5), []);
    (1..=4).for_each(|sequence| hub.add(report(sequence)));
    let places = |most| -> Vec<*const u8> {
        let pieces: Vec<_> = hub.told(most).pieces().collect();
        pieces.iter().map(|piece| piece.as_ptr()).collect()
    };
    let all = places(LIVE_KEPT);
    assert_eq!(all.len(), 9, "four, what is between them, and the end");
    for most in [4, 5, LIVE_KEPT] {
        assert_eq!(places(most), all, "shared");
    }
    assert_eq!(places(2)[1..], all[5..], "shared as well");
    for most in 1..6 {
        let wanted: Vec<LiveReport> =
            (1..=4).map(report).skip(4_usize.saturating_sub(most)).collect();
        assert_eq!(read(most), wanted, "{most}");
    }
    hub.add(report(5));
    assert_eq!(read(2), [report(4), report(5)], "and anew after the next one");
}

#[test]
fn of_an_interval_that_is_over_the_busiest_groups_are_kept_with_those_above_them() {
    let daemon = daemon(vec![GroupConfig { path: "/a".into(), files: Vec::new() }]);
    let device = Looker::new(Arc::clone(daemon.groups())).look().devices;
    daemon.shutdown();
    let mut wide = LiveReport { devices: device, ..report(1) };
    let groups = &mut wide.devices[0].groups;
    let sample = groups.remove(0);
    let moved = |group: &str, bytes_s: u64| {
        let mut one = LiveGroup { group: group.into(), ..sample.clone() };
        one.activity.write.bytes_s = bytes_s;
        one
    };
    *groups = vec![moved("/", 9_000), moved("/a", 7_000)];
    groups.extend((0..100).map(|number| moved(&format!("/a/{number:03}"), number)));
    groups.push(moved("/b", 2_000));
    let hub = Arc::new(Hub::new());
    hub.add(wide);
    let full = hub.latest().expect("one");
    hub.add(report(2));
    let kept = hub.history(2)[0].clone();
    let device = &kept.report().devices[0];
    let names: Vec<&str> = device.groups.iter().map(|group| &*group.group).collect();
    assert_eq!(names.len(), LIVE_GROUPS_KEPT);
    assert_eq!(names[..3], ["/", "/a", "/a/039"]);
    assert_eq!(names[names.len() - 2..], ["/a/099", "/b"]);
    assert_eq!(device.groups_left_out_count, 103 - LIVE_GROUPS_KEPT);
    // Whoever reads the full one goes on with it.
    assert_eq!(full.report().devices[0].groups.len(), 103);
    let told: LiveReport = serde_json::from_slice(&kept.json()).expect("understood");
    assert_eq!(&told, kept.report());
}

#[test]
fn of_many_groups_those_that_matter_are_listed_with_those_above_them() {
    let path = |number: usize| format!("/many/g{number:04}");
    let mut groups: Vec<GroupConfig> =
        (0..600).map(|number| GroupConfig { path: path(number), files: Vec::new() }).collect();
    let daemon = daemon(groups.clone());
    let mut looker = Looker::new(Arc::clone(daemon.groups()));
    let idle = &looker.look().devices[0];
    let all = 602;
    assert_eq!(idle.groups.len(), LIVE_GROUPS_IDLE_MAX);
    assert_eq!(idle.groups_left_out_count, all - LIVE_GROUPS_IDLE_MAX);
    // The one with a setting is not the first by name.
    let weight = |text: &str| daemon.groups().write(&path(599), "io.weight", text).map(|_| ());
    weight("300").expect("written");
    let looked = looker.look();
    let names: Vec<&str> = looked.devices[0].groups.iter().map(|group| &*group.group).collect();
    assert_eq!((names[0], names[1]), ("/", "/many"));
    assert_eq!(names.last(), Some(&"/many/g0599"));
    assert_eq!(looked.devices[0].groups.last().map(|group| group.weight), Some(300));
    daemon.shutdown();

    for group in &mut groups {
        group.files = vec![("io.max".into(), "disk rbps=1G".into())];
    }
    let daemon = self::daemon(groups);
    let mut looker = Looker::new(Arc::clone(daemon.groups()));
    let device = &looker.look().devices[0];
    assert_eq!(device.groups.len(), LIVE_GROUPS_MAX);
    assert_eq!(device.groups_left_out_count, all - LIVE_GROUPS_MAX);
    assert!(device.groups.last().is_some_and(|group| group.limited));
    daemon.shutdown();
}

#[test]
fn looks_find_what_repeats_at_different_points() {
    for per_s in [16, 20, 100, 1_000] {
        let period = 1_000_000_000 / per_s;
        let point = |look| spread(look).as_nanos() % period * 8 / period;
        let points: BTreeSet<u64> = (0..60).map(point).collect();
        assert_eq!(points.len(), 8, "{per_s} per second");
    }
    assert!((0..10_000).all(|look| spread(look).0 < INTERVAL.0 / 10));
}
