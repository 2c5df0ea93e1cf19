//! Any body of a control request, to a daemon with one emulated disk: settings of the scheduler, of
//! pacing and of the window as JSON, and what is written to the files of groups.
#![no_main]

use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig};
use iopace_daemon::change::{apply, apply_pace, apply_window};
use iopace_daemon::daemon::Daemon;
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, OnceLock};

/// Groups that one input may make: the table has a bound of its own, which is not what is tried.
const GROUPS_MAX: usize = 64;

fn daemon() -> &'static Arc<Daemon> {
    static DAEMON: OnceLock<Arc<Daemon>> = OnceLock::new();
    DAEMON.get_or_init(|| {
        let model = "null".into();
        let backend = Backend::Emulated { model, store: None, size: None, cache: None };
        let devices = vec![DeviceConfig::new("disk", backend)];
        Daemon::start(DaemonConfig { devices, ..DaemonConfig::default() }).expect("starts")
    })
}

/// The settings that a refused change must leave as they were.
fn settings() -> String {
    let engine = daemon().devices()[0].status().engine;
    let (depth, window) = (engine.window_depth, engine.window.name);
    let scheduler = (engine.algorithm.name, &engine.params);
    format!("{scheduler:?} {} {window} {depth}", engine.pace.name)
}

/// Lines of an input: a group, a file of it, and its new text.
fn group(text: &str) {
    let groups = daemon().groups();
    let mut lines = text.splitn(3, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (path, file, text) = (next(), next(), next());
    if groups.count() < GROUPS_MAX {
        let _ = groups.create(path, true);
    }
    let before = groups.read(path, file);
    if groups.write(path, file, text).is_err() {
        assert_eq!(groups.read(path, file).ok(), before.ok(), "refused, and yet changed");
    }
    let _ = groups.list(path);
    let _ = groups.stat(path, 8);
    let _ = groups.remove(path);
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    let device = &*daemon().devices()[0];
    let before = settings();
    let refused = match kind % 4 {
        0 => serde_json::from_slice(bytes).is_ok_and(|change| apply(device, &change).is_err()),
        1 => serde_json::from_slice(bytes).is_ok_and(|change| apply_pace(device, &change).is_err()),
        2 => {
            serde_json::from_slice(bytes).is_ok_and(|change| apply_window(device, &change).is_err())
        }
        _ => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                group(text);
            }
            true
        }
    };
    assert!(!refused || settings() == before, "refused, and yet changed");
});
