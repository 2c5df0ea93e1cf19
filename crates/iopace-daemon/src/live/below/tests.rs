//! Looks that are made up: a disk that works on one request after the other, one that works on all
//! at once, and the kernel's counters beside them.

use super::kernel::{Counters, Disk};
use super::serial::is_serial;
use super::split::{self, Split};
use super::trials::{OnBoth, judge, of_device};
use super::*;
use crate::api::{Payer, TriedSetting};
use iopace_core::engine::{Config, Control, Engine};
use iopace_core::request::{Cover, Extent, Op, Space, StageTimes, Submit, Tag};
use iopace_core::sched;
use iopace_core::shadow::{Recorded, RecordedKind, Replayed};
use iopace_core::units::Bytes;
use std::collections::VecDeque;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SMALL: TaskId = TaskId(1);
const BULK: TaskId = TaskId(2);
const LARGE: u64 = 512 << 10;
const NO_PAST: (u64, Nanos) = (0, Nanos(1_000 * MS));

/// A read of a task in its group, which waited for its turn and was then at the disk.
fn read(task: TaskId, size: u64, [arrived, started, ended]: [u64; 3]) -> Recorded {
    let extent = Extent::new(Bytes(0), Bytes(size)).expect("small");
    let group = GroupId(u32::try_from(task.0).expect("small"));
    let submit = Submit { tag: Tag(0), task, group, op: Op::Read, extent, fua: false, sync: true };
    let (turn, disk) = (Nanos(started - arrived), Nanos(ended - started));
    Recorded {
        kind: RecordedKind::Request,
        submit,
        arrived: Instant(arrived),
        started: Instant(started),
        ended: Instant(ended),
        times: StageTimes { turn, disk, ..StageTimes::default() },
        written: Nanos::ZERO,
        beside: 1,
        space: Space::DISK,
        cover: Cover::All,
    }
}

/// Large reads, so many at a time, and small ones, one at a time, at a disk that works on one after
/// the other; ten small ones alone come first.
fn at_serial_disk(depth: usize, count: usize) -> Vec<Recorded> {
    let (mut now, mut ended) = (0, Vec::new());
    for _ in 0..10 {
        ended.push(read(SMALL, 4096, [now, now, now + 100 * US]));
        now += 101 * US;
    }
    let mut line: VecDeque<(TaskId, u64)> = (0..depth).map(|_| (BULK, now)).collect();
    line.push_back((SMALL, now));
    for _ in 0..count {
        let beside = u32::try_from(line.len()).expect("small");
        let (task, came) = line.pop_front().expect("never empty");
        let (size, service) = if task == SMALL { (4096, 100 * US) } else { (LARGE, MS) };
        now += service;
        ended.push(Recorded { beside, ..read(task, size, [came, came, now]) });
        line.push_back((task, now));
    }
    ended
}

/// The parts of a split add up to its time.
fn adds_up(split: &Split) {
    let behind: u128 = split.behind.iter().map(|(_, time)| time).sum();
    let held: u128 = split.held.iter().sum();
    let all = behind + held + split.service + split.past;
    assert!(split.total.abs_diff(all) <= u128::from(split.count) * 8, "{all} of {split:?}");
}

fn names() -> Names {
    let tasks = [(SMALL, "sqlite 7".into()), (BULK, "fio 8".into())];
    Names {
        tasks: tasks.into(),
        groups: [(GroupId(1), "/db".into()), (GroupId(2), "/bulk".into())].into(),
    }
}

fn seen(ended: Vec<Recorded>) -> Seen {
    let (began, over) = (Instant(0), Nanos(1_000 * MS));
    Seen { began, over, ended, left_out_count: 0, kernel: None }
}

