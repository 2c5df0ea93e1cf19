//! What a daemon did, in the text format of OpenMetrics, for Prometheus and its like.
//!
//! Everything is read at the moment of the scrape; nothing is kept for it. Names, labels and units
//! are listed in `docs/metrics.md` and stay as they are.

mod families;
mod gather;

pub use families::{FAMILIES, Family, Kind};

use super::Controlled;
use families::Value;
use iopace_core::stats::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// The content type of [`text()`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the buckets of a histogram, as powers of two of nanoseconds: 16 µs to 17 s. Below, it
/// is the page cache; above, something stands still.
const POWERS: std::ops::RangeInclusive<u32> = 14..=34;

/// One value of a family, with the values of its labels in their order.
#[derive(Debug)]
struct Sample {
    family: &'static Family,
    labels: Vec<String>,
    value: Value,
}

/// All that was gathered, family by family.
#[derive(Debug)]
struct Scrape(Vec<Sample>);

/// The text.
///
/// # Errors
/// None that comes from here; the encoder's own.
pub fn text(subject: &dyn Controlled) -> Result<String, fmt::Error> {
    let mut samples = gather::all(subject);
    let place = |family: &Family| FAMILIES.iter().position(|known| known.name == family.name);
    samples.sort_by_key(|sample| place(sample.family));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(samples)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for samples in self.0.chunk_by(|one, next| one.family.name == next.family.name) {
            let family = samples[0].family;
            let (kind, unit) = (family.kind.metric_type(), family.unit());
            let mut metric =
                encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
            for sample in samples {
                let labels: Vec<(&str, &str)> =
                    family.labels.iter().copied().zip(sample.labels.iter().map(|l| &**l)).collect();
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

impl Value {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Value::Count(count) => metric.encode_counter::<NoLabelSet, u64, f64>(count, None),
            Value::Seconds(time) => {
                metric.encode_counter::<NoLabelSet, f64, f64>(&seconds(time.0), None)
            }
            Value::Level(level) => metric.encode_gauge(level),
            Value::One => metric.encode_gauge(&1_u64),
            Value::Times(histogram) => {
                let buckets = buckets(histogram);
                let sum = seconds(histogram.sum().0);
                metric.encode_histogram::<NoLabelSet>(sum, histogram.count(), &buckets, None)
            }
        }
    }
}

/// How many there are between one bound and the next, in seconds.
fn buckets(histogram: &Histogram) -> Vec<(f64, u64)> {
    let below = histogram.below_powers(POWERS);
    let mut before = 0;
    let mut all: Vec<(f64, u64)> = POWERS
        .zip(below)
        .map(|(power, below)| (seconds(1 << power), below - std::mem::replace(&mut before, below)))
        .collect();
    all.push((f64::INFINITY, histogram.count() - before));
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
