//! Scenarios built so that one cause dominates: it must be named first. They run the real engine.

use super::super::bench::{Bench, Client, DB, MS, VMS, WEB, scheduler};
use super::super::span::{REASONS, Span, place};
use super::{Subject, explain};
use crate::api::{
    Activity, Basis, Explained, ExplainedDevice, FlowReport, LiveReport, LiveTask, Remedy,
};
use crate::figures::reason_word;
use iopace_core::engine::Config;
use iopace_core::group::{Limits, Settings, Weight};
use iopace_core::pace::{self, Thresholds};
use iopace_core::request::GroupId;
use iopace_core::sched::{Algorithm, fifo};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_core::verdict::Reason;
use iopace_core::window::Narrowed;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

mod caps;
mod kinds;
mod worst;

fn config(base: &'static Algorithm, nr_requests: u32, window_depth: u32) -> Config {
    Config { base, nr_requests, window_depth, ..Config::default() }
}

fn ask(bench: &Bench, reports: &[LiveReport], group: Option<&str>) -> ExplainedDevice {
    let reports: Vec<&LiveReport> = reports.iter().collect();
    let subject = Subject { device: "disk", is_rotational: false, shared: None };
    explain(&reports, subject, group, &bench.settings).expect("it is there")
}

/// What is said of `/vms/web` after five seconds.
fn of_web(bench: &mut Bench) -> ExplainedDevice {
    bench.second();
    let reports = bench.seconds(5);
    ask(bench, &reports, Some("/vms/web"))
}

/// The reason is named first, with that part of the time at least; in the words and the commands
/// are these.
fn names(told: &ExplainedDevice, reason: &str, permille: u32, words: &[&str], commands: &[&str]) {
    let first = &told.explained.causes[0];
    assert_eq!(first.reason, reason, "{:#?}", told.explained);
    assert!(first.share_permille >= permille, "{:#?}", told.explained);
    let sum: u32 = told.explained.causes.iter().map(|cause| cause.share_permille).sum();
    assert!((990..=1_000).contains(&sum), "{:#?}", told.explained.causes);
    for word in words {
        assert!(told.explained.summary.contains(word), "'{word}' in {}", told.explained.summary);
    }
    let given: Vec<&str> = first.remedies.iter().map(|remedy| &*remedy.command).collect();
    assert_eq!(given, commands);
    for Remedy { command, change, .. } in &first.remedies {
        assert_eq!(change.is_none(), command.contains("iopace serve"), "{command}");
    }
}

fn wbps(bytes: u64) -> Limits {
    let mut max = Limits::default();
    max.sustained.wbps = NonZeroU64::new(bytes);
    max
}

fn limited(iops: u64) -> Settings {
    let mut settings = Settings::default();
    settings.max.sustained.iops = NonZeroU64::new(iops);
    settings
}

#[test]
fn slot_is_named_where_many_share_few_slots() {
    let clients = [Client::new(1, WEB, 8), Client::new(2, DB, 64)];
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 4, 128), &clients);
    bench.set(DB, Settings { weight: Weight::new(300).expect("legal"), ..Settings::default() });
    let told = of_web(&mut bench);
    let words = ["/vms/web on disk", "'slot'", "all 4 slots of the device", "/vms/db has 75 %"];
    let commands = [
        "iopace group set /vms/web io.nr_group_requests 'disk max guaranteed=2'",
        "iopace group set /vms/web io.weight 'disk 200'",
    ];
    names(&told, "slot", 600, &words, &commands);
    assert_eq!((told.holdings[0].held, told.holdings[0].of), (4, 4));
    assert_eq!(told.holdings[0].parts[0].group, "/vms/db");
}

#[test]
fn slot_names_the_setting_of_the_group_itself() {
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 128, 128), &[Client::new(1, WEB, 32)]);
    let mut settings = Settings::default();
    settings.slots.max = Some(2);
    bench.set(VMS, settings);
    let told = of_web(&mut bench);
    let command = "iopace group set /vms io.nr_group_requests 'disk 4'";
    names(&told, "slot", 900, &["/vms has all 2 slots"], &[command]);
}

#[test]
fn budget_is_named_with_the_limit_that_holds() {
    let clients = [Client::new(1, WEB, 8), Client::new(2, DB, 4)];
    let mut bench = Bench::new(Config::default(), &clients);
    bench.set(WEB, limited(50));
    let told = of_web(&mut bench);
    let words = ["'limit'", "the limit of /vms/web, 50 requests/s (io.max iops), is used up"];
    let commands = [
        "iopace group set /vms/web io.max 'disk iops=100'",
        "iopace group set /vms/web io.max 'disk iops=max'",
    ];
    names(&told, "budget", 900, &words, &commands);
    // The device as a whole: most of the waiting is that of the group with the limit.
    let reports = bench.seconds(5);
    let told = ask(&bench, &reports, None);
    assert_eq!(told.groups[0].group, "/vms/web");
    assert_eq!(told.groups[0].reason, "budget");
    assert!(told.groups[0].waiting_count >= 7, "{:?}", told.groups);
}

