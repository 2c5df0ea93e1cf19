//! Live data over the control socket.

use super::{Bench, change};
use crate::api::{Action, EventReport, LiveReport};
use crate::clock;
use crate::control::shared::STREAMS_MAX;
use crate::control::{ClientError, LiveMessage};
use crate::limits::LIVE_KEPT;
use iopace_core::time::Nanos;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

/// A stream that is read.
struct Stream {
    answer: BufReader<UnixStream>,
    status: String,
}

/// One message of it.
#[derive(Debug)]
struct Message {
    event: String,
    id: String,
    data: String,
}

impl Stream {
    fn open(bench: &Bench, last: Option<&str>) -> Stream {
        let mut stream = UnixStream::connect(bench.path()).expect("connected");
        let last = last.map(|last| format!("last-event-id: {last}\r\n")).unwrap_or_default();
        // HTTP/1.0: no chunks to be taken apart.
        let asked = format!("GET /v1/live/stream HTTP/1.0\r\nhost: x\r\n{last}\r\n");
        stream.write_all(asked.as_bytes()).expect("sent");
        let mut answer = BufReader::new(stream);
        let mut status = String::new();
        answer.read_line(&mut status).expect("a status");
        Stream { answer, status }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.answer.read_line(&mut line).expect("readable");
        (count > 0).then(|| line.trim_end().to_owned())
    }

    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.answer.read_to_string(&mut rest).expect("readable");
        rest
    }
}

impl Iterator for Stream {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            let line = self.line()?;
            let Some(event) = line.strip_prefix("event: ") else { continue };
            let part = |line: Option<String>, name: &str| {
                let line = line.expect("a whole message");
                line.strip_prefix(name).expect("in order").to_owned()
            };
            let event = event.to_owned();
            let id = part(self.line(), "id: ");
            let data = part(self.line(), "data: ");
            assert_eq!(self.line().as_deref(), Some(""));
            return Some(Message { event, id, data });
        }
    }
}

fn report(message: &Message) -> LiveReport {
    assert_eq!(message.event, "live");
    serde_json::from_str(&message.data).expect("a report")
}

