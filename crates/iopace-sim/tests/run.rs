//! The event loop: what it counts, and that it repeats.

use iopace_core::request::Extent;
use iopace_core::sched::find;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_sim::judge::judge;
use iopace_sim::milli::Milli;
use iopace_sim::run::run;
use iopace_sim::scenario::{Change, Chosen, Scenario, Step};
use iopace_sim::tables::geom;
use iopace_sim::task::{Task, TaskKind};

fn seconds(n: u64) -> Instant {
    Instant::ZERO + Nanos::from_secs(n)
}

/// One task on a disk that completes at once: it submits exactly every millisecond.
fn metronome() -> Scenario {
    let region = Extent::new(Bytes(0), Bytes(1 << 30)).expect("small");
    let mut task = Task::new("tick", TaskKind::Sequential, region);
    task.think = Nanos::from_millis(1);
    task.block = Bytes(1_000 * 512);
    let mut scenario = Scenario::new("a metronome", "null");
    scenario.duration = Nanos::from_secs(10);
    scenario.warmup = Nanos::from_secs(2);
    scenario.tasks = vec![task];
    scenario
}

#[test]
fn only_the_measured_time_counts() {
    let report = run(&metronome());
    let tick = &report.tasks["tick"];
    assert_eq!(tick.ops, 8_000);
    assert_eq!((tick.ops_s, tick.mb_s), (Milli(1_000_000), Milli(512_000)));
    assert_eq!(report.requests, 9_999, "the tenth second ends before its last tick");
    assert_eq!((report.unfinished, tick.failed), (0, 0));
}

#[test]
fn a_task_keeps_to_its_start_and_stop() {
    let mut scenario = metronome();
    scenario.tasks[0].start = seconds(4);
    scenario.tasks[0].stop = seconds(6);
    let report = run(&scenario);
    let tick = &report.tasks["tick"];
    assert_eq!(tick.ops, 1_999);
    assert_eq!(tick.ops_s, Milli(999_500), "over the two seconds in which it was active");
}

#[test]
fn a_run_repeats_byte_for_byte_and_depends_on_its_seed() {
    let json =
        |seed| run(&geom::scenario("dd-write+cvs", "rr", seed, Nanos::from_secs(5))).to_json();
    assert_eq!(json(1), json(1));
    assert_ne!(json(1), json(2));
}

#[test]
fn another_task_does_not_shift_the_draws_of_the_first() {
    let mut scenario = metronome();
    scenario.tasks[0].kind = TaskKind::Random;
    let alone = run(&scenario).tasks["tick"].clone();
    let mut second = scenario.tasks[0].clone();
    second.name = "other".into();
    scenario.tasks.push(second);
    let beside = run(&scenario).tasks["tick"].clone();
    assert_eq!((alone.ops, alone.bytes), (beside.ops, beside.bytes));
}

#[test]
fn stage_times_sum_to_the_latency() {
    let scenario = geom::scenario("dd-read+cvs", "rr", 1, Nanos::from_secs(10));
    for task in run(&scenario).tasks.values() {
        let stages = task.stages;
        let parts =
            [stages.pace_ms, stages.admit_ms, stages.sched_ms, stages.window_ms, stages.disk_ms];
        let sum: i64 = parts.iter().map(|part| part.0).sum();
        // One request may still wait at the end: it counts in the latency, not in the stages.
        let total = task.latency.mean_ms.0 * (task.ops as i64 + 1);
        assert!((sum - total).abs() < total / 20, "{sum} against {total}");
    }
}

#[test]
fn what_waits_at_the_end_counts_in_the_latency() {
    let scenario = geom::scenario("dd-write+cvs", "none", 1, Nanos::from_secs(30));
    let report = run(&scenario);
    let cvs = &report.tasks["cvs"];
    assert!(cvs.latency.max_ms >= Milli(1_000_000), "{:?}", cvs.latency);
    assert_eq!(report.unfinished, 0, "it is served once the writer has stopped");
}