#[test]
fn time_behind_requests_that_were_let_through_is_told() {
    let ended = at_serial_disk(16, 1_700);
    let all = split::of(&ended, NO_PAST);
    all.iter().for_each(adds_up);
    let first = &all[0];
    assert!(first.task == SMALL && first.loses() && first.alone_seen, "{first:?}");
    assert_eq!((first.kind, first.alone), ("reads", Nanos(100 * US)));
    assert_eq!(first.behind[0].0, Some(BULK));
    assert!(permille(first.behind[0].1, first.total) > 970, "{first:?}");
    // The other one waits behind its own requests.
    assert!(!all[1].loses() && all[1].behind[0].0 == Some(BULK), "{:?}", all[1]);

    let report = told(&seen(ended), &names(), &all, (None, Vec::new()));
    assert!(report.loses_to_others);
    let words = ["sqlite 7 loses most", "at the disk behind requests of fio 8 that iopace had let"];
    let words = words.into_iter().chain(["Alone at the disk such reads take 100 us"]);
    words.for_each(|word| assert!(report.text.contains(word), "'{word}' in {}", report.text));
    assert!(!report.text.contains("not what slows"), "{}", report.text);
    assert_eq!(report.tasks[0].group, "/db");
}

#[test]
fn time_held_by_iopace_is_told_by_reason() {
    let mut ended = Vec::new();
    for number in 0..50 {
        let at = number * 10 * MS;
        ended.push(read(SMALL, 4096, [at, at + 9 * MS, at + 10 * MS]));
        ended.push(read(BULK, LARGE, [at, at, at + 9 * MS]));
    }
    ended.sort_by_key(|one| one.ended);
    let all = split::of(&ended, NO_PAST);
    all.iter().for_each(adds_up);
    assert_eq!(permille(all[0].held[place(Reason::Turn)], all[0].total), 900);
    assert!(all[0].task == SMALL && all[0].loses(), "{:?}", all[0]);
    // Alone, with nothing to wait for.
    let alone: Vec<Recorded> = ended.into_iter().filter(|one| one.submit.task == BULK).collect();
    let all = split::of(&alone, NO_PAST);
    assert!(!all[0].loses() && all[0].service == all[0].total, "{:?}", all[0]);
    let report = told(&seen(alone), &names(), &all, (None, Vec::new()));
    assert!(report.text.contains("No task loses much"), "{}", report.text);
    assert!(report.text.contains("100 % (9.0 ms) the disk itself"), "{}", report.text);
}

/// Others have the disk for most of the time; of iopace there is one request at a time.
#[test]
fn time_behind_others_past_iopace_is_told() {
    let ended: Vec<Recorded> = (0..100)
        .map(|number| {
            let (at, took) = (number * 10 * MS, (1 + number % 8) * MS);
            read(SMALL, 4096, [at, at, at + took])
        })
        .collect();
    let over = Nanos(1_000 * MS);
    let disk = Disk {
        name: "vda".into(),
        scheduler: "mq-deadline".into(),
        request_bytes_max: 1 << 20,
        before: Counters::default(),
        after: Counters {
            ops_count: 4_000,
            sectors: 80_000,
            queue_ms: 16_000,
            ..Counters::default()
        },
    };
    let kernel = disk.report(&ended, over);
    assert_eq!((kernel.own_bytes, kernel.bytes), (409_600, 80_000 * 512));
    let past = kernel.past_queue_ns();
    assert_eq!(past, 16_000 * MS - kernel.own_queue_ns);
    let all = split::of(&ended, (past, over));
    adds_up(&all[0]);
    assert!(permille(all[0].past, all[0].total) > 700, "{:?}", all[0]);
    assert!(all[0].loses() && !all[0].alone_seen, "nothing was alone");
    let report = told(&seen(ended), &names(), &all, (Some(kernel), Vec::new()));
    for words in ["behind others who use it past iopace", "did not come from iopace", "mq-deadline"]
    {
        assert!(report.text.contains(words), "'{words}' in {}", report.text);
    }
}

