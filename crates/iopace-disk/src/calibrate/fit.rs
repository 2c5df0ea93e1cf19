//! From figures to parameters, by stated rules, and from parameters back to figures.
//!
//! A fit begins with closed forms (a difference of two means is a time, a quotient a rate) and then
//! corrects each parameter by running the model on the step that the parameter shows in: the
//! parameter moves by the difference between the real figure and the modelled one. What was not
//! measured is assumed, and its source says so.

mod hdd;
mod ssd;

use super::measure::{Figure, Limits, measure};
use super::modelled::TimedModel;
use super::plan::{PlanStep, StepKind};
pub use crate::model::Model;
use iopace_core::request::Op;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::collections::BTreeMap;

/// What kind of disk it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// It has a head: far reads take longer than near ones, and a turn of the platter scatters
    /// both.
    Rotational,
    /// It has none.
    Flash,
}

impl Nature {
    /// By the curve of seeks over distance; where that was not measured, what the kernel says.
    fn of(set: &Set<'_>, kernel_says_rotational: Option<bool>) -> Nature {
        let far = set.distance(980).or_else(|| set.distance(660));
        let is_rotational = match (set.distance(0), far) {
            (Some(near), Some(far)) => {
                let spread = far.high.saturating_sub(far.low);
                near.value >= NEAR_MIN.0 && far.value > near.value * 5 / 4 && spread >= SPREAD_MIN
            }
            _ => kernel_says_rotational.unwrap_or(false),
        };
        if is_rotational { Nature::Rotational } else { Nature::Flash }
    }
}

/// Half a turn of the fastest platter (15000 rpm) is 2 ms; flash reads take a tenth of that.
const NEAR_MIN: Nanos = Nanos::from_millis(1);

/// Half of a turn of the fastest platter.
const SPREAD_MIN: Nanos = Nanos::from_millis(2);

/// What is to be fitted.
#[derive(Clone, Copy, Debug)]
pub struct Fit<'a> {
    /// Size of the disk or file.
    pub capacity: Bytes,
    /// What was measured.
    pub figures: &'a [Figure],
    /// What the kernel says of the disk, if it does.
    pub kernel_says_rotational: Option<bool>,
}

/// A fitted model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The disk.
    pub model: Model,
    /// What kind it is.
    pub nature: Nature,
    /// Where each value comes from, by parameter: `measured: ...` or `assumed: ...`.
    pub sources: BTreeMap<String, String>,
}

/// A figure, real and modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What was measured.
    pub real: Figure,
    /// What the model gives.
    pub modelled: u64,
    /// The difference, in thousandths of the real figure.
    pub error_permille: i64,
}

/// Fits a model.
///
/// # Errors
/// Too little was measured; the message says what is missing.
pub fn fit(wanted: &Fit<'_>) -> Result<Fitted, String> {
    let set = Set { capacity: wanted.capacity, figures: wanted.figures };
    if let Some(missing) = set.missing() {
        return Err(format!("too little was measured for a model: {missing} is missing"));
    }
    let nature = Nature::of(&set, wanted.kernel_says_rotational);
    let (model, named) = match nature {
        Nature::Rotational => {
            let (config, sources) = hdd::fit(&set);
            (Model::Hdd(config), sources)
        }
        Nature::Flash => {
            let (config, sources) = ssd::fit(&set);
            (Model::Ssd(config), sources)
        }
    };
    // Out of bounds is what no disk is; the error of the figures then shows it.
    let kind = model.kind();
    let bounded: Vec<u64> = kind
        .specs
        .iter()
        .zip(model.values())
        .map(|(spec, value)| value.clamp(spec.min, spec.max))
        .collect();
    let model = Model::new(kind, &bounded).map_err(|error| error.to_string())?;
    let sources = named.iter().map(|(name, text)| ((*name).into(), (*text).into()));
    Ok(Fitted { model, nature, sources: sources.collect() })
}

/// Measures the model by the steps of the figures, in their order, and puts both beside each other.
/// A step that the model does not end is left out.
pub fn compare(model: &Model, figures: &[Figure]) -> Vec<Row> {
    let mut disk = TimedModel::new(model.build());
    let mut rows = Vec::new();
    for real in figures {
        let Ok(found) = measure(&mut disk, real.step, like(real)) else { continue };
        let (is, was) = (i128::from(found.value), i128::from(real.value.max(1)));
        let error_permille = i64::try_from((is - was) * 1000 / was).unwrap_or(i64::MAX);
        rows.push(Row { real: *real, modelled: found.value, error_permille });
    }
    rows
}

