//! Rates of programs on a mount, measured: printed beside their bounds, they gate nothing.

use crate::limits::{end, ended, prepare};
use crate::support::figure;
use crate::{Mounted, emulate, wait_for};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long is counted.
const TIME: Duration = Duration::from_secs(2);

/// Counts what a program of the group does in [`TIME`], and how long that really was.
fn count_for(mounted: &Mounted, script: &str) -> (usize, Duration) {
    fs::write(mounted.folder.path().join("count"), "").expect("written");
    let child = mounted.run_in("/slow", &format!("sh -c '{script}'"));
    let count = || fs::metadata(mounted.folder.path().join("count")).expect("there").len() as usize;
    wait_for("a beginning", || count() > 0);
    let (begin, first) = (Instant::now(), count());
    // SLEEP: the time in which it is counted.
    thread::sleep(TIME);
    let (last, took) = (count(), begin.elapsed());
    end(child);
    (last - first, took)
}

#[test]
fn as_many_files_are_made_and_found_as_the_limit_says() {
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    // Each `mkdir` is a look and a change; `stat` of what is not there a look.
    let make = "cd at/ours; i=0; while mkdir d$i; do i=$((i+1)); echo -n x >> ../../count; done";
    let find = "cd at/ours; while ! [ -e none ]; do echo -n x >> ../../count; done";
    for (limit, script, rate) in [("wiops=20", make, 20), ("riops=20", find, 20)] {
        mounted.limit("/slow", &format!("rbps=max wbps=max riops=max wiops=max {limit}"));
        let (count, took) = count_for(&mounted, script);
        let (most, least) = (
            rate * (took.as_millis() as usize + 200) / 1000 + 2,
            rate * took.as_millis() as usize / 1000 * 8 / 10,
        );
        let text = format!("{count} in {:.2} s", took.as_secs_f64());
        let bound = format!("{least} to {most}");
        figure(&format!("names with {limit}"), &text, &bound, (least..=most).contains(&count));
    }
    let counts = mounted.device().status().stats;
    assert!(counts.write.finished_count > 0 && counts.write.bytes.get() == 0);
}

/// `dd conv=fsync`: what a limited group has dirty when it syncs, it has to wait for once more. The
/// kernel's own write-back would come to all of it, and to twice the time of the writing.
#[test]
fn little_is_left_for_a_sync_of_who_writes_at_his_limit() {
    const TOTAL: u64 = 30 << 20;
    for model in [None, Some("null")] {
        let Some(mounted) = Mounted::over(prepare, |config| {
            if let Some(model) = model {
                emulate(&mut config.mounts[0], model);
            }
        }) else {
            return;
        };
        mounted.limit("/slow", "wbps=10M");
        let dd = "dd if=/dev/zero of=at/synced bs=1M count=30 conv=fsync";
        let (mut dd, mut dirty) = (mounted.run_in("/slow", dd), Vec::new());
        wait_for("the end of dd", || {
            let memory = mounted.device().status().memory.expect("it has a page cache");
            dirty.push(memory.dirty.device.get());
            ended(&mut dd)
        });
        assert!(dd.wait().expect("its end").success());
        let written = mounted.device().status().stats.write.bytes.get();
        // On an emulated disk the first chunks of a file, 1 MiB, may lie over each other.
        assert!(written + (1 << 20) >= TOTAL, "{written} were written back");
        // A quarter of a second of the limit; a disk that hesitates for a moment changes little.
        dirty.sort_unstable();
        let median = dirty[dirty.len() / 2];
        let disk = model.unwrap_or("the disk below");
        let text = format!("{} KiB in the middle of {} looks", median >> 10, dirty.len());
        let bound = format!("{} KiB", TOTAL / 5 / 1024);
        let name = format!("dirty of a writer with wbps=10M, {disk}");
        figure(&name, &text, &bound, median <= TOTAL / 5);
    }
}

/// Whoever waits for a limit when he is killed: opens, writes past the page cache and through it.
#[test]
fn whoever_is_killed_while_he_waits_is_gone_soon() {
    const BOUND: Duration = Duration::from_millis(50);
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    mounted.limit("/slow", "wbps=1");
    // A limit lets something go before it counts.
    let taste = "dd if=/dev/zero of=at/ours/taste bs=1M count=2";
    for (what, flags) in [("direct", "oflag=direct"), ("buffered", "conv=notrunc")] {
        let mut times = Vec::new();
        for _ in 0..10 {
            let before = mounted.in_line();
            let mut dd = mounted.run_in("/slow", &format!("{taste} {flags}"));
            wait_for("what waits for its limit", || mounted.in_line() > before);
            let begin = Instant::now();
            dd.kill().expect("killed");
            dd.wait().expect("it ends");
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let longest = times[times.len() - 1];
        let text = format!("{:.1} ms at most, {:.1} ms", ms(longest), ms(times[times.len() / 2]));
        let name = format!("a killed program that waits for its limit, {what}");
        figure(&name, &text, "50 ms", longest <= BOUND);
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
