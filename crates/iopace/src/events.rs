//! `iopace events`: what happened to devices and promises, and what happens.

use crate::cli::EventsArgs;
use crate::machine::{Machine, Member};
use crate::output::{
    Failure, Format, finish, note, print, print_json, print_json_line, print_on, right, table,
};
use crate::running::Sought;
use crate::units::time;
use iopace_core::time::Nanos;
use iopace_daemon::api::EventReport;
use iopace_daemon::control::{Client, ClientError, LiveMessage};
use iopace_daemon::printable;
use jiff::{SignedDuration, Zoned};
use std::cmp::Reverse;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

/// Messages that wait to be printed; a daemon that has more waits itself.
const MESSAGES_MAX: usize = 16;

/// The same event is told with ages that differ by the time on the way only.
const NEAR: Nanos = Nanos::from_millis(500);

/// Carries out the command.
///
/// # Errors
/// No daemon.
pub fn run(args: &EventsArgs) -> Result<(), Failure> {
    let sought = Sought { device: args.device.as_deref(), ..Sought::default() };
    let machine = Machine::find(args.control.as_deref(), sought)?;
    // The stream first, so that nothing falls between it and the list.
    let stream = args.follow.then(|| Stream::open(&machine)).transpose()?;
    let mut events = Vec::new();
    for (member, told) in machine.ask(Client::events)? {
        let is_asked = |event: &EventReport| is_asked(&machine, &event.device);
        let of_one = told.into_iter().filter(is_asked);
        events.extend(of_one.map(|event| renamed(member, event)));
    }
    events.sort_by_key(|event| Reverse(event.age_ns));
    let listed_at = Instant::now();
    match (stream, args.format.format) {
        (None, Format::Json) => print_json(&events),
        (None, Format::Table) => print(&listed(&events)),
        (Some(stream), format) => {
            for event in &events {
                if !line(format, event)? {
                    return Ok(());
                }
            }
            follow((&machine, format), stream, &events, listed_at)
        }
    }
}

fn renamed(member: &Member, event: EventReport) -> EventReport {
    EventReport { device: member.shown(&event.device), ..event }
}

/// The events of all daemons as they come.
struct Stream {
    said: Receiver<(Member, Result<LiveMessage, ClientError>)>,
    running_count: usize,
}

impl Stream {
    fn open(machine: &Machine) -> Result<Stream, Failure> {
        let (sender, said) = sync_channel(MESSAGES_MAX);
        let (mut running_count, mut refusal) = (0, None);
        for member in machine.members() {
            let mut stream = match member.client.live_stream(None) {
                Ok(stream) => stream,
                Err(error) => {
                    if !machine.is_one() {
                        member.leave_out(&error);
                    }
                    refusal = Some(error);
                    continue;
                }
            };
            running_count += 1;
            let (sender, member) = (sender.clone(), member.clone());
            thread::spawn(move || {
                loop {
                    let message = stream.next_message();
                    let is_last = message.is_err();
                    if sender.send((member.clone(), message)).is_err() || is_last {
                        return;
                    }
                }
            });
        }
        match refusal {
            Some(error) if running_count == 0 => Err(Failure::new(error)),
            _ => Ok(Stream { said, running_count }),
        }
    }
}

/// Whether a device, by the name that its daemon gives it, was asked about.
fn is_asked(machine: &Machine, own: &str) -> bool {
    machine.device().is_none_or(|device| device == own)
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
    (machine, format): (&Machine, Format),
    stream: Stream,
    printed: &[EventReport],
    listed_at: Instant,
) -> Result<(), Failure> {
    let Stream { said, mut running_count } = stream;
    // It ends when all daemons have.
    while let Ok((member, message)) = said.recv() {
        let own = match message {
            Ok(LiveMessage::Event(event)) => event,
            Ok(LiveMessage::Report(_)) => continue,
            Err(error) => {
                let path = member.client.path().display().to_string();
                let text = match error {
                    ClientError::Ended(_) => format!("{path}: the daemon has ended"),
                    error => error.to_string(),
                };
                running_count -= 1;
                if running_count == 0 {
                    return Err(Failure::new(text));
                }
                note(format_args!("{text}"));
                continue;
            }
        };
        if !is_asked(machine, &own.device) {
            continue;
        }
        let event = renamed(&member, own);
        let since = u64::try_from(listed_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let is_again = printed.iter().any(|one| {
            let is_same =
                (&one.device, &one.kind, &one.text) == (&event.device, &event.kind, &event.text);
            let age_ns = one.age_ns.saturating_add(since);
            is_same && age_ns.abs_diff(event.age_ns) < NEAR.as_nanos()
        });
        if !is_again && !line(format, &event)? {
            return Ok(());
        }
    }
    Err(Failure::new("there is no daemon any more"))
}
