//! What a daemon did, in the text format of OpenMetrics, for Prometheus and its like.
//!
//! Everything is read at the moment of the scrape; nothing is kept for it. Names, labels and units
//! are listed in `docs/metrics.md` and stay as they are. Histograms have classic buckets: native
//! ones exist in Prometheus' protobuf format only, not in its texts.
//!
//! ```text
//!   gather.rs  copies, briefly under each lock ──► samples.rs  borrow the copies ──► the text
//!                                                                                     │
//!                                        classic.rs  for those who ask for text/plain ◄┘
//! ```

mod classic;
mod families;
mod gather;
mod samples;

pub use families::{FAMILIES, Family, Kind};

use super::Controlled;
use gather::Gathered;
use iopace_core::stats::{Histogram, LogHistogram};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use samples::{Samples, Value};
use std::fmt;

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

/// Every so manieth of them where there are many histograms.
const FEW: usize = 2;

/// What was gathered, to be told.
#[derive(Debug)]
struct Scrape(Gathered);

/// The text.
///
/// # Errors
/// None that comes from here; the encoder's own.
pub fn text(subject: &dyn Controlled, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(gather::all(subject))));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(match format {
        Format::Open => text,
        Format::Classic => classic::from_open(&text),
    })
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (family, samples) in Samples::of(&self.0).families() {
            let (kind, unit) = (family.kind.metric_type(), family.unit());
            let mut metric =
                encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
            for sample in samples {
                let labels = sample.labels(family);
                if labels.is_empty() {
                    sample.value.encode(&mut metric)?;
                } else {
                    sample.value.encode(&mut metric.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
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
    metric.encode_histogram::<NoLabelSet>(sum, count, &buckets(times, zeros, step), None)
}

/// How many there are between one bound and the next, in seconds.
fn buckets<const SUB: usize>(
    times: &LogHistogram<SUB>,
    zeros: u64,
    step: usize,
) -> Vec<(f64, u64)> {
    let below = times.below_powers(POWERS.step_by(step));
    let mut before = 0;
    let mut all: Vec<(f64, u64)> = POWERS
        .step_by(step)
        .zip(below)
        .map(|(power, below)| (seconds(1 << power), below - std::mem::replace(&mut before, below)))
        .collect();
    all[0].1 += zeros;
    all.push((f64::INFINITY, times.count() - before));
    all
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