#[test]
fn the_latest_report_and_the_history_are_told() {
    let bench = Bench::new(&["disk", "direct"]);
    let latest = bench.client().live().expect("within a second");
    let names: Vec<&str> = latest.devices.iter().map(|device| &*device.device).collect();
    assert_eq!(names, ["disk", "direct"]);
    assert!(latest.devices[0].pace.is_some() && latest.devices[1].pace.is_none());
    assert_eq!(latest.devices[0].groups[0].group, "/");
    assert!(latest.interval_ns > 0 && latest.uptime_ns >= latest.interval_ns);
    let history = bench.client().live_history(LIVE_KEPT).expect("answered");
    assert!(history.contains(&latest), "{history:?}");
    assert!(history.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
    for wrong in ["history=0", "history=121", "history=x", "history=-1", "histery=1"] {
        let asked = format!("GET /v1/live?{wrong} HTTP/1.1\r\nhost: x\r\n\r\n");
        let answer = bench.raw(asked.as_bytes());
        assert!(answer.contains(" 400 ") && answer.contains("hint"), "{wrong}: {answer}");
    }
}

#[test]
fn a_stream_has_reports_and_events_and_goes_on_where_it_was_cut_off() {
    let begun = clock::now();
    let bench = Bench::new(&["disk"]);
    let mut stream = Stream::open(&bench, None);
    assert!(stream.status.contains(" 200 "), "{}", stream.status);
    let first = report(&stream.next().expect("a report"));
    let insert = change(Action::Insert, Some("rr"), &[]);
    bench.client().change("disk", &insert).expect("inserted");
    let changed = clock::now();
    let event = stream.find(|message| message.event == "event").expect("told");
    let told: EventReport = serde_json::from_str(&event.data).expect("an event");
    assert_eq!((&*told.device, &*told.kind), ("disk", "exchanged"));
    let last = report(&stream.next().expect("a report"));
    assert!(last.sequence > first.sequence);
    if !last.devices[0].inserted {
        // An event is told as it happens, a report some milliseconds after the look: one that has
        // looked before comes behind the event, and says of when it is. No other one does.
        let looked = begun + Nanos(last.uptime_ns);
        assert!(looked <= changed, "{looked:?} is not before {changed:?}: {last:?}");
        assert!(report(&stream.next().expect("one more")).devices[0].inserted);
    }
    drop(stream);

    let missed = EventReport { kind: "missed".into(), ..told };
    bench.live.raise(missed, clock::now());
    let again = Stream::open(&bench, Some(&event.id));
    // All reports since then, and the event.
    let mut sequences = Vec::new();
    for message in again {
        if message.event == "event" {
            assert!(message.data.contains("missed"), "{message:?}");
            break;
        }
        sequences.push(report(&message).sequence);
    }
    assert_eq!(sequences.first(), Some(&last.sequence));
    assert!(sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequences:?}");
}

#[test]
fn streams_beyond_the_bound_are_refused_and_all_end_with_the_server() {
    let bench = Bench::new(&["disk"]);
    let open = || Stream::open(&bench, None);
    let mut all: Vec<Stream> = (0..STREAMS_MAX).map(|_| open()).collect();
    assert!(all.iter().all(|stream| stream.status.contains(" 200 ")));
    for _ in STREAMS_MAX..300 {
        let mut refused = open();
        assert!(refused.status.contains(" 503 "), "{}", refused.status);
        let rest = refused.rest();
        assert!(rest.contains("streams already") && rest.contains("GET /v1/live"), "{rest}");
    }
    // They keep nobody out.
    bench.client().status().expect("served beside them");
    drop(all.split_off(STREAMS_MAX / 2));
    // Room is made when the server sees that they are gone, with the next report.
    while !open().status.contains(" 200 ") {
        bench.client().status().expect("served");
    }
    drop(bench);
    for mut stream in all {
        let rest = stream.rest();
        assert!(rest.contains("text/event-stream") && rest.ends_with("\n\n"), "{rest}");
    }
}

#[test]
fn a_follower_comes_back_to_a_daemon_that_was_started_again() {
    let mut bench = Bench::new(&["disk"]);
    let mut follow = bench.client().follow();
    let sequence = |told| match told {
        LiveMessage::Report(report) => Some(report.sequence),
        LiveMessage::Event(_) => None,
    };
    let first = follow.next_message().expect("a report");
    let before = sequence(first).expect("no event");
    let insert = change(Action::Insert, Some("rr"), &[]);
    bench.client().change("disk", &insert).expect("inserted");
    let event = loop {
        if let LiveMessage::Event(event) = follow.next_message().expect("told") {
            break event;
        }
    };
    assert_eq!((&*event.device, &*event.kind), ("disk", "exchanged"));
    bench.end();
    // What was on its way may come first.
    let lost = loop {
        if let Err(error) = follow.next_message() {
            break error;
        }
    };
    assert!(matches!(lost, ClientError::Ended(_)), "{lost}");
    assert!(matches!(follow.next_message(), Err(ClientError::NoDaemon(_))), "nobody is there");
    bench.begin(&["other"]);
    let report = loop {
        if let Ok(LiveMessage::Report(report)) = follow.next_message() {
            break report;
        }
    };
    assert_eq!(report.devices[0].device, "other", "{before}: of the new daemon");
}

#[test]
fn a_follower_that_is_refused_says_why() {
    let bench = Bench::new(&["disk"]);
    let all: Vec<Stream> = (0..STREAMS_MAX).map(|_| Stream::open(&bench, None)).collect();
    let refused = bench.client().follow().next_message().expect_err("too many");
    assert!(refused.to_string().contains("streams already"), "{refused}");
    drop(all);
}
