//! Schedulers are exchanged thousands of times while clients verify every byte.

mod support;

use iopace_core::engine::Control;
use iopace_core::sched::REGISTRY;
use iopace_daemon::config::{Backend, IoEngineChoice};
use iopace_suites::random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use support::{Running, emulated};

/// What each client writes to: apart from the others'.
const REGION: u64 = 4 << 20;
const CLIENTS: u64 = 4;
const BLOCK: usize = 512;

/// Fills a block with what only this write of this block can have.
fn pattern(block: u64, version: u32, into: &mut [u8]) {
    let mut random = Random(block << 32 | u64::from(version));
    for word in into.chunks_exact_mut(8) {
        word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
}

/// Writes and reads its region in mixed sizes until told to stop; every read is compared.
fn verify(running: &Running, number: u64, stop: &AtomicBool, requests: &AtomicU64) {
    let mut client = running.client();
    let mut random = Random(number + 1);
    let mut versions = vec![0u32; (REGION / BLOCK as u64) as usize];
    let mut data = vec![0; 128 * 1024];
    let mut wanted = data.clone();
    while !stop.load(Relaxed) {
        let blocks = 1 << random.below(9);
        let first = random.below(versions.len() as u64 - blocks + 1);
        let len = blocks as usize * BLOCK;
        let offset = number * REGION + first * BLOCK as u64;
        requests.fetch_add(1, Relaxed);
        match random.below(16) {
            0 => client.flush().expect("flush"),
            1..=7 => {
                for block in first..first + blocks {
                    let version = &mut versions[block as usize];
                    *version += 1;
                    let at = (block - first) as usize * BLOCK;
                    pattern(number << 20 | block, *version, &mut data[at..at + BLOCK]);
                }
                client.write(offset, &data[..len], random.below(8) == 0).expect("write");
            }
            _ => {
                client.read(offset, &mut data[..len]).expect("read");
                for block in first..first + blocks {
                    let at = (block - first) as usize * BLOCK;
                    match versions[block as usize] {
                        0 => wanted[at..at + BLOCK].fill(0),
                        version => {
                            pattern(number << 20 | block, version, &mut wanted[at..at + BLOCK]);
                        }
                    }
                }
                assert!(data[..len] == wanted[..len], "client {number}: block {first}+{blocks}");
            }
        }
    }
    client.disconnect().expect("orderly");
}

/// Exchanges among all schedulers, with legal settings drawn at random.
fn exchange(running: &Running, count: u64) {
    let device = &running.daemon.devices()[0];
    let mut random = Random(7);
    let mut inserted = false;
    for _ in 0..count {
        let algorithm = REGISTRY[random.below(REGISTRY.len() as u64) as usize];
        let mut params = algorithm.defaults();
        if random.below(2) == 0 {
            for spec in algorithm.params {
                let span = (spec.max - spec.min + 1).min(64);
                params.set(spec.name, spec.min + random.below(span)).expect("within bounds");
            }
        }
        let control = match (inserted, random.below(5)) {
            (false, _) => Control::Insert(algorithm, params),
            (true, 0) => Control::Destroy,
            (true, _) => Control::Configure(Some(algorithm), params.changes()),
        };
        inserted = !matches!(control, Control::Destroy);
        device.control(control).expect("a legal change");
        if random.below(4) == 0 {
            thread::yield_now();
        }
    }
}

fn run(what: &str, running: &Running, count: u64) {
    let (stop, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (stop, requests) = (&stop, &requests);
            scope.spawn(move || verify(running, number, stop, requests));
        }
        // In portions, so that the clients have done something between any two.
        for _ in 0..count / 50 {
            let before = requests.load(Relaxed);
            exchange_portion(running);
            while requests.load(Relaxed) < before + 100 {
                thread::yield_now();
            }
        }
        stop.store(true, Relaxed);
    });
    let status = running.daemon.devices()[0].status();
    let (submitted, finished) = status.engine.totals_count;
    assert_eq!(submitted, finished, "{what}: every request ended");
    assert_eq!(status.stats.failed_over_count, 0, "{what}: no scheduler failed");
    assert_eq!(status.stats.read.failed_count + status.stats.write.failed_count, 0, "{what}");
    let hold_up = &status.hold_up;
    println!(
        "{what}: {} exchanges, {} requests verified; hold-up p50 {}, p99 {}, longest {}",
        hold_up.count(),
        requests.load(Relaxed),
        hold_up.quantile(500),
        hold_up.quantile(990),
        hold_up.max()
    );
}

fn exchange_portion(running: &Running) {
    exchange(running, 50);
    let device = &running.daemon.devices()[0];
    if device.status().engine.inserted {
        device.control(Control::Destroy).expect("one is inserted");
    }
}

fn on_file(direct: bool, io_engine: IoEngineChoice) -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Running::image(&folder, CLIENTS * REGION);
    Running::start_in(folder, Backend::Path(path), |config| {
        config.devices[0].direct = direct;
        config.io_engine = io_engine;
    })
}

#[test]
fn on_a_file_through_the_page_cache() {
    run("file", &on_file(false, IoEngineChoice::Auto), 2_000);
}

#[test]
fn on_a_file_with_threads() {
    run("file, threads", &on_file(false, IoEngineChoice::Threads), 2_000);
}

#[test]
fn on_an_emulated_flash_disk_without_its_page_cache() {
    let running = Running::start(emulated("ssd-nvme"), |config| config.devices[0].direct = true);
    run("ssd-nvme, direct", &running, 3_000);
}

#[test]
fn on_an_emulated_flash_disk() {
    run("ssd-nvme", &Running::start(emulated("ssd-nvme"), |_| {}), 3_000);
}
