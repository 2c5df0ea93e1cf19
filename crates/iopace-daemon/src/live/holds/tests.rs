//! Schedulers that do not come to an end, in a real device.

use crate::clock;
use crate::config::{Backend, DaemonConfig, DeviceConfig};
use crate::daemon::Daemon;
use iopace_core::engine::Control;
use iopace_core::sched::{Algorithm, Build, fifo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Nobody waits for longer, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

fn daemon() -> Arc<Daemon> {
    let backend = Backend::Emulated { model: "null".into(), store: None, size: None, cache: None };
    let devices = vec![DeviceConfig::new("disk", backend)];
    Daemon::start(DaemonConfig { devices, ..DaemonConfig::default() }).expect("starts")
}

/// The texts of the events of this kind.
fn told(daemon: &Daemon) -> Vec<String> {
    let events = daemon.live().hub().events().into_iter();
    events.filter(|event| event.kind == super::KIND).map(|event| event.text).collect()
}

fn until(happens: impl Fn() -> bool) {
    let began = clock::now();
    while !happens() {
        assert!(clock::elapsed(began) < PATIENCE, "it never happens");
        // SLEEP: another thread looks every 50 ms.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Inserts a scheduler that is not made before it is told; whether the event tells this of it.
fn tells(name: &'static str, words: &str, build: Build, goes_on: &AtomicBool) {
    let daemon = daemon();
    let algorithm: &Algorithm = Box::leak(Box::new(Algorithm { name, build, ..fifo::ALGORITHM }));
    let device = Arc::clone(&daemon.devices()[0]);
    let insert = thread::spawn(move || {
        device.control(Control::Insert(algorithm, algorithm.defaults())).expect("none is inserted");
    });
    until(|| !told(&daemon).is_empty());
    let (device, text) = daemon.live().hub().held().expect("it lasts");
    assert_eq!(device, "disk");
    assert!(text.contains(&format!("scheduler {name} has ")), "{text}");
    assert!(told(&daemon)[0].contains(words), "{:?}", told(&daemon));
    goes_on.store(true, SeqCst);
    insert.join().expect("it ends");
    until(|| told(&daemon).len() == 2);
    assert!(told(&daemon)[1].starts_with("goes on after "), "{:?}", told(&daemon));
    assert_eq!(daemon.live().hub().held(), None);
    daemon.shutdown();
}

#[test]
fn one_that_computes_without_an_end_is_told() {
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    fn busy() {
        while !GOES_ON.load(SeqCst) {
            std::hint::spin_loop();
        }
    }
    let build: Build = &|_| {
        busy();
        Box::new(fifo::Fifo::default())
    };
    tells("busy", "scheduler busy has computed for ", build, &GOES_ON);
}

#[test]
fn one_that_waits_is_told() {
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    let build: Build = &|_| {
        while !GOES_ON.load(SeqCst) {
            // SLEEP: this is what a scheduler must not do.
            thread::sleep(Duration::from_millis(1));
        }
        Box::new(fifo::Fifo::default())
    };
    tells("asleep", "scheduler asleep has waited for ", build, &GOES_ON);
}

#[test]
fn time_of_a_thread_is_read() {
    let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let (state, _) = super::thread_of(own).expect("this thread exists");
    assert_eq!(state, 'R');
    assert_eq!(super::thread_of(0), None);
}
