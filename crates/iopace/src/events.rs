//! `iopace events`: what happened to devices and promises, and what happens.

use crate::cli::EventsArgs;
use crate::output::{
    Failure, Format, finish, print, print_json, print_json_line, print_on, right, table,
};
use crate::running::{Sought, daemon};
use crate::units::time;
use iopace_core::time::Nanos;
use iopace_daemon::api::EventReport;
use iopace_daemon::control::{ClientError, LiveMessage, LiveStream};
use iopace_daemon::printable;
use jiff::{SignedDuration, Zoned};
use std::time::Instant;

/// The same event is told with ages that differ by the time on the way only.
const NEAR: Nanos = Nanos::from_millis(500);

/// Carries out the command.
///
/// # Errors
/// No daemon.
pub fn run(args: &EventsArgs) -> Result<(), Failure> {
    let sought = Sought { device: args.device.as_deref(), ..Sought::default() };
    let client = daemon(args.control.as_deref(), sought)?;
    // The stream first, so that nothing falls between it and the list.
    let stream = args.follow.then(|| client.live_stream(None)).transpose().map_err(Failure::new)?;
    let mut events = client.events().map_err(Failure::new)?;
    let listed_at = Instant::now();
    events.retain(|event| is_asked(args, event));
    match (stream, args.format.format) {
        (None, Format::Json) => print_json(&events),
        (None, Format::Table) => print(&listed(&events)),
        (Some(stream), format) => {
            for event in &events {
                if !line(format, event)? {
                    return Ok(());
                }
            }
            follow(args, stream, &events, listed_at)
        }
    }
}

fn is_asked(args: &EventsArgs, event: &EventReport) -> bool {
    args.device.as_ref().is_none_or(|device| *device == event.device)
}

/// When it happened, in the time zone of this machine's user, to the second.
fn when(event: &EventReport) -> String {
    let age = SignedDuration::from_nanos(event.age_ns.min(i64::MAX as u64).cast_signed());
    match Zoned::now().checked_sub(age) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => "-".into(),
    }
}

fn listed(events: &[EventReport]) -> String {
    if events.is_empty() {
        return "nothing has happened\n".into();
    }
    let mut rows = table(["when", "age", "device", "kind", "what"]);
    for event in events {
        let words = [&event.device, &event.kind, &event.text].map(comfy_table::Cell::new);
        let [device, kind, text] = words;
        rows.add_row([when(event).into(), right(time(event.age_ns)), device, kind, text]);
    }
    finish(&rows, 0)
}

/// False if nobody reads any more.
fn line(format: Format, event: &EventReport) -> Result<bool, Failure> {
    match format {
        Format::Json => print_json_line(event),
        Format::Table => {
            let EventReport { device, kind, text, .. } = event;
            let text = printable::name(text);
            print_on(&format!("{} {device} {kind}: {text}\n", when(event)))
        }
    }
}

/// Prints what comes, but not again what was printed from the list.
fn follow(
    args: &EventsArgs,
    mut stream: LiveStream,
    printed: &[EventReport],
    listed_at: Instant,
) -> Result<(), Failure> {
    loop {
        let event = match stream.next_message() {
            Ok(LiveMessage::Event(event)) => event,
            Ok(LiveMessage::Report(_)) => continue,
            Err(ClientError::Ended(_)) => return Err(Failure::new("the daemon has ended")),
            Err(error) => return Err(Failure::new(error)),
        };
        let since = u64::try_from(listed_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let is_again = printed.iter().any(|one| {
            let is_same =
                (&one.device, &one.kind, &one.text) == (&event.device, &event.kind, &event.text);
            let age_ns = one.age_ns.saturating_add(since);
            is_same && age_ns.abs_diff(event.age_ns) < NEAR.as_nanos()
        });
        if !is_again && is_asked(args, &event) && !line(args.format.format, &event)? {
            return Ok(());
        }
    }
}