/// Idle most of the time, it had its limit while that held, and not the mean of all of it.
#[test]
fn a_limit_is_told_beside_the_rate_of_the_time_in_which_it_held() {
    let busy_for_three_seconds = Client { think: 60_000 * MS, ..Client::new(1, WEB, 150) };
    let mut bench = Bench::new(Config::default(), &[busy_for_three_seconds]);
    bench.set(WEB, limited(50));
    bench.second();
    let reports = bench.seconds(8);
    let told = ask(&bench, &reports, Some("/vms/web"));
    let words =
        ["50 requests/s (io.max iops), is used up: it had 50 requests/s in the 2.0 s in which"];
    let first = &told.explained.causes[0];
    assert!(told.explained.summary.contains(words[0]), "{}", told.explained.summary);
    assert_eq!(first.bound.as_ref().map(|bound| (bound.set, bound.used)), Some((50, 50)));
}

#[test]
fn budget_of_a_group_above_says_who_used_it() {
    let clients = [Client::new(1, WEB, 1), Client::new(2, DB, 16)];
    let mut bench = Bench::new(Config::default(), &clients);
    bench.set(VMS, limited(200));
    bench.set(WEB, limited(200));
    let told = of_web(&mut bench);
    let words = ["the limit of /vms, 200 requests/s", "for all in it", "of which it has"];
    let commands = [
        "iopace group set /vms io.max 'disk iops=400'",
        "iopace group set /vms io.max 'disk iops=max'",
    ];
    names(&told, "budget", 700, &words, &commands);
}

#[test]
fn turn_is_named_with_who_has_the_turns() {
    let others = [2, 3, 4, 5, 6, 7].map(|task| Client::new(task, DB, 4));
    let clients: Vec<Client> = [Client::new(1, WEB, 1)].into_iter().chain(others).collect();
    for (name, command, half) in [
        ("rr", "iopace sched insert -a fair disk", "1700k"),
        ("fair", "iopace group set /vms/web io.weight 'disk 200'", "1800k"),
    ] {
        let mut bench = Bench::new(config(scheduler(name), 128, 1), &clients);
        let mut settings = Settings::default();
        if name == "fair" {
            settings.weight = Weight::new(1_000).expect("legal");
        }
        bench.set(DB, settings);
        let told = of_web(&mut bench);
        let limit = format!("iopace group set /vms/db io.max 'disk bps={half}'");
        let commands = [command, &limit];
        let words = ["'turn'", "others have their turn", "/vms/db has"];
        names(&told, "turn", 600, &words, &commands);
    }
}

#[test]
fn turn_among_its_own_is_its_own_load() {
    let clients = [1, 2, 3, 4, 5, 6].map(|task| Client::new(task, WEB, 4));
    let mut bench = Bench::new(config(scheduler("rr"), 128, 1), &clients);
    let told = of_web(&mut bench);
    names(&told, "turn", 600, &["its own requests wait for each other"], &[]);
}

#[test]
fn anticipation_is_named_behind_a_task_that_thinks() {
    let reader = Client { think: 5 * MS, ..Client::new(1, DB, 1) };
    // It comes at any time, mostly while the disk waits for the reader.
    let clients = [reader, Client { think: 7 * MS, ..Client::new(2, WEB, 1) }];
    let mut bench = Bench::new(config(scheduler("as"), 128, 1), &clients);
    bench.service = Some(MS / 10);
    let told = of_web(&mut bench);
    let words = ["'anticipation'", "scheduler as keeps the disk idle"];
    // The device's own scheduler has parameters as well.
    let commands =
        ["iopace sched configure --set antic_ms=1 disk", "iopace sched insert -a deadline disk"];
    names(&told, "anticipation", 500, &words, &commands);
}

#[test]
fn window_is_named_for_one_task_with_a_long_queue() {
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 128, 4), &[Client::new(1, WEB, 64)]);
    let told = of_web(&mut bench);
    let words = ["'window'", "as many requests as it may, 4 (window fixed)", "they are its own"];
    names(&told, "window", 900, &words, &["iopace window configure --depth 8 disk"]);
    assert_eq!(told.window, None, "it is as was set");
}

