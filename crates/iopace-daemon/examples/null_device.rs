//! What a request through a whole daemon costs where no disk is in the way: `null_device SOCKET
//! [--no-accounting]` serves a device with the model `null`, as `iopace serve --emulate null
//! --direct --sched fair` does, until it is killed. Run by `scripts/bench_live.py accounting`.

use iopace_core::units::Bytes;
use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig, Listen};
use iopace_daemon::daemon::Daemon;

/// Enough for fio to be random on.
const SIZE: Bytes = Bytes::from_mib(256);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (socket, accounting) = match &words[..] {
        [socket] => (socket, true),
        [socket, flag] if flag == "--no-accounting" => (socket, false),
        _ => {
            eprintln!("usage: null_device SOCKET [--no-accounting]");
            std::process::exit(2);
        }
    };
    let backend =
        Backend::Emulated { model: "null".into(), store: None, size: Some(SIZE), cache: None };
    let device = DeviceConfig {
        direct: true,
        scheduler: Some(("fair".into(), Vec::new())),
        accounting,
        ..DeviceConfig::new("null", backend)
    };
    let daemon = Daemon::start(DaemonConfig {
        devices: vec![device],
        listen: vec![Listen::Unix(socket.into())],
        ..DaemonConfig::default()
    });
    let daemon = daemon.unwrap_or_else(|error| {
        eprintln!("null_device: {error}");
        std::process::exit(1);
    });
    println!("{}", daemon.uris()[0]);
    loop {
        std::thread::park();
    }
}
