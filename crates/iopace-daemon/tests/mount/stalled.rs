//! Requests that wait and wait: programs can be killed, others go on, and nothing comes too late.

use crate::{HANG, Mounted, emulate, wait_for};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Less than anything takes that was asked for here: of writes, names that change included.
const STALL: &str = "wbps=1";

/// The same of reads. Whoever opens a file counts as one, so it has to be open already.
const STALL_READS: &str = "rbps=1";

fn stalled(change: impl FnOnce(&mut iopace_daemon::config::DaemonConfig)) -> Option<Mounted> {
    let mounted = Mounted::over(
        |below| fs::write(below.join("old"), vec![7; 4 << 20]).expect("written"),
        change,
    )?;
    mounted.limit("/slow", STALL);
    mounted.limit("/slow/reads", STALL_READS);
    // A limit lets something go before it counts: what comes from here on waits.
    let tastes = [
        ("/slow/reads", "cat at/old"),
        ("/slow", "dd if=/dev/zero of=at/taste bs=1M count=2"),
        ("/slow", "dd if=/dev/zero of=at/taste bs=64k count=2 oflag=direct conv=notrunc"),
    ];
    for (group, taste) in tastes {
        let before = mounted.in_line();
        let mut taste = mounted.run_in(group, taste);
        wait_for("what waits for its limit", || mounted.in_line() > before);
        taste.kill().expect("killed");
        wait_for("the end of a killed program", || taste.try_wait().is_ok_and(|e| e.is_some()));
    }
    Some(mounted)
}

