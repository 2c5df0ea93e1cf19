//! `iopace window`: how many requests the disks of a running daemon may hold.

use crate::cli::{WindowCommand, WindowConfigureArgs, WindowListArgs};
use crate::config::{SHARED_WINDOW, blind_window, is_shared_window};
use crate::output::{Failure, finish, right, table, warn};
use crate::policies;
use crate::target::{self, devices, done, named};
use crate::units::time;
use comfy_table::Cell;
use iopace_daemon::api::{DeviceReport, WindowChange};
use iopace_daemon::control::Client;
use std::fmt::Write as _;

/// Carries out a command.
///
/// # Errors
/// No daemon, no such device, or a refusal, with what would be right.
pub fn run(command: &WindowCommand) -> Result<(), Failure> {
    match command {
        WindowCommand::List(WindowListArgs { policy, target }) => policies::list(
            target,
            policy.as_deref(),
            |all| all.window,
            |device| Some(&*device.window.policy),
        ),
        WindowCommand::Configure(WindowConfigureArgs { policy, depth, target, keep }) => {
            let change = WindowChange { policy: policy.clone(), depth: *depth };
            let keys = [("window-policy", policy.is_some()), ("window", depth.is_some())];
            let mut volume = None;
            let device = target::change(target, (*keep, &named(&keys)), |client, name| {
                volume = volume_of(client, name);
                client.change_window(name, &change)
            })?;
            if let Some(volume) = volume.filter(|_| !is_shared_window(&device.window.policy)) {
                let text = blind_window(&volume);
                let command = format!("iopace window configure -a {SHARED_WINDOW} {}", device.name);
                warn(&device.name, &text, &command, target.control.as_deref());
            }
            done(target, &device, || in_force(&device))
        }
        WindowCommand::Status(target) => {
            let devices = devices(target)?;
            done(target, &devices, || status(&devices))
        }
    }
}

/// The volume of several hosts that a device is a part of.
fn volume_of(client: &Client, device: &str) -> Option<String> {
    let volumes = client.cluster().ok()?.volumes.into_iter();
    volumes.filter(|volume| volume.device == device).map(|volume| volume.volume).next()
}

/// A device after a change: what is in force.
fn in_force(device: &DeviceReport) -> String {
    let window = &device.window;
    format!("{}: window {}, depth {}\n", device.name, window.policy, window.depth)
}

fn status(devices: &[DeviceReport]) -> String {
    let head = ["device", "policy", "depth", "at the disk", "write-back", "every"];
    let [a, b, c, d, e, f] = head;
    let mut rows = table([a, b, c, d, e, f, "latency", "when quiet"]);
    for device in devices {
        let window = &device.window;
        let known = |nanos| if nanos == 0 { "-".into() } else { time(nanos) };
        rows.add_row([
            Cell::new(&device.name),
            Cell::new(&window.policy),
            right(window.depth),
            right(device.queue.in_flight_count),
            right(window.write_back_depth),
            right(known(window.write_back_gap_ns)),
            right(known(window.latency_ns)),
            right(known(window.quiet_latency_ns)),
        ]);
    }
    let mut text = finish(&rows, 0);
    for DeviceReport { name, window, .. } in devices {
        if let Some(why) = window.narrowed_words() {
            let _ = writeln!(text, "{name}: the depth is less than was set: {why}");
        }
    }
    text
}
