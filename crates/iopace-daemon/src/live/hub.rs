//! What was seen and what happened: kept for a while, numbered in one order, and shared.
//!
//! A [`Reader`] is a place in that order. One that keeps up gets everything; a slow one gets the
//! newest report and every event that is still kept, and nobody waits for it.

use crate::clock;
use crate::control::api::{Activity, EventReport, LiveDevice, LiveGroup, LiveReport};
use crate::control::report;
use crate::device::LoggedEvent;
use crate::limits::{LIVE_EVENTS_KEPT, LIVE_GROUPS_KEPT, LIVE_KEPT};
use axum::body::Bytes;
use iopace_core::time::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::watch;

/// An interval that was looked at.
#[derive(Debug)]
pub struct Interval {
    number: u64,
    report: LiveReport,
    /// Kept of the newest only.
    json: Option<OnceLock<Bytes>>,
}

impl Interval {
    /// What everything did.
    pub fn report(&self) -> &LiveReport {
        &self.report
    }

    /// The same as JSON, on one line: of the newest, made once for all.
    pub fn json(&self) -> Bytes {
        let make = || serde_json::to_vec(&self.report).expect("strings, numbers and lists").into();
        match &self.json {
            Some(json) => json.get_or_init(make).clone(),
            None => make(),
        }
    }

    /// The same for the time when there is a newer one: without text, and with fewer groups.
    fn former(&self) -> Interval {
        let Interval { number, report, .. } = self;
        let former = report.devices.iter().map(|device| LiveDevice {
            groups: fewer(&device.groups),
            groups_left_out_count: device.groups_left_out_count
                + device.groups.len().saturating_sub(LIVE_GROUPS_KEPT),
            ..device.clone()
        });
        let report = LiveReport { devices: former.collect(), ..*report };
        Interval { number: *number, report, json: None }
    }
}

/// Those that moved most, with all above them, in their order. A group moved what those below it
/// did, so that it comes before them.
fn fewer(groups: &[LiveGroup]) -> Vec<LiveGroup> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    let moved = |place: &usize| {
        let activity = &groups[*place].activity;
        let Activity { read, write, buffered, .. } = activity;
        Reverse(u128::from(read.bytes_s) + u128::from(write.bytes_s.max(buffered.bytes_s)))
    };
    order.sort_by_key(|place| (moved(place), *place));
    order.truncate(LIVE_GROUPS_KEPT);
    order.sort_unstable();
    order.into_iter().map(|place| groups[place].clone()).collect()
}

#[derive(Debug)]
struct Happened {
    number: u64,
    at: Instant,
    report: EventReport,
}

/// What is told one after the other.
#[derive(Clone, Debug)]
pub enum Item {
    /// An interval is over.
    Interval(Arc<Interval>),
    /// Something happened.
    Event(EventReport),
}

/// The kept intervals as a JSON list.
#[derive(Debug)]
struct Told {
    text: Bytes,
    /// Where each begins.
    starts: Vec<usize>,
}

impl Told {
    fn new(intervals: &VecDeque<Arc<Interval>>) -> Told {
        let (mut text, mut starts) = (Vec::from(b"["), Vec::with_capacity(intervals.len()));
        for interval in intervals {
            if !starts.is_empty() {
                text.push(b',');
            }
            starts.push(text.len());
            text.extend_from_slice(&interval.json());
        }
        text.push(b']');
        Told { text: text.into(), starts }
    }

