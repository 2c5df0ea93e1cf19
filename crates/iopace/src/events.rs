//! `iopace events`: what happened to devices and promises, and what happens.

use crate::cli::EventsArgs;
use crate::group::client_at;
use crate::output::{Failure, Format, finish, print, print_json, right, table};
use crate::units::time;
use iopace_core::time::Nanos;
use iopace_daemon::control::api::EventReport;
use iopace_daemon::control::{Client, ClientError, LiveMessage};
use jiff::{SignedDuration, Zoned};

/// What came within so long before a stream began may be in the list and in the stream.
const OVERLAP: Nanos = Nanos::from_secs(3);

/// Carries out the command.
///
/// # Errors
/// No daemon.
pub fn run(args: &EventsArgs) -> Result<(), Failure> {
    let client = client_at(args.control.as_deref())?;
    let mut events = client.events().map_err(Failure::new)?;
    events.retain(|event| is_asked(args, event));
    match (args.follow, args.format.format) {
        (false, Format::Json) => return print_json(&events),
        (false, Format::Table) => return print(&listed(&events)),
        (true, format) => events.iter().try_for_each(|event| line(format, event))?,
    }
    follow(args, &client, &events)
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

fn line(format: Format, event: &EventReport) -> Result<(), Failure> {
    match format {
        Format::Json => {
            let text = serde_json::to_string(event).expect("strings and numbers");
            print(&format!("{text}\n"))
        }
        Format::Table => {
            let EventReport { device, kind, text, .. } = event;
            print(&format!("{} {device} {kind}: {text}\n", when(event)))
        }
    }
}

/// Prints what comes, but not again what was printed.
fn follow(args: &EventsArgs, client: &Client, printed: &[EventReport]) -> Result<(), Failure> {
    let is_late = |event: &&EventReport| event.age_ns < OVERLAP.as_nanos();
    let mut known: Vec<EventReport> = printed.iter().filter(is_late).cloned().collect();
    let mut stream = client.live_stream(None).map_err(Failure::new)?;
    loop {
        let event = match stream.next_message() {
            Ok(LiveMessage::Event(event)) => event,
            Ok(LiveMessage::Report(_)) => continue,
            Err(ClientError::Ended(_)) => return Err(Failure::new("the daemon has ended")),
            Err(error) => return Err(Failure::new(error)),
        };
        let again = known.iter().position(|one| {
            (&one.device, &one.kind, &one.text) == (&event.device, &event.kind, &event.text)
        });
        if let Some(place) = again {
            known.remove(place);
        } else if is_asked(args, &event) {
            line(args.format.format, &event)?;
        }
    }
}
