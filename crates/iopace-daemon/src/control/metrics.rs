//! What a daemon did, in the text format of OpenMetrics, for Prometheus and its like.
//!
//! Everything is read at the moment of the scrape; nothing is kept for it. Names, labels and units
//! are listed in `docs/metrics.md` and stay as they are. Histograms have classic buckets: native
//! ones exist in Prometheus' protobuf format only, not in its texts.
//!
//! ```text
//!   gather.rs  copies, briefly under each lock ──► samples.rs  of one family and some groups
//!                                                     │  again and again
//!                                                     ▼
//!   classic.rs  for those who ask for text/plain ◄─ pieces.rs  the text, without a lock
//! ```

mod classic;
mod families;
mod gather;
mod pieces;
mod samples;

pub use families::{FAMILIES, Family, Kind};

use super::Controlled;
use super::turns::Turn;
use axum::body::Bytes;
use gather::Gathered;
use iopace_core::stats::{Histogram, LogHistogram};
use pieces::{Pieces, Room};
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use samples::Value;
use std::fmt;
use std::sync::Arc;

/// In which of the two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    Open,
    /// The text format 0.0.4 of Prometheus, for those who know no other.
    Classic,
}

impl Format {
    /// What somebody can read who says this in the header `Accept`.
    pub fn accepted(accept: Option<&str>) -> Format {
        let accept = accept.unwrap_or_default();
        let is_classic = accept.contains("text/plain") && !accept.contains("openmetrics");
        if is_classic { Format::Classic } else { Format::Open }
    }

    /// The content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Bounds of the buckets of a histogram, as powers of two of nanoseconds: 16 µs to 17 s. Below, it
/// is the page cache; above, something stands still.
const POWERS: std::ops::RangeInclusive<u32> = 14..=34;

/// As many, and what is above the last.
const BUCKETS_MAX: usize = (*POWERS.end() - *POWERS.start()) as usize + 2;

/// Every so manieth of them where there are many histograms.
const FEW: usize = 2;

/// What was gathered, to be told.
#[derive(Debug)]
pub struct Scrape {
    all: Gathered,
    room: Room,
    /// What lasts for as long as this is there.
    _turn: Option<Turn>,
}

impl Scrape {
    /// Everything as it is now. Takes locks, each for some microseconds, with pauses between them.
    pub fn new(subject: &dyn Controlled) -> Scrape {
        Scrape { all: gather::all(subject), room: Room::new(), _turn: None }
    }

    /// The same in somebody's turn, which ends when this is freed.
    pub(super) fn in_turn(subject: &dyn Controlled, turn: Turn) -> Scrape {
        Scrape { _turn: Some(turn), ..Scrape::new(subject) }
    }

    /// The text, in pieces that are made as they are taken. Takes no lock.
    pub fn pieces(
        self: &Arc<Self>,
        format: Format,
    ) -> impl Iterator<Item = Bytes> + Send + Unpin + use<> {
        Pieces::new(Arc::clone(self), format)
    }
}

impl Value<'_> {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Value::Count(count) => metric.encode_counter::<NoLabelSet, u64, f64>(count, None),
            Value::Seconds(time) => {
                metric.encode_counter::<NoLabelSet, f64, f64>(&seconds(time.0), None)
            }
            Value::Level(level) => metric.encode_gauge(level),
            Value::Time(time) => metric.encode_gauge(&seconds(time.0)),
            Value::One => metric.encode_gauge(&1_u64),
            Value::Times(Some(times), zeros) => encode(metric, times, *zeros, 1),
            Value::Times(None, zeros) => encode(metric, &Histogram::default(), *zeros, 1),
            Value::FewTimes(times, zeros) => encode(metric, times, *zeros, FEW),
        }
    }
}

fn encode<const SUB: usize>(
    metric: &mut MetricEncoder<'_>,
    times: &LogHistogram<SUB>,
    zeros: u64,
    step: usize,
) -> Result<(), fmt::Error> {
    let (sum, count) = (seconds(times.sum().0), times.count() + zeros);
    let mut all = [(0.0, 0); BUCKETS_MAX];
    let bounds_count = buckets(times, zeros, step, &mut all);
    metric.encode_histogram::<NoLabelSet>(sum, count, &all[..bounds_count], None)
}

/// How many there are up to each bound and above the last, in seconds.
fn buckets<const SUB: usize>(
    times: &LogHistogram<SUB>,
    zeros: u64,
    step: usize,
    into: &mut [(f64, u64); BUCKETS_MAX],
) -> usize {
    let (mut before, mut count) = (0, 0);
    let powers = POWERS.step_by(step);
    for (power, below) in powers.clone().zip(times.below_powers(powers)) {
        into[count] = (seconds(1 << power), below - std::mem::replace(&mut before, below));
        count += 1;
    }
    into[0].1 += zeros;
    into[count] = (f64::INFINITY, times.count() - before);
    count + 1
}

#[allow(clippy::cast_precision_loss, reason = "a text for people and graphs")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl Kind {
    fn metric_type(self) -> MetricType {
        match self {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

impl Family {
    fn unit(&self) -> Option<Unit> {
        self.unit.map(|unit| Unit::Other(unit.into()))
    }
}