/// The mean of the errors without their signs, in thousandths.
pub fn mean_error(rows: &[Row]) -> u64 {
    let sum: u64 = rows.iter().map(|row| row.error_permille.unsigned_abs()).sum();
    sum / (rows.len() as u64).max(1)
}

/// Most requests of a step on a model: more do not change a mean in virtual time. Writes have a
/// cache to fill first.
const READS_MAX: u64 = 1_000;
const WRITES_MAX: u64 = 40_000;

/// Most bytes of a step on a model, for the same reason.
const READ_BYTES_MAX: u64 = 256 << 20;
const WRITTEN_BYTES_MAX: u64 = 2 << 30;

/// As many requests as the real step, up to what makes sense.
fn like(real: &Figure) -> Limits {
    let (count, bytes) = match real.step.writes() {
        true => (WRITES_MAX, WRITTEN_BYTES_MAX),
        false => (READS_MAX, READ_BYTES_MAX),
    };
    let most = count.min(bytes / real.step.block_bytes);
    let with_warm_up = match real.step.kind {
        StepKind::Distance { .. } | StepKind::Flush { .. } => real.requests_count,
        _ => real.requests_count * 4 / 3,
    };
    // Virtual time costs nothing: the count alone ends the step.
    Limits { time: Nanos(u64::MAX), requests_count: with_warm_up.clamp(1, most) }
}

/// What was measured, to be asked.
struct Set<'a> {
    capacity: Bytes,
    figures: &'a [Figure],
}

impl Set<'_> {
    fn find(&self, kind: StepKind, block_bytes: u64, depth: u32) -> Option<&Figure> {
        let step = PlanStep { kind, block_bytes, depth };
        self.figures.iter().find(|figure| figure.step == step)
    }

    fn random(&self, block_kib: u64, depth: u32) -> Option<&Figure> {
        self.find(StepKind::Random { read_percent: 100 }, block_kib << 10, depth)
    }

    fn sequential(&self, block_kib: u64, depth: u32, at_permille: u64) -> Option<&Figure> {
        self.find(StepKind::Sequential { op: Op::Read, at_permille }, block_kib << 10, depth)
    }

    fn distance(&self, permille: u64) -> Option<&Figure> {
        self.find(StepKind::Distance { permille }, 4 << 10, 1)
    }

    fn again(&self, block_kib: u64) -> Option<&Figure> {
        self.find(StepKind::Again, block_kib << 10, 1)
    }

    fn random_write(&self, depth: u32) -> Option<&Figure> {
        self.find(StepKind::Random { read_percent: 0 }, 4 << 10, depth)
    }

    fn sequential_write(&self) -> Option<&Figure> {
        self.find(StepKind::Sequential { op: Op::Write, at_permille: 0 }, 1 << 20, 8)
    }

    fn flush(&self, writes: u64) -> Option<&Figure> {
        self.find(StepKind::Flush { writes }, 4 << 10, 1)
    }

    /// The deepest of the random reads.
    fn deepest(&self, block_kib: u64) -> Option<&Figure> {
        let depths = super::plan::DEPTHS.iter().rev();
        depths.filter_map(|depth| self.random(block_kib, *depth)).next()
    }

    /// The first figure without which there is no model.
    fn missing(&self) -> Option<&'static str> {
        if self.random(4, 1).is_none() {
            Some("random reads of 4 KiB at depth 1")
        } else if self.sequential(1024, 1, 0).is_none() {
            Some("sequential reads of 1 MiB")
        } else {
            None
        }
    }
}

/// What a model gives where `real` was measured; the real figure if it gives none.
fn modelled(model: Model, real: &Figure) -> u64 {
    let found = measure(&mut TimedModel::new(model.build()), real.step, like(real));
    found.map_or(real.value, |figure| figure.value)
}

/// `value` moved by the difference between two figures, never below zero.
fn moved(value: u64, real: u64, modelled: u64) -> u64 {
    value.saturating_add(real).saturating_sub(modelled)
}

/// `value * by / of`.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}
