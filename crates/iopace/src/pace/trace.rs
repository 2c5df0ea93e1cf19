//! `iopace pace trace`: a device of a running daemon, looked at all the time and drawn as the
//! simulator draws its own.

use crate::cli::{PaceTraceArgs, TraceFormat};
use crate::output::{Failure, note_over, print};
use crate::target;
use iopace_core::pace;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};
use iopace_core::verdict::Reason;
use iopace_core::window;
use iopace_daemon::api::{DeviceReport, PictureReport, WindowReport};
use iopace_daemon::clock;
use iopace_daemon::control::Client;
use iopace_sim::look::{Look, Pause};
use iopace_sim::trace::{RunTrace, plot, png};
use std::fs;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Longest sleep between two looks at the signal that ends the trace.
const NAP: Duration = Duration::from_millis(100);

/// Looks at the device until the time is over or somebody presses Ctrl-C, then prints and draws.
///
/// # Errors
/// No daemon, no such device, no signals, or a file that cannot be written.
pub fn run(args: &PaceTraceArgs) -> Result<(), Failure> {
    let (client, device) = target::only(args.control.as_deref(), args.device.as_deref())?;
    if device.pace.is_none() {
        let name = &device.name;
        let message = format!("{name} bypasses the page cache: there is nothing to pace");
        return Err(Failure::new(message));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(format!("no signal handler: {error}")))?;
    }
    let trace = watch(&client, &device.name, args, &stop)?;
    let end = trace.looks.last().map_or(Nanos::ZERO, |look| look.at.since(Instant::ZERO));
    let policy = device.pace.as_ref().map_or("none", |pace| &pace.policy);
    let title = format!("{}: pace {policy}, window {}, {end}", device.name, device.window.policy);
    write(&trace, &title, args)
}

/// Takes the looks.
fn watch(
    client: &Client,
    name: &str,
    args: &PaceTraceArgs,
    stop: &AtomicBool,
) -> Result<RunTrace, Failure> {
    let shows_progress = std::io::stderr().is_terminal();
    let begin = clock::now();
    let end = begin + args.length;
    let (mut trace, mut next, mut pauses) = (RunTrace::default(), begin, None);
    while next < end && !stop.load(Relaxed) {
        if let Some(left) = clock::until(next).filter(|left| !left.is_zero()) {
            thread::sleep(left.min(NAP));
            continue;
        }
        let device = client.device(name).map_err(Failure::new)?;
        let at = Instant::ZERO + clock::now().since(begin);
        let count = device.pace.as_ref().map(|pace| pace.pauses.count);
        if let Some(look) = look(at, &device) {
            // One of the pauses since the last look, if there were any.
            if look.pace.pause > Nanos::ZERO && pauses.is_some() && count != pauses {
                trace.pauses.push(Pause { at, task: 0, pause: look.pace.pause });
            }
            trace.looks.push(look);
        }
        pauses = count;
        next = clock::now().max(next + args.every);
        if shows_progress {
            let [at_s, length_s] = [at.0, args.length.0].map(|ns| ns / 1_000_000_000);
            note_over(format_args!("{at_s} of {length_s} s"));
        }
    }
    if shows_progress {
        note_over(format_args!(""));
    }
    Ok(trace)
}

fn look(at: Instant, device: &DeviceReport) -> Option<Look> {
    let (pace, queue) = (device.pace.as_ref()?, &device.queue);
    Some(Look {
        at,
        pace: picture(&pace.picture),
        window: window(&device.window),
        in_flight_count: queue.in_flight_count,
        queued_count: queue.queued_count + queue.waiting_count,
        paced_count: pace.waiting_count,
        reason: Reason::find(&queue.reason).unwrap_or(Reason::Idle),
        // Only a model knows.
        disk_busy: Nanos::ZERO,
    })
}

fn picture(report: &PictureReport) -> pace::PacePicture {
    pace::PacePicture {
        dirty: Bytes(report.dirty_bytes),
        freerun: Bytes(report.freerun_bytes),
        setpoint: Bytes(report.setpoint_bytes),
        limit: Bytes(report.limit_bytes),
        write_bandwidth: BytesPerSec(report.write_bandwidth_bytes_s),
        dirty_rate: BytesPerSec(report.dirty_rate_bytes_s),
        base_rate: BytesPerSec(report.base_rate_bytes_s),
        balanced_rate: BytesPerSec(report.balanced_rate_bytes_s),
        task_rate: BytesPerSec(report.task_rate_bytes_s),
        position_permille: report.position_permille,
        pause: Nanos(report.last_pause_ns),
    }
}

fn window(report: &WindowReport) -> window::WindowPicture {
    window::WindowPicture {
        depth: report.depth,
        narrowed: None,
        write_back_depth: report.write_back_depth,
        write_back_gap: Nanos(report.write_back_gap_ns),
        quiet_latency: Nanos(report.quiet_latency_ns),
        latency: Nanos(report.latency_ns),
    }
}

fn write(trace: &RunTrace, title: &str, args: &PaceTraceArgs) -> Result<(), Failure> {
    let put = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes)
            .map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display())))
    };
    let picture = plot::svg(title, trace);
    if let Some(path) = &args.svg {
        put(path, picture.as_bytes())?;
    }
    if let Some(path) = &args.png {
        put(path, &png::png(&picture).map_err(Failure::new)?)?;
    }
    match args.format {
        Some(TraceFormat::Json) => print(&trace.json()),
        Some(TraceFormat::Csv) => print(&trace.csv()),
        None if args.svg.is_none() && args.png.is_none() => print(&trace.csv()),
        None => Ok(()),
    }
}
