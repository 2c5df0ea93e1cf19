//! What was seen and what happened: kept for a while, numbered in one order, and shared.
//!
//! A [`Reader`] is a place in that order. One that keeps up gets everything; a slow one gets the
//! newest report and every event that is still kept, and nobody waits for it.

use super::text::json;
use crate::api::{Activity, EventReport, LiveDevice, LiveGroup, LiveReport};
use crate::clock;
use crate::device::LoggedEvent;
use crate::device::events::Listener;
use crate::limits::{LIVE_EVENTS_KEPT, LIVE_GROUPS_KEPT, LIVE_KEPT};
use crate::report;
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
    /// Memory for that, reserved by who looks: who makes the text had better not ask for much.
    room: Mutex<Vec<u8>>,
    /// The length of the last text that was made before.
    text_bytes: usize,
}

impl Interval {
    /// What everything did.
    pub fn report(&self) -> &LiveReport {
        &self.report
    }

    /// The same as JSON, on one line: of the newest, made once for all.
    pub fn json(&self) -> Bytes {
        self.json_of(self.text_bytes)
    }

    /// The same, of about so many bytes.
    fn json_of(&self, bytes: usize) -> Bytes {
        let make = || {
            // Whoever comes second has to ask for memory, and waits for nobody.
            let room = self.room.try_lock().map(|mut room| std::mem::take(&mut *room));
            let room = room.ok().filter(|room| room.capacity() > 0);
            json(&self.report, room.unwrap_or_else(|| room_for(bytes))).into()
        };
        self.json.as_ref().map_or_else(make, |json| made(json, make))
    }

    /// The length of the last text that was made, of this or of one before.
    fn text_bytes(&self) -> usize {
        self.json.as_ref().and_then(OnceLock::get).map_or(self.text_bytes, Bytes::len)
    }

    /// Where its text is to be.
    #[cfg(test)]
    pub(super) fn place(&self) -> *const u8 {
        self.room.lock().expect("whole").as_ptr()
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
        Interval { number: *number, report, json: None, room: Mutex::default(), text_bytes: 0 }
    }
}

/// Memory for a text that is about as long as another one.
fn room_for(bytes: usize) -> Vec<u8> {
    Vec::with_capacity(bytes + bytes / 8)
}

/// What is there, or is made now. Whoever comes meanwhile makes it as well: who makes it may be one
/// that gets hardly any time, and nobody is to wait for that.
fn made(at: &OnceLock<Bytes>, make: impl FnOnce() -> Bytes) -> Bytes {
    if let Some(made) = at.get() {
        return made.clone();
    }
    let made = make();
    let _ = at.set(made.clone());
    made
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

/// The kept intervals, each as text once somebody has asked.
#[derive(Debug)]
struct Told(Vec<(Arc<Interval>, OnceLock<Bytes>)>);

/// The newest intervals as a JSON list, oldest first.
#[derive(Clone, Debug)]
pub struct History {
    told: Arc<Told>,
    /// The first of them.
    first: usize,
}

impl History {
    /// The text, in pieces that are made as they are taken.
    pub fn pieces(&self) -> impl Iterator<Item = Bytes> + Send + Unpin + use<> {
        let History { told, first } = self.clone();
        let count = told.0.len();
        let mut bytes = 0;
        let text = move |place: usize| {
            let (interval, text) = &told.0[place];
            let begin: &[u8] = if place == first { b"[" } else { b"," };
            let text = made(text, || interval.json_of(bytes));
            bytes = text.len();
            [Bytes::from_static(begin), text]
        };
        let end: &[u8] = if first == count { b"[]" } else { b"]" };
        (first..count).flat_map(text).chain(std::iter::once(Bytes::from_static(end)))
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// Of the newest of all.
    number: u64,
    intervals: VecDeque<Arc<Interval>>,
    /// All of them to be told, once somebody has asked.
    told: Option<Arc<Told>>,
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
    /// Devices whose scheduler does not come to an end, and in words for how long.
    held: Mutex<BTreeMap<String, String>>,
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
        Hub { run, kept: Mutex::default(), newest: watch::Sender::new(0), held: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, report: LiveReport) {
        // Nobody else adds any. What is left of the last is copied, and what it was is freed,
        // without the lock.
        let last = self.latest();
        let former = last.as_ref().map(|last| Arc::new(last.former()));
        let text_bytes = last.as_ref().map_or(0, |last| last.text_bytes());
        let room = Mutex::new(room_for(text_bytes));
        let mut kept = self.lock();
        kept.number += 1;
        let number = kept.number;
        let full = kept.intervals.len() == LIVE_KEPT;
        let first = if full { kept.intervals.pop_front() } else { None };
        if let (Some(last), Some(former)) = (kept.intervals.back_mut(), former) {
            *last = former;
        }
        let told = kept.told.take();
        let json = Some(OnceLock::new());
        let interval = Interval { number, report, json, room, text_bytes };
        kept.intervals.push_back(Arc::new(interval));
        drop(kept);
        drop((first, last, told));
        self.newest.send_replace(number);
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

    /// The scheduler of that device does not come to an end, or has come to one.
    pub(super) fn hold(&self, device: &str, text: Option<&str>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => _ = held.insert(device.into(), text.into()),
            None => _ = held.remove(device),
        }
    }

    /// A device whose scheduler does not come to an end, with that in words: whoever asks for its
    /// lock waits as well.
    pub fn held(&self) -> Option<(String, String)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().next().map(|(device, text)| (device.clone(), text.clone()))
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

    /// The newest intervals, so many at most, oldest first, as a JSON list: each text is made once
    /// after each interval, whoever asks for how much of it.
    pub fn told(&self, most: usize) -> History {
        let mut kept = self.lock();
        let Kept { intervals, told, .. } = &mut *kept;
        let all = || intervals.iter().map(|one| (Arc::clone(one), OnceLock::new())).collect();
        let told = Arc::clone(told.get_or_insert_with(|| Arc::new(Told(all()))));
        History { first: told.0.len().saturating_sub(most), told }
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

impl Listener for Hub {
    fn happened(&self, device: &str, event: &LoggedEvent) {
        self.raise(report::event(device, event, event.at), event.at);
    }
}