#[test]
fn a_narrowed_window_is_told_with_its_reason() {
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 128, 4), &[Client::new(1, WEB, 32)]);
    let mut reports = bench.seconds(5);
    let window = &mut reports.last_mut().expect("five").devices[0].window;
    window.narrowed = Some(Narrowed::Latency.name().into());
    let narrowed = window.clone();
    let told = ask(&bench, &reports, Some("/vms/web"));
    let words = "(window fixed: more at once would only take longer each); they are its own";
    assert!(told.explained.summary.contains(words), "{}", told.explained.summary);
    assert_eq!(told.window, Some(narrowed));
}

fn with_pace(pace: &'static pace::PacePolicy, limit: u64) -> Config {
    let memory = Thresholds { background: Bytes(limit / 2), limit: Bytes(limit) };
    Config { pace, memory, window_depth: 4, ..Config::default() }
}

#[test]
fn dirty_is_named_where_writers_have_their_rate() {
    let policy = pace::find("rate").expect("in the registry");
    let clients = [Client::writer(1, WEB), Client::writer(2, WEB)];
    let mut bench = Bench::new(with_pace(policy, 8 << 20), &clients);
    let told = of_web(&mut bench);
    let words = ["'dirty rate'", "faster than the disk cleans it", "it is its own"];
    names(&told, "dirty", 900, &words, &["iopace pace configure -a none disk"]);
}

#[test]
fn memory_is_named_where_the_hard_limit_holds() {
    let clients = [Client::writer(1, WEB), Client::writer(2, WEB)];
    let mut bench = Bench::new(with_pace(&pace::none::POLICY, 64 * 4096), &clients);
    let told = of_web(&mut bench);
    let words = ["'dirty limit'", "as much memory is dirty as may be", "of 256 KiB"];
    let commands = ["iopace pace configure -a rate disk", "iopace serve ... --dirty-limit 2MiB"];
    names(&told, "memory", 900, &words, &commands);
}

#[test]
fn budget_is_named_for_buffered_writes_below_a_limit() {
    let policy = pace::find("rate").expect("in the registry");
    let mut bench = Bench::new(with_pace(policy, 1 << 30), &[Client::writer(1, WEB)]);
    bench.set(WEB, limited(20));
    let told = of_web(&mut bench);
    assert_eq!(told.explained.causes[0].reason, "budget", "{:#?}", told.explained);
}

/// A writer below `wbps` with another limit beside it: what it had is what it wrote, however much
/// of that is on the disk.
#[test]
fn the_limit_of_a_buffered_writer_is_named_by_what_it_writes() {
    let policy = pace::find("rate").expect("in the registry");
    let mut bench = Bench::new(with_pace(policy, 1 << 30), &[Client::writer(1, WEB)]);
    let mut max = wbps(4096 * 100);
    max.sustained.rbps = NonZeroU64::new(8 << 20);
    bench.set(WEB, Settings { max, ..Settings::default() });
    let told = of_web(&mut bench);
    let words = ["the limit of /vms/web, 400 KiB/s (io.max wbps), is used up: it had 400 KiB/s"];
    let commands = [
        "iopace group set /vms/web io.max 'disk wbps=800k'",
        "iopace group set /vms/web io.max 'disk wbps=max'",
    ];
    names(&told, "budget", 990, &words, &commands);
    // 100 writes a second of one task, four of them at once.
    let Explained { finished_count, causes, .. } = &told.explained;
    assert!((498..=502).contains(finished_count), "{finished_count}");
    assert_eq!(causes[0].per_request_ns, 0);
    let each = causes[0].per_buffered_write_ns;
    assert!((39 * MS..=41 * MS).contains(&each), "{each}");
}

#[test]
fn buffered_writes_are_told_as_they_go_into_memory() {
    let policy = pace::find("rate").expect("in the registry");
    let mut bench = Bench::new(with_pace(policy, 1 << 30), &[Client::writer(1, WEB)]);
    bench.set(WEB, Settings { max: wbps(4096 * 100), ..Settings::default() });
    let reports = bench.seconds(4);
    for activity in [&reports[3].devices[0].activity, &reports[3].devices[0].groups[2].activity] {
        let FlowReport { bytes_s, ops_milli_s } = activity.buffered;
        assert!((99..=101).contains(&(bytes_s / 4096)), "{bytes_s}");
        assert!((99_000..=101_000).contains(&ops_milli_s), "{ops_milli_s}");
        assert_eq!(activity.waits.budget_pace_ns, activity.waits.budget_ns);
    }
}

