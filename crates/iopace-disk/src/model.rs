//! The disk models by their parameters: which there are, in which units, within which bounds.
//!
//! One table per model ([`hdd::SPECS`] and the others) is what presets, scenarios, model files,
//! documentation and the schema for editors are made from. A model is an array of whole numbers in
//! the order of its table; [`Model`] gives them names.

pub mod hdd;
pub mod nfs;
pub mod null;
pub mod ssd;

use crate::disk::Disk;
use crate::hdd::{Hdd, HddConfig};
use crate::nfs::{Nfs, NfsConfig};
use crate::null::{Null, NullConfig};
use crate::ssd::{Ssd, SsdConfig};
use crate::units;
use core::fmt;
use iopace_core::limits::WINDOW_DEPTH_MAX;
use iopace_core::units::Bytes;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PIB: u64 = 1 << 50;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const TEN_SECONDS: u64 = 10 * SECOND;
const HOUR: u64 = 3_600 * SECOND;
/// With it a pass over 1 PiB is still below 2^64 ns.
const RATE_MIN: u64 = 100_000;
const RATE_MAX: u64 = 1_000_000_000_000;
const DEPTH_MAX: u64 = WINDOW_DEPTH_MAX as u64;

/// What the number of a parameter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterUnit {
    /// Bytes; in files a size in quotes, as `"4MiB"`.
    Size,
    /// Nanoseconds; in files a time in quotes, as `"8500us"`.
    Time,
    /// Bytes per second; in files a rate in quotes, as `"72MB/s"`.
    Rate,
    /// Thousandths; in files a bare number.
    Permille,
    /// Pieces; in files a bare number.
    Count,
}

impl ParameterUnit {
    /// Its short word: `B`, `ns`, `B/s`, `permille`; empty for a count.
    pub const fn word(self) -> &'static str {
        match self {
            ParameterUnit::Size => "B",
            ParameterUnit::Time => "ns",
            ParameterUnit::Rate => "B/s",
            ParameterUnit::Permille => "permille",
            ParameterUnit::Count => "",
        }
    }

    /// The words that a file may use for it, with their factors; none: a bare number.
    pub const fn words(self) -> &'static [(&'static str, u64)] {
        match self {
            ParameterUnit::Size => units::SIZES,
            ParameterUnit::Time => units::TIMES,
            ParameterUnit::Rate => units::RATES,
            ParameterUnit::Permille | ParameterUnit::Count => &[],
        }
    }

    /// A value as it stands in a file, without quotes.
    pub fn text(self, value: u64) -> String {
        match self.words() {
            [] => value.to_string(),
            words => units::text(value, words),
        }
    }
}

/// A parameter of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What its number counts.
    pub unit: ParameterUnit,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// What it is.
    pub summary: &'static str,
    /// Its value in a file that does not name it; without one it must be named.
    pub default: Option<u64>,
}

impl Spec {
    const fn new(
        name: &'static str,
        unit: ParameterUnit,
        min: u64,
        max: u64,
        summary: &'static str,
    ) -> Spec {
        Spec { name, unit, min, max, summary, default: None }
    }

    /// The same, with a value for files that do not name it.
    const fn or(self, value: u64) -> Spec {
        Spec { default: Some(value), ..self }
    }

    /// Its bounds for people: `1MiB to 1024TiB`.
    pub fn bounds(&self) -> String {
        format!("{} to {}", self.unit.text(self.min), self.unit.text(self.max))
    }
}

/// Why a model cannot be: which parameter, what is wrong, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The parameter.
    pub name: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelKind {
    /// Its word in a file.
    pub name: &'static str,
    /// What it models.
    pub summary: &'static str,
    /// Its parameters.
    pub specs: &'static [Spec],
}

/// Every kind.
pub static KINDS: &[ModelKind] = &[
    ModelKind { name: "hdd", summary: "a disk with a head", specs: &hdd::SPECS },
    ModelKind { name: "ssd", summary: "a flash disk", specs: &ssd::SPECS },
    ModelKind { name: "nfs", summary: "a network file server", specs: &nfs::SPECS },
    ModelKind { name: "null", summary: "takes no time", specs: &null::SPECS },
];

