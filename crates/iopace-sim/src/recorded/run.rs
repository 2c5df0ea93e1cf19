//! One replay under way: its passes over the recording.

use super::load::{Again, RecordedLoad};
use super::report::Times;
use crate::run::GIVE_UP;
use iopace_core::request::{Outcome, TaskId};
use iopace_core::shadow::{Asked, ClosedLoop};
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Event;
use iopace_disk::modelled::Modelled;
use iopace_disk::pump::{End, Pump};
use std::collections::BTreeMap;

/// A pass over the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// To its end: tasks that have asked for all of it leave the others alone, so that the
    /// scheduler learns what they have alone.
    Learn,
    /// Until a task has asked for all that was recorded of it: caches and queues are full then.
    Fill,
    /// It counts.
    Count,
}

/// Requests that came up to so long before the recording come when they came, so that tasks keep
/// step with each other; the others, which waited longer, at the beginning.
const BEFORE_MAX: i64 = 1_000_000;

/// The device of a replay.
pub(super) type Device = Pump<Modelled<Again>>;

/// Carries a replay out: the times of the requests by place in the file, and until when the load
/// was the recorded one.
pub(super) fn carry_out(
    load: &RecordedLoad<'_>,
    device: Device,
) -> Result<(Vec<Option<Times>>, Nanos), String> {
    let mut run = Run::new(load, device);
    for pass in [Pass::Learn, Pass::Fill, Pass::Count] {
        run.drain()?;
        run.pass(pass)?;
        run.pass_count += 1;
    }
    // Those that came and have not ended count as well: they have waited longest.
    run.drain()?;
    Ok((run.times, run.same_until))
}

/// A replay under way.
struct Run<'a> {
    load: &'a RecordedLoad<'a>,
    device: Device,
    clients: ClosedLoop,
    /// When the present pass began.
    since: Instant,
    now: Instant,
    under_way_count: usize,
    /// Passes before the present one.
    pass_count: u64,
    /// By place: when it came, and when it ended, since the beginning of the pass.
    times: Vec<Option<Times>>,
    came: Vec<Instant>,
    /// Of tasks that were there until the end: requests that have not ended in this pass.
    left: BTreeMap<TaskId, usize>,
    /// Until then, in this pass, the load is the recorded one.
    same_until: Nanos,
    /// When the device wants to be asked again.
    device_at: Instant,
    ended: Vec<(Again, End)>,
}

impl<'a> Run<'a> {
    fn new(load: &'a RecordedLoad<'a>, device: Device) -> Run<'a> {
        let count = load.file.requests.len();
        Run {
            load,
            device,
            clients: ClosedLoop::default(),
            since: Instant::ZERO,
            now: Instant::ZERO,
            under_way_count: 0,
            pass_count: 0,
            times: Vec::new(),
            came: vec![Instant::ZERO; count],
            left: BTreeMap::new(),
            same_until: Nanos::ZERO,
            // What was set is looked at first.
            device_at: Instant::ZERO,
            ended: Vec::new(),
        }
    }

    /// One pass over the recording.
    fn pass(&mut self, pass: Pass) -> Result<(), String> {
        let file = self.load.file;
        let before = BEFORE_MAX;
        let at = |time: i64| Instant::ZERO + Nanos((time + before).max(0).cast_unsigned());
        // It came before, and waited longer.
        let came = |time: i64| if time < -before { at(0) } else { at(time) };
        let asked = file.requests.iter().enumerate().filter(|(_, one)| one.is_of_client());
        let asked = asked.map(|(place, one)| {
            let (arrived, ended) = (came(one.arrived_ns), at(one.done_ns));
            Asked { place, task: TaskId(one.task), arrived, ended }
        });
        self.clients = ClosedLoop::new(Instant::ZERO, asked);
        self.clients.come_later(self.now.since(Instant::ZERO));
        self.since = self.now + Nanos(before.unsigned_abs());
        self.times = vec![None; file.requests.len()];
        let until = self.since + Nanos(file.length_ns());
        self.left = self.load.constant.clone();
        self.same_until = Nanos(file.length_ns());
        while self.device_at.min(self.clients.next()) <= until {
            self.step()?;
            if self.left.values().any(|count| *count == 0) {
                if pass == Pass::Fill {
                    return Ok(());
                }
                self.left.clear();
                self.same_until = self.now.since(self.since);
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// The requests that the pass before has left end, and nothing comes.
    fn drain(&mut self) -> Result<(), String> {
        self.clients = ClosedLoop::default();
        let begun = self.now;
        while self.under_way_count > 0 {
            if self.device_at.since(begun) > GIVE_UP {
                return Err("requests do not end in the replay: try another scheduler".into());
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.now = self.now.max(self.device_at.min(self.clients.next()));
        let now = self.now;
        while let Some(place) = self.clients.pop(now) {
            self.came[place] = now;
            self.under_way_count += 1;
            self.device.submit(now, self.load.again(place, self.pass_count), &mut self.ended);
        }
        let mut failed = None;
        self.device_at = self.device.drain(now, &mut self.ended, |event| {
            if matches!(*event, Event::SchedulerFailed { .. }) {
                failed = Some(event);
            }
        });
        if let Some(event) = failed {
            return Err(format!("the scheduler failed in the replay: {event}"));
        }
        for (again, end) in std::mem::take(&mut self.ended) {
            self.under_way_count -= 1;
            let task = again.io.submit.task;
            self.clients.ended(now, task);
            self.left.entry(task).and_modify(|count| *count = count.saturating_sub(1));
            if end.outcome == Outcome::Ok {
                let came = self.came[again.place].since(self.since);
                self.times[again.place] = Some(Times { came, ended: now.since(self.since) });
            }
        }
        Ok(())
    }
}