/// Kills it; it has to be gone long before its request would be done.
fn kill(mut child: Child) {
    let state = child.try_wait().expect("its state");
    assert!(state.is_none(), "it waits for its request, and is not gone: {state:?}");
    let begin = Instant::now();
    child.kill().expect("killed");
    wait_for("the end of a killed program", || child.try_wait().expect("its state").is_some());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

/// Waits until programs of the group have asked for something and wait.
fn settle() {
    // SLEEP: programs get to their call; one that is late makes the check easier.
    thread::sleep(Duration::from_millis(500));
}

fn programs_can_be_killed(model: Option<&str>) {
    let change = |config: &mut iopace_daemon::config::DaemonConfig| {
        if let Some(model) = model {
            emulate(&mut config.mounts[0], model);
        }
    };
    let Some(mounted) = stalled(change) else { return };
    let run = |command: &str| {
        let before = mounted.in_line();
        let child = mounted.run_in("/slow", command);
        wait_for("what waits for its limit", || mounted.in_line() > before);
        child
    };
    let reader = mounted.run_with("3< at/old", "/slow/reads", "cat <&3");
    let writer = run("dd if=/dev/zero of=at/written bs=1M count=8");
    let syncer = run("dd if=/dev/zero of=at/synced bs=64k count=1 conv=fsync");
    let direct = run("dd if=/dev/zero of=at/direct bs=64k count=1 oflag=direct");
    // Others are not held up.
    fs::write(mounted.at("other"), [1; 4096]).expect("written");
    assert_eq!(fs::read(mounted.at("other")).expect("read"), [1; 4096]);
    assert_eq!(fs::metadata(mounted.at("old")).expect("there").len(), 4 << 20);
    if model.is_none() {
        // An emulated disk has no flush of a part: it waits for what is dirty of everybody.
        File::open(mounted.at("other")).expect("opens").sync_all().expect("durable");
    }
    // Making the files waited too, but not for the limit.
    let made = |name: &&str| mounted.below(name).exists();
    wait_for("files", || ["written", "synced", "direct"].iter().all(made));
    settle();
    for child in [reader, writer, syncer, direct] {
        kill(child);
    }
    // The mount ends, whoever waits.
    let mut last = run("dd if=/dev/zero of=at/written bs=1M count=8 conv=notrunc");
    let begin = Instant::now();
    drop(mounted);
    assert!(begin.elapsed() < HANG, "{:?}", begin.elapsed());
    wait_for("the end of a program of a mount that is gone", || {
        last.try_wait().is_ok_and(|ended| ended.is_some())
    });
}

#[test]
fn whoever_waits_can_be_killed() {
    programs_can_be_killed(None);
}

#[test]
fn whoever_waits_for_an_emulated_disk_can_be_killed() {
    programs_can_be_killed(Some("null"));
}

#[test]
fn what_was_given_up_never_comes_over_what_was_written_since() {
    let Some(mounted) = stalled(|_| {}) else { return };
    for (flag, name) in [("direct", "old"), ("append", "grown"), ("sync", "synced")] {
        let more = if name == "old" { "conv=notrunc" } else { "" };
        let writer = mounted.run_in(
            "/slow",
            &format!("dd if=/dev/zero of=at/{name} bs=1M count=1 oflag={flag} {more}"),
        );
        wait_for("a file", || mounted.below(name).exists());
        settle();
        kill(writer);
    }
    let buffered =
        mounted.run_in("/slow", "dd if=/dev/zero of=at/buffered bs=1M count=1 conv=notrunc");
    wait_for("a file", || mounted.below("buffered").exists());
    settle();
    kill(buffered);
    let names = ["old", "grown", "synced", "buffered"];
    for name in names {
        let file = File::options().write(true).create(true).truncate(false).open(mounted.at(name));
        let file = file.expect("opens");
        file.set_len(1 << 20).expect("sized");
        file.write_all_at(&[5; 1 << 20], 0).expect("written");
    }
    // Now they might all go.
    mounted.limit("/slow", "wbps=max");
    settle();
    for name in names {
        let now = fs::read(mounted.below(name)).expect("read");
        assert_eq!(now.len(), 1 << 20, "{name}");
        assert!(now.iter().all(|byte| *byte == 5), "{name}: something came too late");
    }
}

#[test]
fn held_writes_take_no_more_memory_than_they_may() {
    let small = |config: &mut iopace_daemon::config::DaemonConfig| {
        config.memory_max = iopace_core::units::Bytes::from_kib(1024);
    };
    let Some(mounted) = stalled(small) else { return };
    let mut all: Vec<Child> = (0..8)
        .map(|number| {
            let command = format!("dd if=/dev/zero of=at/{number} bs=1M count=1");
            mounted.run_in("/slow", &command)
        })
        .collect();
    // One of them is held in memory; those that came when there was none left are below.
    let below = |number: usize| {
        fs::metadata(mounted.below(&number.to_string())).map_or(0, |found| found.len())
    };
    wait_for("files", || (0..8).all(|number| mounted.below(&number.to_string()).exists()));
    let there = || (0..8).filter(|number| below(*number) == 1 << 20).count();
    wait_for("those that were put where there is room", || there() >= 5);
    let waiting = all
        .iter_mut()
        .filter_map(|child| child.try_wait().expect("its state").is_none().then_some(()))
        .count();
    assert!(waiting >= 6, "only {waiting} wait");
    for child in all {
        let mut child = child;
        child.kill().expect("killed");
        wait_for("the end of a killed program", || child.try_wait().is_ok_and(|e| e.is_some()));
    }
}

#[test]
fn a_small_fsync_does_not_wait_for_the_backlog_of_another() {
    let Some(mounted) = stalled(|_| {}) else { return };
    mounted.limit("/bulk", "wbps=1M");
    let bulk = mounted.run_in("/bulk", "dd if=/dev/zero of=at/bulk bs=1M count=60 conv=fsync");
    settle();
    for number in 0..10 {
        let file = File::create(mounted.at(&format!("small{number}"))).expect("created");
        file.write_all_at(&[number; 4096], 0).expect("written");
        file.sync_all().expect("durable");
    }
    // A minute's work is not done by then.
    kill(bulk);
}

/// How long twenty writes take that are made durable one by one, in a new mount and without it.
fn fsyncs() -> Option<(Duration, Duration)> {
    let mounted = Mounted::new(|_| {})?;
    let plain = File::create(mounted.folder.path().join("plain")).expect("created");
    let ours = File::create(mounted.at("ours")).expect("created");
    let time = |file: &File| {
        let begin = Instant::now();
        for number in 0..20 {
            file.write_all_at(&[1; 4096], number * 4096).expect("written");
            file.sync_all().expect("durable");
        }
        begin.elapsed()
    };
    Some((time(&ours), time(&plain)))
}

#[test]
fn an_fsync_does_not_wait_to_learn_whether_anybody_reads() {
    // The disk may stand still for some seconds, for others' sake; half a second for each would be
    // ten each time.
    let mut tries = Vec::new();
    for _ in 0..3 {
        let Some((ours, plain)) = fsyncs() else { return };
        if ours < plain * 4 + Duration::from_secs(4) {
            return;
        }
        tries.push((ours, plain));
    }
    panic!("ours, and without us: {tries:?}");
}
