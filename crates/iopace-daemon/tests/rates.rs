//! Rates in a running daemon, measured: they depend on how fast this machine is today, so each is
//! printed beside its bound and gates nothing. `make nightly` runs them, by the feature `nightly`.

mod support;

use iopace_core::units::Bytes;
use iopace_daemon::config::{Backend, DaemonConfig};
use iopace_daemon::device::DeviceStatus;
use iopace_nbd::client::Client;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use support::{Running, figure, wait_for};

const SIZE: u64 = 64 << 20;

/// An image file through the page cache.
fn start(change: impl FnOnce(&mut DaemonConfig)) -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Running::image(&folder, SIZE);
    Running::start_in(folder, Backend::Path(path), change)
}

fn status(running: &Running) -> DeviceStatus {
    running.daemon.devices()[0].status()
}

/// Writes so many bytes, in blocks; when the last of them was due at that rate. A timer that is
/// late by some milliseconds makes up for it: so the block of the last quarter of a second that
/// was least late says it.
fn due_after(client: &mut Client<UnixStream>, rate: u64, bytes: u64) -> Instant {
    let data = vec![7; 16 * 1024];
    let block = data.len() as u64;
    let mut due = None;
    for left in (0..bytes / block).rev() {
        client.write(left * block % SIZE, &data, false).expect("write");
        if left < rate / 4 / block {
            let at = Instant::now() + Duration::from_nanos(left * block * 1_000_000_000 / rate);
            due = Some(due.map_or(at, |due: Instant| due.min(at)));
        }
    }
    due.expect("more than nothing")
}

#[test]
fn a_limit_of_writes_is_what_the_client_gets() {
    const RATE: u64 = 8 << 20;
    let running = start(|_| {});
    let groups = running.daemon.groups();
    groups.create("/capped", true).expect("made");
    groups.write("/capped", "io.max", "disk wbps=8M").expect("written");
    let mut client = running.open("disk@/capped");
    // A writer that has nothing to do with it writes on meanwhile.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let (mut other, mut count) = (running.client(), 0u64);
            while !stop.load(Relaxed) {
                other.write(0, &[1; 4096], false).expect("write");
                count += 1;
                // SLEEP: a client that asks for little.
                thread::sleep(Duration::from_micros(200));
            }
            count
        });
        let mut took = Vec::new();
        let mut begin = due_after(&mut client, RATE, 2 * RATE);
        for _ in 0..5 {
            let end = due_after(&mut client, RATE, RATE);
            took.push((end - begin).as_millis());
            begin = end;
        }
        stop.store(true, Relaxed);
        took.sort_unstable();
        let (least, median) = (took[0], took[2]);
        let text = format!("{median} ms in the middle, {least} ms at least, for 1000");
        let holds = least >= 990 && median <= 1_010;
        figure("a client with wbps=8M, a second's worth", &text, "990 to 1010 ms", holds);
        assert!(other.join().expect("not disturbed") > 100);
    });
}

/// The bytes that two groups of weights 100 and 300 write in some seconds, in a new daemon.
fn written_by_weight() -> [u64; 2] {
    const REGION: u64 = 512 << 20;
    let cache = Some(Bytes::from_mib(256));
    let model = "hdd-sata-250g".into();
    let backend = Backend::Emulated { model, store: None, size: Some(Bytes(2 * REGION)), cache };
    let running = Running::start(backend, |_| {});
    let groups = running.daemon.groups();
    let (stop, counts) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    let seen = thread::scope(|scope| {
        for (number, weight) in [(0, 100), (1, 300)] {
            groups.create(&format!("/{weight}"), true).expect("made");
            let text = format!("disk {weight}");
            groups.write(&format!("/{weight}"), "io.weight", &text).expect("written");
            let mut client = running.open(&format!("disk@/{weight}"));
            let (stop, count) = (&stop, &counts[number]);
            scope.spawn(move || {
                let (data, mut at) = (vec![1; 64 * 1024], 0);
                while !stop.load(Relaxed) {
                    let offset = number as u64 * REGION + at % REGION;
                    client.write(offset, &data, false).expect("write");
                    at += data.len() as u64;
                    count.fetch_add(data.len() as u64, Relaxed);
                }
            });
        }
        let sum = || counts.iter().map(|count| count.load(Relaxed)).sum::<u64>();
        // Memory is full and rates have settled; then as much again several times.
        wait_for("full memory", || sum() >= 200 << 20);
        let before = [0, 1].map(|at| counts[at].load(Relaxed));
        wait_for("some seconds of writing", || sum() >= 600 << 20);
        let shares = [0, 1].map(|at: usize| counts[at].load(Relaxed) - before[at]);
        stop.store(true, Relaxed);
        shares
    });
    let memory = status(&running).memory.expect("buffered");
    assert!(memory.pauses.count() > 0);
    seen
}

#[test]
fn groups_that_write_share_by_weight() {
    let shares = written_by_weight();
    let percent = shares[1] as f64 * 100.0 / (shares[0] + shares[1]) as f64;
    let text = format!("{percent:.1} % of {} MiB", (shares[0] + shares[1]) >> 20);
    let holds = (73.0..=77.0).contains(&percent);
    figure("weight 300 beside 100, buffered writes", &text, "75 ±2 %", holds);
}