#[test]
fn steps_change_the_running_device_and_refusals_are_told() {
    let rr = || Chosen::defaults(find("rr").expect("there"));
    let mut scenario = metronome();
    scenario.steps = vec![
        Step { at: seconds(1), change: Change::Destroy },
        Step { at: seconds(2), change: Change::Insert(rr()) },
        Step { at: seconds(3), change: Change::Insert(rr()) },
    ];
    let report = run(&scenario);
    assert_eq!((report.scheduler.as_str(), report.exchanged), ("rr", 1));
    let texts: Vec<&str> = report.events.iter().map(|event| event.text.as_str()).collect();
    assert!(texts[0].starts_with("destroy refused: no scheduler is inserted"), "{texts:?}");
    assert!(texts[1].starts_with("scheduler elevator exchanged for rr"), "{texts:?}");
    assert!(texts[2].starts_with("insert refused"), "{texts:?}");
    assert_eq!(report.events[0].at_ms, Milli(1_000_000));
}

#[test]
fn a_share_compares_with_the_task_alone() {
    let text = "why = \"shares\"\nduration = \"5s\"\n[disk]\npreset = \"hdd-sata-250g\"\n\
        [[task]]\nname = \"a\"\nkind = \"dd-read\"\nsize = \"1GiB\"\n\
        [[check]]\nfigure = \"share\"\ntask = \"a\"\nat_least = 1\nat_most = 1\n\
        [[check]]\nfigure = \"efficiency\"\nat_least = 2\n";
    let scenario = Scenario::parse("shares.toml", text).expect("no mistake");
    let report = judge(&scenario);
    assert_eq!(report.efficiency, Some(Milli::ONE));
    let holds: Vec<bool> = report.checks.iter().map(|check| check.holds).collect();
    assert_eq!(holds, [true, false]);
    assert!(!report.holds());
}

/// A task at a rate on a disk of some hundred requests a second.
fn at_a_rate(rate: &str, more: &str) -> Scenario {
    let text = format!(
        "why = \"A rate.\"\nduration = \"20s\"\n[disk]\npreset = \"hdd-sata-250g\"\n\
         [[task]]\nname = \"users\"\nkind = \"random\"\nrate = \"{rate}\"\n{more}\n"
    );
    Scenario::parse("a.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_open_loop_submits_at_its_rate_whatever_the_disk_does() {
    for arrival in ["constant", "poisson"] {
        let report = |rate| run(&at_a_rate(rate, &format!("arrival = \"{arrival}\"")));
        let easy = report("20/s");
        let ops = easy.tasks["users"].ops;
        assert!((340..=460).contains(&ops), "{arrival}: {ops}, 400 are wanted");
        let hard = report("200/s");
        assert!((3_800..=4_200).contains(&hard.requests), "{arrival}: {}", hard.requests);
        let latency = hard.tasks["users"].latency.max_ms;
        assert!(latency.0 > 1_000_000, "{arrival}: the backlog shows: {latency}");
    }
    assert_eq!(run(&at_a_rate("20/s", "")).requests, 400);
    assert_eq!(run(&at_a_rate("80KiB/s", "")).requests, 400, "4 KiB each");
}

#[test]
fn a_ceiling_is_the_rate_of_a_program_that_waits() {
    let report = run(&at_a_rate("1000/s", "ceiling = true"));
    let users = &report.tasks["users"];
    assert!(users.latency.max_ms.0 < 100_000, "one at a time: {}", users.latency.max_ms);
    assert!(users.ops < 4_000);
}

#[test]
fn waves_follow_each_other_and_end_the_run() {
    let task = |name: &str, wave: u32| {
        format!(
            "[[task]]\nname = \"{name}\"\nkind = \"sequential\"\nblock = \"64KiB\"\n\
             total = \"16MiB\"\nwave = {wave}\ndepth = 4\n"
        )
    };
    let text = format!(
        "why = \"Waves.\"\nduration = \"60s\"\nuntil_done = true\n[disk]\n\
         preset = \"hdd-sata-250g\"\n{}{}{}",
        task("one", 0),
        task("two", 1),
        task("three", 1)
    );
    let scenario = Scenario::parse("a.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario);
    for task in report.tasks.values() {
        assert_eq!((task.ops, task.bytes), (256, 16 << 20));
    }
    assert!(report.tasks["one"].mb_s > report.tasks["two"].mb_s, "alone in its wave");
    assert!(report.duration_ms.0 < 10_000_000, "{}", report.duration_ms);
    assert_eq!(report.to_json(), run(&scenario).to_json());
}
