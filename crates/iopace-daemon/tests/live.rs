//! Live reports of a running daemon, while a client is busy.

mod support;

use iopace_nbd::client::{Client, Wanted};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use support::{Running, emulated};

/// A test that waits longer than this hangs, and fails.
const HANG: Duration = Duration::from_secs(60);

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < HANG, "{what} does not come");
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(20));
    }
}

/// Tells that it is over, also if that is a failure: nobody goes on then.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn live_reports_tell_groups_and_tasks_why_they_wait() {
    let running = Running::start(emulated("null"), |config| config.devices[0].direct = true);
    let groups = running.daemon.groups();
    groups.create("/slow", false).expect("made");
    groups.write("/slow", "io.max", "disk riops=20").expect("written");
    let mut client = {
        let wanted = Wanted { structured: true, ..Wanted::default() };
        Client::connect(running.raw(), "disk@/slow", wanted).expect("opens")
    };
    let number = groups.connections()[0].number;
    let is_told = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&is_told);
            wait_for("a report", || {
                let Some(interval) = running.daemon.live().hub().latest() else { return false };
                let device = &interval.report().devices[0];
                let group = device.groups.iter().find(|group| group.group == "/slow");
                let group = group.filter(|group| group.activity.now.budget_count == 1);
                let waits = group.map(|group| group.activity.waits);
                let task = device.tasks.iter().find(|task| task.group == "/slow");
                let is_busy = waits.is_some_and(|waits| {
                    waits.budget_ns > waits.slot_ns + waits.disk_ns + waits.window_ns
                });
                is_busy
                    && task.is_some_and(|task| {
                        assert_eq!(task.task, format!("connection {number}"));
                        let is_held = task.activity.waits.budget_ns > 0;
                        is_held && task.activity.read.ops_milli_s > 0 && task.live_count == 1
                    })
            });
        });
        let mut block = [0; 4096];
        while !is_told.load(Relaxed) {
            client.read(0, &mut block).expect("read");
        }
    });
    client.disconnect().expect("orderly");
}