#[test]
fn disk_is_named_where_nothing_is_in_the_way() {
    let mut bench = Bench::new(Config::default(), &[Client::new(1, WEB, 4)]);
    let told = of_web(&mut bench);
    names(&told, "disk", 999, &["iopace is not what slows /vms/web on disk"], &[]);
    assert!(!told.explained.held_up);
    let each = told.explained.causes[0].per_request_ns;
    assert!((3_900_000..4_100_000).contains(&each), "four at once, 1 ms each: {each}");
    // Another one that does nothing has nothing to wait for.
    let reports = bench.seconds(2);
    let idle = ask(&bench, &reports, Some("/vms/db"));
    assert_eq!(idle.explained.basis, Basis::Nothing);
    assert!(idle.explained.causes.is_empty() && !idle.explained.held_up);
    assert!(idle.explained.summary.contains("nothing to wait for"), "{idle:?}");
}

#[test]
fn disk_of_others_is_said_to_be_of_others() {
    let clients = [Client::new(1, WEB, 1), Client::new(2, DB, 24)];
    let mut bench = Bench::new(Config::default(), &clients);
    let told = of_web(&mut bench);
    let commands = ["iopace group set /vms/db io.max 'disk bps=1900k'"];
    let words = ["is at the disk, where requests of others are that iopace has let through"];
    names(&told, "disk", 900, &words, &commands);
    assert!(told.explained.causes[0].text.contains("/vms/db has 9"), "{told:#?}");
}

/// Nothing finishes, so nothing is known of finished requests; what stands there is.
#[test]
fn a_stalled_disk_is_named_by_what_stands() {
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 128, 8), &[Client::new(1, WEB, 8)]);
    bench.second();
    bench.service = None;
    bench.second();
    let reports = bench.seconds(5);
    let told = ask(&bench, &reports, Some("/vms/web"));
    names(&told, "disk", 999, &["Next to nothing", "has been here for 5.9 s"], &[]);
    assert_eq!(told.explained.basis, Basis::Standing);
    assert_eq!(told.explained.now.disk_count, 8);
}

/// Who waits most is first, and the groups above say nothing of their own.
#[test]
fn a_device_has_a_line_for_each_group_that_waits() {
    let clients = [Client::new(1, WEB, 16), Client::new(2, DB, 2)];
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 4, 128), &clients);
    bench.second();
    let reports = bench.seconds(5);
    let told = ask(&bench, &reports, None);
    let groups: Vec<(&str, &str)> =
        told.groups.iter().map(|group| (&*group.group, &*group.reason)).collect();
    assert_eq!(groups[0], ("/vms/web", "slot"));
    assert!(groups.iter().all(|(group, _)| *group != "/"), "{groups:?}");
    assert_eq!(told.explained.group, "/");
    let over: u64 = reports.iter().map(|report| report.interval_ns).sum();
    assert_eq!(Nanos(over), Nanos::from_secs(5));
}

/// Hundreds of groups wait: each figure of a group is looked up a few times, not once for each of
/// the others, and words are found for those only that are told of.
#[test]
fn of_many_groups_that_wait_the_first_are_told_and_the_others_counted() {
    let clients = [Client::new(1, WEB, 16), Client::new(2, DB, 2)];
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 4, 128), &clients);
    bench.second();
    let mut reports = bench.seconds(2);
    for report in &mut reports {
        let groups = &mut report.devices[0].groups;
        let web = groups.iter().find(|group| group.group == "/vms/web").expect("listed").clone();
        groups.extend((0..500).map(|number| {
            let mut one = web.clone();
            one.group = format!("/vms/g{number:03}");
            one.activity.waits.slot_ns += number * MS;
            one
        }));
    }
    let told = ask(&bench, &reports, None);
    assert_eq!((told.groups.len(), told.groups_left_out_count), (64, 438));
    assert_eq!(told.groups[0].group, "/vms/g499");
    assert!(told.groups.iter().all(|group| group.reason == "slot"), "{:?}", told.groups);

    let reports: Vec<&LiveReport> = reports.iter().collect();
    let span = Span::new(&reports, "disk").expect("it is there");
    let looked_up = Cell::new(0);
    let own = span.own(|path| {
        looked_up.set(looked_up.get() + 1);
        span.now(path).map_or(0, |now| now.slots_taken_count.into())
    });
    assert_eq!((own.len(), looked_up.get()), (502, 504));
}

#[test]
fn the_page_has_the_same_words_for_the_same_reasons() {
    let page = include_str!("../../control/page/reasons.js");
    for reason in REASONS {
        let told = format!("key: \"{}\",\n    word: \"{}\",", reason.name(), reason_word(reason));
        assert!(page.contains(&told), "{told}");
    }
}
