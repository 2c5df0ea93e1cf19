//! Looks at a device in steps of virtual time: what is dirty against its thresholds, the rates, the
//! window, and every pause of a writer.

use crate::look::{Look, Pause};
use crate::milli::Milli;
use crate::record::{Recorder, Recording};
use crate::tally::ms;
use crate::task::Action;
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_disk::modelled::Machine;
use iopace_disk::pump::End;

pub mod plot;
pub mod png;

/// Most pauses kept: more would not be told apart in a picture of a thousand pixels.
pub const PAUSES_MAX: usize = 100_000;

/// All looks and pauses of a run.
#[derive(Clone, Debug, Default)]
pub struct RunTrace {
    /// In order of time.
    pub looks: Vec<Look>,
    /// In order of time; the first [`PAUSES_MAX`].
    pub pauses: Vec<Pause>,
    /// Every single pause before a portion of a write, of which a pause above may have several.
    pub portion_pauses: Histogram,
    /// What tasks did, if that was recorded.
    pub recording: Option<Recording>,
}

/// The columns of a trace as CSV: names with their units.
const COLUMNS: &str = "at_ms,dirty_bytes,freerun_bytes,setpoint_bytes,limit_bytes,\
                       write_bandwidth_bytes_s,dirty_rate_bytes_s,base_rate_bytes_s,\
                       balanced_rate_bytes_s,task_rate_bytes_s,position_permille,pause_ms,\
                       window_depth,write_back_depth,write_back_gap_ms,latency_ms,\
                       quiet_latency_ms,in_flight,queued,paced";

/// The figures of a look in the order of [`COLUMNS`].
fn figures(look: &Look) -> [Milli; 20] {
    let whole = |n: u64| Milli(i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(1_000));
    let (pace, window) = (&look.pace, &look.window);
    [
        ms(look.at.since(Instant::ZERO)),
        whole(pace.dirty.0),
        whole(pace.freerun.0),
        whole(pace.setpoint.0),
        whole(pace.limit.0),
        whole(pace.write_bandwidth.0),
        whole(pace.dirty_rate.0),
        whole(pace.base_rate.0),
        whole(pace.balanced_rate.0),
        whole(pace.task_rate.0),
        whole(u64::from(pace.position_permille)),
        ms(pace.pause),
        whole(u64::from(window.depth)),
        whole(u64::from(window.write_back_depth)),
        ms(window.write_back_gap),
        ms(window.latency),
        ms(window.quiet_latency),
        whole(look.in_flight_count as u64),
        whole(look.queued_count as u64),
        whole(look.paced_count as u64),
    ]
}

impl RunTrace {
    /// The looks as comma-separated values, with a header line.
    pub fn csv(&self) -> String {
        let mut text = format!("{COLUMNS}\n");
        for look in &self.looks {
            let figures: Vec<String> = figures(look).iter().map(Milli::to_string).collect();
            text.push_str(&figures.join(","));
            text.push('\n');
        }
        text
    }

    /// The looks as a JSON array, one object per look with the names of the CSV.
    pub fn json(&self) -> String {
        let names: Vec<&str> = COLUMNS.split(',').collect();
        let object = |look: &Look| {
            let pairs = names.iter().zip(figures(look));
            let fields: Vec<String> =
                pairs.map(|(name, value)| format!("\"{name}\": {value}")).collect();
            format!("  {{{}}}", fields.join(", "))
        };
        let objects: Vec<String> = self.looks.iter().map(object).collect();
        format!("[\n{}\n]\n", objects.join(",\n"))
    }
}

/// A trace being made.
#[derive(Debug)]
pub(crate) struct Tracing {
    every: Nanos,
    next: Instant,
    trace: RunTrace,
    recorder: Option<Recorder>,
}

impl Tracing {
    pub(crate) fn new(every: Nanos) -> Tracing {
        let (every, trace) = (every.max(Nanos(1)), RunTrace::default());
        Tracing { every, next: Instant::ZERO, trace, recorder: None }
    }

    /// Looks in the steps of a recording, and makes it.
    pub(crate) fn recording(recorder: Recorder) -> Tracing {
        let tracing = Tracing::new(recorder.step());
        Tracing { recorder: Some(recorder), ..tracing }
    }

    /// The device stays as it is until `until`: takes all looks that are due before that.
    pub(crate) fn look(&mut self, until: Instant, machine: &Machine) {
        while self.next < until {
            if self.recorder.as_ref().is_some_and(|one| one.is_full(self.trace.looks.len())) {
                self.double();
            }
            let engine = machine.engine();
            let status = engine.status();
            self.trace.looks.push(Look {
                at: self.next,
                pace: engine.pace_picture(),
                window: engine.window_picture(),
                in_flight_count: status.in_flight_count,
                queued_count: status.queued_count + status.waiting_count,
                paced_count: status.paced_count,
                reason: status.reason,
                disk_busy: machine.backend().disk().stats().busy,
            });
            self.next = self.next + self.every;
        }
    }

    /// Makes one step of two: every second look goes.
    fn double(&mut self) {
        let mut number = 0u64;
        self.trace.looks.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.every = Nanos(self.every.0.saturating_mul(2));
        self.next = Instant::ZERO + Nanos(self.every.0 * self.trace.looks.len() as u64);
        self.recorder.iter_mut().for_each(Recorder::double);
    }

    /// A task takes notice of a request that it submitted `latency` ago.
    pub(crate) fn booked(
        &mut self,
        at: Instant,
        task: usize,
        action: &Action,
        latency: Nanos,
        finished: &End,
    ) {
        if let Some(recorder) = &mut self.recorder {
            return recorder.booked(at, task, action, latency, finished);
        }
        let pause = finished.times.pace();
        if pause > Nanos::ZERO && self.trace.pauses.len() < PAUSES_MAX {
            self.trace.pauses.push(Pause { at, task, pause });
        }
    }

    /// A request of a task still waits at the end of the run.
    pub(crate) fn unfinished(&mut self, task: usize, so_far: Nanos) {
        if let Some(recorder) = &mut self.recorder {
            recorder.unfinished(task, so_far);
        }
    }

    pub(crate) fn end(mut self) -> RunTrace {
        if let Some(recorder) = self.recorder {
            self.trace.recording = Some(recorder.end(std::mem::take(&mut self.trace.looks)));
        }
        self.trace
    }
}