/// A disk by its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A disk with a head.
    Hdd(HddConfig),
    /// A flash disk.
    Ssd(SsdConfig),
    /// A network file server.
    Nfs(NfsConfig),
    /// Takes no time.
    Null(NullConfig),
}

impl Model {
    /// Its kind.
    pub fn kind(&self) -> &'static ModelKind {
        &KINDS[match self {
            Model::Hdd(_) => 0,
            Model::Ssd(_) => 1,
            Model::Nfs(_) => 2,
            Model::Null(_) => 3,
        }]
    }

    /// Its values, in the order of its kind's parameters.
    pub fn values(&self) -> Vec<u64> {
        match self {
            Model::Hdd(config) => hdd::values(config).to_vec(),
            Model::Ssd(config) => ssd::values(config).to_vec(),
            Model::Nfs(config) => nfs::values(config).to_vec(),
            Model::Null(config) => null::values(config).to_vec(),
        }
    }

    /// The value of a parameter.
    pub fn value(&self, name: &str) -> Option<u64> {
        let at = self.kind().specs.iter().position(|spec| spec.name == name)?;
        self.values().get(at).copied()
    }

    /// A model of that kind with these values, in the order of the kind's parameters.
    ///
    /// # Errors
    /// A value is out of its bounds, or several do not go together.
    ///
    /// # Panics
    /// If there are not as many values as parameters.
    pub fn new(kind: &ModelKind, values: &[u64]) -> Result<Model, ModelError> {
        assert_eq!(values.len(), kind.specs.len(), "a value for each parameter");
        for (spec, value) in kind.specs.iter().zip(values) {
            if !(spec.min..=spec.max).contains(value) {
                let (name, given) = (spec.name, spec.unit.text(*value));
                let message = format!("{name} is {}, not {given}", spec.bounds());
                return Err(ModelError { name: name.into(), message });
            }
        }
        let model = match kind.name {
            "hdd" => Model::Hdd(hdd::config(values.try_into().expect("counted"))),
            "ssd" => Model::Ssd(ssd::config(values.try_into().expect("counted"))),
            "nfs" => Model::Nfs(nfs::config(values.try_into().expect("counted"))),
            _ => Model::Null(null::config(values.try_into().expect("counted"))),
        };
        match model.contradiction() {
            Some((name, message)) => Err(ModelError { name: name.into(), message: message.into() }),
            None => Ok(model),
        }
    }

    /// The first parameter that does not go with another.
    fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let sectors = "capacity is a multiple of 512B";
        let rules: &[(bool, &str, &str)] = match self {
            Model::Hdd(c) => &[
                (
                    c.seek_track <= c.seek_average,
                    "seek_track",
                    "seek_track is at most seek_average",
                ),
                (
                    c.seek_average <= c.seek_full,
                    "seek_average",
                    "seek_average is at most seek_full",
                ),
                (c.rate_inner <= c.rate_outer, "rate_inner", "rate_inner is at most rate_outer"),
            ],
            Model::Ssd(c) => &[
                (
                    c.block == Bytes::ZERO || c.open_blocks > 0,
                    "open_blocks",
                    "with `block` above 0B, open_blocks is at least 1",
                ),
                (
                    c.block == Bytes::ZERO || c.block >= c.stripe,
                    "block",
                    "block is 0B or at least `stripe`",
                ),
            ],
            Model::Nfs(_) | Model::Null(_) => &[],
        };
        let broken = rules.iter().find(|(holds, ..)| !holds).map(|(_, name, text)| (*name, *text));
        let is_whole = self.value("capacity").is_some_and(|bytes| bytes.is_multiple_of(512));
        broken.or((!is_whole).then_some(("capacity", sectors)))
    }

    /// A disk at rest.
    pub fn build(&self) -> Box<dyn Disk> {
        match self {
            Model::Hdd(config) => Box::new(Hdd::new(*config)),
            Model::Ssd(config) => Box::new(Ssd::new(*config)),
            Model::Nfs(config) => Box::new(Nfs::new(*config)),
            Model::Null(config) => Box::new(Null::new(config.capacity, config.depth)),
        }
    }
}