    /// The last ones, so many at most; all of them are shared.
    fn last(&self, most: usize) -> Bytes {
        match self.starts.len().checked_sub(most).filter(|first| *first > 0) {
            None => self.text.clone(),
            Some(first) => {
                let rest = self.starts.get(first).map_or(&b"]"[..], |start| &self.text[*start..]);
                [b"[", rest].concat().into()
            }
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// Of the newest of all.
    number: u64,
    intervals: VecDeque<Arc<Interval>>,
    /// All of them as text, once somebody has asked.
    told: Arc<OnceLock<Told>>,
    events: VecDeque<Happened>,
    /// How many there were since the start, by device and kind.
    events_count: BTreeMap<(String, String), u64>,
}

impl Kept {
    /// The next after `place`, with its number; intervals that a newer one has made stale are
    /// passed over, except up to `whole`.
    fn next(&self, place: u64, whole: u64) -> Option<(u64, Item)> {
        let event = self.events.iter().find(|event| event.number > place);
        let is_next = |interval: &&Arc<Interval>| interval.number > place;
        let interval = match place < whole {
            true => self.intervals.iter().find(is_next),
            false => self.intervals.back().filter(is_next),
        };
        match (interval, event) {
            (Some(interval), event) if event.is_none_or(|event| interval.number < event.number) => {
                Some((interval.number, Item::Interval(Arc::clone(interval))))
            }
            (_, Some(Happened { number, at, report })) => {
                let age_ns = clock::now().since(*at).as_nanos();
                Some((*number, Item::Event(EventReport { age_ns, ..report.clone() })))
            }
            _ => None,
        }
    }
}

/// What was seen and what happened.
#[derive(Debug)]
pub struct Hub {
    run: Run,
    kept: Mutex<Kept>,
    /// The number of the newest.
    newest: watch::Sender<u64>,
}

/// Tells the runs of daemons apart, so that nobody goes on with the numbers of a former one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run(u64);

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl Hub {
    pub(super) fn new() -> Hub {
        let run = Run(clock::since_boot().as_nanos());
        Hub { run, kept: Mutex::default(), newest: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, report: LiveReport) {
        let mut kept = self.lock();
        kept.number += 1;
        let number = kept.number;
        if kept.intervals.len() == LIVE_KEPT {
            kept.intervals.pop_front();
        }
        if let Some(last) = kept.intervals.back_mut() {
            *last = Arc::new(last.former());
        }
        kept.told = Arc::default();
        let json = Some(OnceLock::new());
        kept.intervals.push_back(Arc::new(Interval { number, report, json }));
        drop(kept);
        self.newest.send_replace(number);
    }

    pub(crate) fn happened(&self, device: &str, logged: &LoggedEvent) {
        self.raise(report::event(device, logged, logged.at), logged.at);
    }

    /// Tells all who listen of something that happened `at` that time.
    pub fn raise(&self, report: EventReport, at: Instant) {
        let mut kept = self.lock();
        kept.number += 1;
        let number = kept.number;
        if kept.events.len() == LIVE_EVENTS_KEPT {
            kept.events.pop_front();
        }
        *kept.events_count.entry((report.device.clone(), report.kind.clone())).or_default() += 1;
        kept.events.push_back(Happened { number, at, report });
        drop(kept);
        self.newest.send_replace(number);
    }

    /// How many events there were since the start, by device and kind.
    pub fn events_count(&self) -> BTreeMap<(String, String), u64> {
        self.lock().events_count.clone()
    }

    /// The events that are kept, oldest first.
    pub fn events(&self) -> Vec<EventReport> {
        let kept = self.lock();
        let aged = |event: &Happened| {
            let age_ns = clock::now().since(event.at).as_nanos();
            EventReport { age_ns, ..event.report.clone() }
        };
        kept.events.iter().map(aged).collect()
    }

    /// The newest interval; none within the first second.
    pub fn latest(&self) -> Option<Arc<Interval>> {
        self.lock().intervals.back().cloned()
    }

    /// The newest intervals, so many at most, oldest first.
    pub fn history(&self, most: usize) -> Vec<Arc<Interval>> {
        let kept = self.lock();
        let first = kept.intervals.len().saturating_sub(most);
        kept.intervals.iter().skip(first).cloned().collect()
    }

    /// The newest intervals, so many at most, oldest first, as a JSON list: the text is made once
    /// after each interval, whoever asks for how much of it.
    pub fn history_json(&self, most: usize) -> Bytes {
        let kept = self.lock();
        let (intervals, told) = (kept.intervals.clone(), Arc::clone(&kept.told));
        drop(kept);
        told.get_or_init(|| Told::new(&intervals)).last(most)
    }

    /// A reader that begins with the newest interval, or where `last`, an id that [`Reader::id`]
    /// gave in this run, has ended: then with all that is kept of what came since.
    pub fn reader(self: &Arc<Self>, last: Option<&str>) -> Reader {
        let newest = self.newest.subscribe();
        let kept = self.lock();
        let resumed = last.and_then(|last| {
            let (run, number) = last.split_once('-')?;
            let number: u64 = number.parse().ok()?;
            (run == self.run.to_string() && number <= kept.number).then_some(number)
        });
        // One that is new has no use for events before its first report.
        let new = kept.intervals.back().map_or(kept.number, |interval| interval.number - 1);
        let (place, whole) = resumed.map_or((new, 0), |number| (number, kept.number));
        drop(kept);
        Reader { hub: Arc::clone(self), newest, place, whole }
    }
}

/// A place in the order of what is told.
#[derive(Debug)]
pub struct Reader {
    hub: Arc<Hub>,
    newest: watch::Receiver<u64>,
    /// The number of what was read last.
    place: u64,
    /// Up to here no interval is passed over.
    whole: u64,
}

impl Reader {
    /// What comes next, if it is there.
    pub fn try_next(&mut self) -> Option<Item> {
        let (number, item) = self.hub.lock().next(self.place, self.whole)?;
        self.place = number;
        Some(item)
    }

    /// Waits for what comes next; dropping the wait loses nothing.
    pub async fn next(&mut self) -> Item {
        loop {
            self.newest.mark_unchanged();
            if let Some(item) = self.try_next() {
                return item;
            }
            if self.newest.changed().await.is_err() {
                // Never: the hub is ours as well.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The place, to go on there later.
    pub fn id(&self) -> String {
        format!("{}-{}", self.hub.run, self.place)
    }
}