/// A flush stands behind write-back, of which half is queued in iopace.
#[test]
fn the_time_of_a_sync_goes_where_its_write_back_was() {
    let mut ended = Vec::new();
    for number in 0..20 {
        let at = number * 100 * MS;
        let run = read(SMALL, 4096, [at, at + 5 * MS, at + 10 * MS]);
        let submit = Submit { op: Op::Write, ..run.submit };
        ended.push(Recorded { kind: RecordedKind::WriteBack, submit, ..run });
        let flush = read(SMALL, 0, [at, at + 10 * MS, at + 11 * MS]);
        let submit = Submit { op: Op::Flush, ..flush.submit };
        let times = StageTimes { disk: Nanos(11 * MS), ..StageTimes::default() };
        let (kind, written) = (RecordedKind::Flush, Nanos(10 * MS));
        ended.push(Recorded { kind, submit, times, written, ..flush });
    }
    let all = split::of(&ended, NO_PAST);
    assert_eq!((all.len(), all[0].kind, all[0].count), (1, "syncs", 20));
    adds_up(&all[0]);
    assert_eq!(all[0].held[place(Reason::Turn)], u128::from(5 * MS) * 20);
    assert_eq!(all[0].service, u128::from(6 * MS) * 20);
}

#[test]
fn a_disk_that_works_on_one_after_the_other_is_known_by_who_waits_for_whom() {
    assert!(is_serial(&at_serial_disk(16, 1_700), SMALL));
    // Nothing was beside it that could have been waited for.
    assert!(!is_serial(&at_serial_disk(0, 100), SMALL));
    // One that works on all at once: the small ones overtake.
    let mut ended: Vec<Recorded> = Vec::new();
    for number in 0..200_u64 {
        let at = number * MS;
        let large = read(BULK, LARGE, [at, at, at + 16 * MS]);
        let small = read(SMALL, 4096, [at + 10, at + 10, at + 100 * US]);
        ended.extend([large, small].map(|one| Recorded { beside: 17, ..one }));
    }
    ended.sort_by_key(|one| one.ended);
    assert!(!is_serial(&ended, SMALL));
}

/// A replay of the recording in which all take so long, and end as they did live.
fn replayed(ended: &[Recorded], small: [u64; 2], bulk: u64) -> OnBoth {
    let all = |small: u64| {
        let times = ended.iter().map(|one| {
            let disk = Nanos(if one.submit.task == SMALL { small } else { bulk });
            let times = StageTimes { disk, ..StageTimes::default() };
            Some(Replayed { ended: one.ended, times })
        });
        times.collect()
    };
    OnBoth { serial: all(small[0]), as_seen: all(small[1]) }
}

#[test]
fn a_setting_helps_only_if_its_replay_says_so() {
    let ended = at_serial_disk(16, 1_700);
    let split = &split::of(&ended, NO_PAST)[0];
    let mean = u64::try_from(split.total / u128::from(split.count)).expect("small");
    let tried = |present: [u64; 2], under: [u64; 2], is_serial: bool| {
        let present = replayed(&ended, present, 16 * MS);
        let under = replayed(&ended, under, 17 * MS);
        judge(&ended, split, (&present, &under), ("window 2".into(), "x".into(), is_serial))
    };
    let (told, payer) = tried([mean, mean], [2 * MS, 2 * MS], false);
    assert!(told.helps && told.each_ns == 2 * MS && told.measured_ns == mean, "{told:?}");
    let (task, Payer { each_ns, served_permille, .. }) = payer.expect("the other task");
    assert_eq!((task, each_ns, served_permille), (BULK, 17 * MS, 1_000));
    // By one that works on one after the other only: it has to be seen that it is one.
    assert!(!tried([mean, mean], [2 * MS, mean], false).0.helps);
    let (told, _) = tried([mean, mean], [2 * MS, mean], true);
    assert!(told.helps && told.each_most_ns == mean, "{told:?}");
    // No better, or a replay that explains next to nothing of what was measured.
    assert!(!tried([mean, mean], [mean * 9 / 10, mean * 9 / 10], true).0.helps);
    assert!(!tried([mean / 5, mean / 5], [mean / 50, mean / 50], true).0.helps);
}

