//! The reports of all daemons as they come, made into one of all devices a second.

use super::{Machine, Member};
use iopace_daemon::api::LiveReport;
use iopace_daemon::clock;
use iopace_daemon::control::{ClientError, LiveMessage};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Messages that wait to be seen; a daemon that has more waits itself.
const MESSAGES_MAX: usize = 16;

/// A message of a daemon, with its place among them.
type Said = (usize, Result<LiveMessage, ClientError>);

/// The reports and events of all daemons, across their restarts.
pub struct Follow {
    said: Receiver<Said>,
    merge: Merge,
}

impl Machine {
    /// Follows all daemons.
    pub fn follow(&self) -> Follow {
        let (sender, said) = sync_channel(MESSAGES_MAX);
        for (place, member) in self.members().iter().enumerate() {
            let (sender, mut follow) = (sender.clone(), member.client.follow());
            // It ends with the program, or when nobody wants to know any more.
            thread::spawn(move || while sender.send((place, follow.next_message())).is_ok() {});
        }
        Follow { said, merge: Merge::new(self.members().to_vec()) }
    }
}

impl Follow {
    /// Waits for the next message.
    ///
    /// # Errors
    /// No daemon can be reached; the next call tries again.
    pub fn next_message(&mut self) -> Result<LiveMessage, ClientError> {
        loop {
            let (place, message) = self.said.recv().expect("the threads send for ever");
            if let Some(told) = self.merge.take(place, message) {
                return told;
            }
        }
    }
}

/// Reports of several daemons made into one.
struct Merge {
    members: Vec<Member>,
    /// The newest report of each; none of one that is lost.
    newest: Vec<Option<LiveReport>>,
    /// Whether the report of each is newer than the last that was told.
    is_fresh: Vec<bool>,
    /// Whether each is lost, and not waited for.
    is_lost: Vec<bool>,
    /// How many were told, and the uptime of the first with when that was.
    told_count: u64,
    begin: Option<(u64, iopace_core::time::Instant)>,
}

impl Merge {
    fn new(members: Vec<Member>) -> Merge {
        let count = members.len();
        Merge {
            members,
            newest: vec![None; count],
            is_fresh: vec![false; count],
            is_lost: vec![false; count],
            told_count: 0,
            begin: None,
        }
    }

    /// Takes a message; what is to be told then.
    fn take(
        &mut self,
        place: usize,
        message: Result<LiveMessage, ClientError>,
    ) -> Option<Result<LiveMessage, ClientError>> {
        if self.members.len() == 1 {
            return Some(message);
        }
        match message {
            Ok(LiveMessage::Event(mut event)) => {
                event.device = self.members[place].shown(&event.device);
                Some(Ok(LiveMessage::Event(event)))
            }
            Ok(LiveMessage::Report(report)) => {
                // A second one of the same daemon: the others are late.
                let late = self.is_fresh[place].then(|| self.told()).flatten();
                let mut report = *report;
                for device in &mut report.devices {
                    device.device = self.members[place].shown(&device.device);
                }
                self.newest[place] = Some(report);
                (self.is_fresh[place], self.is_lost[place]) = (true, false);
                let mut all = self.is_lost.iter().zip(&self.is_fresh);
                let is_whole = all.all(|(is_lost, is_fresh)| *is_lost || *is_fresh);
                late.or_else(|| is_whole.then(|| self.told()).flatten())
                    .map(|report| Ok(LiveMessage::Report(Box::new(report))))
            }
            Err(error) => {
                (self.newest[place], self.is_fresh[place]) = (None, false);
                self.is_lost[place] = true;
                self.is_lost.iter().all(|is_lost| *is_lost).then_some(Err(error))
            }
        }
    }

    /// One report of all.
    fn told(&mut self) -> Option<LiveReport> {
        self.is_fresh.fill(false);
        let all = self.newest.iter().flatten();
        let uptime_ns = all.clone().map(|report| report.uptime_ns).max()?;
        let interval_ns = all.clone().map(|report| report.interval_ns).max()?;
        let devices = all.flat_map(|report| report.devices.iter().cloned()).collect();
        let now = clock::now();
        // The daemon that has run longest may end.
        let (uptime_ns, at) = *self.begin.get_or_insert((uptime_ns, now));
        self.told_count += 1;
        Some(LiveReport {
            sequence: self.told_count,
            uptime_ns: uptime_ns + now.since(at).as_nanos(),
            interval_ns,
            devices,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_daemon::api::EventReport;
    use iopace_daemon::control::Client;

    fn machine() -> Merge {
        let member = |path: &str| Member {
            client: Client::new(path),
            names: vec![("disk".into(), format!("{path}:disk"))],
        };
        Merge::new(vec![member("a"), member("b")])
    }

    fn report(sequence: u64) -> LiveMessage {
        let mut report = crate::top::samples::report();
        report.sequence = sequence;
        report.devices.truncate(1);
        report.devices[0].device = "disk".into();
        LiveMessage::Report(Box::new(report))
    }

    fn devices(told: Option<Result<LiveMessage, ClientError>>) -> Vec<String> {
        match told {
            Some(Ok(LiveMessage::Report(report))) => {
                report.devices.iter().map(|device| device.device.clone()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_report_has_the_devices_of_all_daemons() {
        let mut merge = machine();
        assert!(merge.take(0, Ok(report(5))).is_none(), "the other is waited for");
        assert_eq!(devices(merge.take(1, Ok(report(90)))), ["a:disk", "b:disk"]);
        assert!(merge.take(0, Ok(report(6))).is_none());
        assert_eq!(devices(merge.take(0, Ok(report(7)))), ["a:disk", "b:disk"], "not for ever");
    }

    #[test]
    fn an_event_names_the_device_as_it_is_shown() {
        let mut merge = machine();
        let event = EventReport {
            device: "disk".into(),
            age_ns: 0,
            kind: "exchanged".into(),
            text: String::new(),
        };
        let told = merge.take(1, Ok(LiveMessage::Event(event)));
        let Some(Ok(LiveMessage::Event(event))) = told else { panic!("{told:?}") };
        assert_eq!(event.device, "b:disk");
    }

    #[test]
    fn only_when_all_daemons_are_lost_it_is_an_error() {
        let mut merge = machine();
        merge.take(0, Ok(report(1)));
        merge.take(1, Ok(report(1)));
        let lost = |path: &str| Err(ClientError::Ended(path.into()));
        assert!(merge.take(0, lost("a")).is_none());
        assert_eq!(devices(merge.take(1, Ok(report(2)))), ["b:disk"]);
        assert!(matches!(merge.take(1, lost("b")), Some(Err(_))));
    }
}
