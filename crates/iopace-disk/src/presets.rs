//! Named disks, with a source for every parameter. The same in every scenario: none is tuned per
//! table.
//!
//! A preset's table of parameters is computed from the very configuration that builds its disk, so
//! what is shown is what runs. Where makers state no figure the source says "typical of the class":
//! a judgement, not a measurement.

mod hdd;
mod nfs;
mod ssd;

use crate::disk::Disk;
use crate::model::{self, Model, Spec};
use crate::null::NullConfig;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::fmt;

/// One parameter of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, as in the model's configuration.
    pub name: &'static str,
    /// Its value in that unit.
    pub value: u64,
    /// `B`, `B/s`, `ns`, `permille`; empty for a count.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

impl Parameter {
    /// The value for people, for example `8.500 ms`.
    pub fn text(&self) -> String {
        match self.unit {
            "ns" => Nanos(self.value).to_string(),
            "B" if self.value.is_multiple_of(1_000_000_000) => {
                format!("{} GB", self.value / 1_000_000_000)
            }
            "B" => Bytes(self.value).to_string(),
            "B/s" => format!("{} MB/s", decimal(self.value, 1_000_000)),
            "permille" => format!("{} %", decimal(self.value, 10)),
            _ => self.value.to_string(),
        }
    }
}

/// `value / unit` with up to one decimal place.
fn decimal(value: u64, unit: u64) -> String {
    match value % unit * 10 / unit {
        0 => (value / unit).to_string(),
        tenth => format!("{}.{tenth}", value / unit),
    }
}

/// A named disk.
pub struct Preset {
    /// The word for it on the command line.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// The model it is made of: `hdd`, `ssd`, `nfs` or `null`.
    pub model: &'static str,
    /// Its parameters, as `config` has them.
    pub parameters: &'static [Parameter],
    /// Its parameters, to be changed.
    pub config: Model,
    /// Makes one at rest: `config` built.
    pub build: fn() -> Box<dyn Disk>,
}

/// The values of a configuration with the source of each.
const fn parameters<const N: usize>(
    specs: &[Spec; N],
    values: [u64; N],
    sources: [&'static str; N],
) -> [Parameter; N] {
    let mut all = [Parameter { name: "", value: 0, unit: "", source: "" }; N];
    let mut i = 0;
    while i < N {
        let Spec { name, unit, .. } = specs[i];
        all[i] = Parameter { name, value: values[i], unit: unit.word(), source: sources[i] };
        i += 1;
    }
    all
}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Preset({})", self.name)
    }
}

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().copied().find(|preset| preset.name == name)
}

/// All presets.
pub static PRESETS: &[&Preset] = &[
    &hdd::SATA_250G,
    &hdd::SATA_250G_NCQ,
    &hdd::NEARLINE_6T,
    &ssd::SATA,
    &ssd::NVME,
    &ssd::USB_KEY,
    &nfs::GIGABIT,
    &NULL,
];

const NULL_CONFIG: NullConfig = NullConfig { capacity: Bytes(64 << 30), depth: 1024 };

const NULL: Preset = Preset {
    name: "null",
    summary: "takes no time: measures everything but the disk",
    model: "null",
    parameters: &parameters(
        &model::null::SPECS,
        model::null::values(&NULL_CONFIG),
        ["arbitrary", "the deepest window of the core"],
    ),
    config: Model::Null(NULL_CONFIG),
    build: || Model::Null(NULL_CONFIG).build(),
};

const CLASS: &str = "typical of the class; makers do not state it";

const TAGS: &str = "SATA 2.5: 32 tags, of which drivers use 31";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_and_every_parameter_has_a_source() {
        for preset in PRESETS {
            let disk = (find(preset.name).expect("by its name").build)();
            let value = |name| {
                let found = preset.parameters.iter().find(|p| p.name == name);
                found.unwrap_or_else(|| panic!("{}: no {name}", preset.name)).value
            };
            assert_eq!(disk.capacity(), Bytes(value("capacity")), "{}", preset.name);
            assert_eq!(u64::from(disk.depth()), value("depth"), "{}", preset.name);
            assert_eq!(
                Model::new(preset.config.kind(), &preset.config.values()),
                Ok(preset.config)
            );
            assert_eq!(preset.model, preset.config.kind().name);
            for parameter in preset.parameters {
                assert!(!parameter.source.is_empty(), "{}: {parameter:?}", preset.name);
                assert_eq!(preset.config.value(parameter.name), Some(parameter.value));
                assert!(["B", "B/s", "ns", "permille", ""].contains(&parameter.unit));
            }
        }
        assert!(find("hdd").is_none());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PRESETS.len());
    }

    #[test]
    fn values_read_well() {
        let text = |value, unit| Parameter { name: "", value, unit, source: "" }.text();
        assert_eq!(text(8_500_000, "ns"), "8.500 ms");
        assert_eq!(text(512 << 10, "B"), "512 KiB");
        assert_eq!(text(250_000_000_000, "B"), "250 GB");
        assert_eq!(text(34_500_000, "B/s"), "34.5 MB/s");
        assert_eq!(text(770, "permille"), "77 %");
        assert_eq!(text(31, ""), "31");
    }
}