#[test]
fn what_helps_is_told_with_what_was_replayed_and_what_does_not_too() {
    let ended = at_serial_disk(16, 1_700);
    let all = split::of(&ended, NO_PAST);
    let mut one = TriedSetting {
        setting: "window 2".into(),
        default: false,
        command: "iopace window configure --depth 2 disk".into(),
        each_ns: 4 * MS,
        each_most_ns: 5 * MS,
        measured_ns: 31 * MS,
        present_ns: 30 * MS,
        served_permille: 1_000,
        payer: Some(Payer {
            task: "fio 8".into(),
            served_permille: 980,
            each_ns: 17 * MS,
            present_ns: 16 * MS,
        }),
        helps: true,
        serial: false,
        text: String::new(),
    };
    one.text = words::tried(&one, "reads", Nanos(2_000 * MS));
    let text = "window 2 would have served these reads in 4.0 ms instead of 31.0 ms (2.0 s \
                replayed); fio 8 has 98 % of its requests in the same time, each 17.0 ms instead \
                of 16.0 ms";
    assert_eq!(one.text, text);
    let report = told(&seen(ended.clone()), &names(), &all, (None, vec![one.clone()]));
    assert!(report.text.contains(&format!("would help: {text}.")), "{}", report.text);
    // The default scheduler helps, and is not at work.
    one.default = true;
    let report = told(&seen(ended.clone()), &names(), &all, (None, vec![one.clone()]));
    let worse = "The scheduler that was set explicitly is worse than the default.";
    assert!(report.worse_than_default && report.text.ends_with(worse), "{}", report.text);
    one.default = false;
    one.helps = false;
    let report = told(&seen(ended), &names(), &all, (None, vec![one]));
    let words = "Nothing that was tried helps (1.0 s replayed under each of: window 2).";
    assert!(report.text.ends_with(words) && !report.worse_than_default, "{}", report.text);
}

/// The default is tried by its word where another one was set explicitly, or the same with other
/// parameters.
#[test]
fn the_default_scheduler_is_tried_where_another_was_set() {
    let tried = |name: Option<&str>, wait_ms: Option<u64>| {
        let mut engine = Engine::new(Config { base: sched::recommended(), ..Config::default() });
        if let Some(found) = name.and_then(sched::find) {
            let mut params = found.defaults();
            if let Some(wait) = wait_ms {
                params.set("wait_ms", wait).expect("a parameter of it");
            }
            engine.control(Instant(0), Control::Insert(found, params)).expect("inserted");
        }
        let all = of_device(&engine.status(), "disk", 1);
        let commands: Vec<String> = all.into_iter().map(|one| one.command).collect();
        (commands.iter().any(|one| one == "iopace sched configure -a auto disk"), commands)
    };
    for (name, wait_ms, is_tried) in
        [(Some("fifo"), None, true), (Some("fair"), Some(3), true), (Some("fair"), None, false)]
    {
        let (is, commands) = tried(name, wait_ms);
        assert!(is == is_tried, "{name:?}: {commands:?}");
        assert!(commands.iter().all(|one| !one.contains("-a fair")), "once: {commands:?}");
    }
    assert!(!tried(None, None).0, "it is at work");
}

#[test]
fn the_counters_of_the_kernel_are_read() {
    let text = "  9117 12 735786 5018 4421 3970 183464 8520 2 9124 14008 1 2 3 4 5 6\n";
    let wanted = Counters {
        ops_count: 9117 + 4421 + 1 + 5,
        merged_count: 12 + 3970 + 2,
        sectors: 735_786 + 183_464,
        in_flight_count: 2,
        busy_ms: 9124,
        queue_ms: 14_008,
    };
    assert_eq!(Counters::parse(text), Some(wanted));
    // As of kernels without discards and flushes.
    let text = "1 2 3 4 5 6 7 8 9 10 11";
    assert_eq!(Counters::parse(text).map(|all| (all.ops_count, all.queue_ms)), Some((6, 11)));
    assert_eq!((Counters::parse("1 2"), Counters::parse("a b c d e f g h i j k")), (None, None));
}
