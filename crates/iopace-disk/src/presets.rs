//! Named disks, with a source for every parameter. The same in every scenario: none is tuned per table.

use crate::disk::Disk;
use crate::hdd::{Hdd, HddConfig};
use crate::null::Null;
use crate::ssd::{Ssd, SsdConfig};
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};
use std::fmt;

/// One parameter of a preset.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as in the model's configuration.
    pub name: &'static str,
    /// Its value as text.
    pub value: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// A named disk.
pub struct Preset {
    /// The word for it on the command line.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// The model it is made of.
    pub model: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Makes one at rest.
    pub build: fn() -> Box<dyn Disk>,
}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Preset({})", self.name)
    }
}

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// All presets.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "hdd-sata-250g",
        summary: "7200 rpm, 250 GB, 72 MB/s SATA disk of 2009, driven without NCQ",
        model: "hdd",
        parameters: &HDD_SATA_250G_PARAMETERS,
        build: || Box::new(Hdd::new(HDD_SATA_250G)),
    },
    Preset {
        name: "hdd-sata-250g-ncq",
        summary: "the same disk with NCQ: up to 31 commands at once",
        model: "hdd",
        parameters: &HDD_SATA_250G_NCQ_PARAMETERS,
        build: || Box::new(Hdd::new(HddConfig { depth: 31, ..HDD_SATA_250G })),
    },
    Preset {
        name: "hdd-nearline-6t",
        summary: "7200 rpm, 6 TB data-centre disk with NCQ",
        model: "hdd",
        parameters: &HDD_NEARLINE_6T_PARAMETERS,
        build: || Box::new(Hdd::new(HDD_NEARLINE_6T)),
    },
    Preset {
        name: "ssd-sata",
        summary: "1 TB SATA flash disk of 2015: 540 MB/s, 98 000 reads/s",
        model: "ssd",
        parameters: &SSD_SATA_PARAMETERS,
        build: || Box::new(Ssd::new(SSD_SATA)),
    },
    Preset {
        name: "ssd-nvme",
        summary: "1 TB NVMe flash disk of the middle class: 3.2 GB/s, 380 000 reads/s",
        model: "ssd",
        parameters: &SSD_NVME_PARAMETERS,
        build: || Box::new(Ssd::new(SSD_NVME)),
    },
    Preset {
        name: "null",
        summary: "takes no time: measures everything but the disk",
        model: "null",
        parameters: &NULL_PARAMETERS,
        build: || Box::new(Null::new(Bytes(64 << 30), 1024)),
    },
];

/// The disk of the geom_sched measurements.
const HDD_SATA_250G: HddConfig = HddConfig {
    capacity: Bytes(250_000_000_000),
    rotation: Nanos(8_333_333),
    seek_track: Nanos::from_micros(1_000),
    seek_average: Nanos::from_micros(8_500),
    seek_full: Nanos::from_micros(20_000),
    write_settle: Nanos::from_micros(1_000),
    rate_outer: BytesPerSec(72_000_000),
    rate_inner: BytesPerSec(38_000_000),
    write_permille: 770,
    rate_bus: BytesPerSec(150_000_000),
    overhead: Nanos::from_micros(200),
    read_ahead: Bytes(512 * 1024),
    segments: 8,
    write_cache: Bytes(4 * 1024 * 1024),
    destage_idle: Nanos::from_millis(100),
    depth: 1,
    ncq_age_max: Nanos::from_millis(500),
};

const MEASURED: &str = "measured in the source: dd in the README of geom_sched (2009)";
const CLASS: &str = "typical of the class; makers do not state it";

const HDD_SATA_250G_PARAMETERS: [Parameter; 17] = [
    Parameter { name: "capacity", value: "250 GB", source: "README of geom_sched (2009)" },
    Parameter { name: "rotation", value: "8.333 ms", source: "7200 rpm" },
    Parameter {
        name: "seek_track",
        value: "1.0 ms",
        source: "Hitachi OEM specification 5K320, single track seek, read",
    },
    Parameter {
        name: "seek_average",
        value: "8.5 ms",
        source: "Hitachi Deskstar 7K1000.C specification, average seek, read (7200 rpm)",
    },
    Parameter {
        name: "seek_full",
        value: "20 ms",
        source: "Hitachi OEM specification 5K320, full stroke seek, read",
    },
    Parameter {
        name: "write_settle",
        value: "1.0 ms",
        source: "Hitachi Deskstar 7K1000.C: 9.5 ms write against 8.5 ms read",
    },
    Parameter { name: "rate_outer", value: "72 MB/s", source: MEASURED },
    Parameter {
        name: "rate_inner",
        value: "38 MB/s",
        source: "inner to outer radius of a 3.5 inch platter, about 0.53; typical of the class",
    },
    Parameter {
        name: "write_permille",
        value: "770",
        source: "calibrated: 55 of 72 MB/s, dd write alone in the README of geom_sched; holds all \
                 that a buffered write loses there (allocation, metadata, missed turns)",
    },
    Parameter { name: "rate_bus", value: "150 MB/s", source: "SATA 1.5 Gb/s" },
    Parameter { name: "overhead", value: "200 us", source: CLASS },
    Parameter { name: "read_ahead", value: "512 KiB", source: CLASS },
    Parameter { name: "segments", value: "8", source: CLASS },
    Parameter {
        name: "write_cache",
        value: "4 MiB",
        source: "half of the 8 MB buffer of the class; makers do not state the share",
    },
    Parameter { name: "destage_idle", value: "100 ms", source: CLASS },
    Parameter {
        name: "depth",
        value: "1",
        source: "the ata driver of FreeBSD 8 (2009) did not use NCQ",
    },
    Parameter { name: "ncq_age_max", value: "500 ms", source: "unused at depth 1" },
];

const HDD_SATA_250G_NCQ_PARAMETERS: [Parameter; 2] = [
    Parameter { name: "depth", value: "31", source: "SATA 2.5: 32 tags, of which drivers use 31" },
    Parameter { name: "ncq_age_max", value: "500 ms", source: CLASS },
];

const HDD_NEARLINE_6T: HddConfig = HddConfig {
    capacity: Bytes(6_000_000_000_000),
    rotation: Nanos(8_333_333),
    seek_track: Nanos::from_micros(230),
    seek_average: Nanos::from_micros(7_400),
    seek_full: Nanos::from_micros(16_000),
    write_settle: Nanos::from_micros(800),
    rate_outer: BytesPerSec(227_000_000),
    rate_inner: BytesPerSec(115_000_000),
    write_permille: 1_000,
    rate_bus: BytesPerSec(600_000_000),
    overhead: Nanos::from_micros(100),
    read_ahead: Bytes(2 << 20),
    segments: 32,
    write_cache: Bytes(64 << 20),
    destage_idle: Nanos::from_millis(100),
    depth: 31,
    ncq_age_max: Nanos::from_millis(500),
};

const HC310: &str = "Western Digital Ultrastar DC HC310 OEM specification";

const HDD_NEARLINE_6T_PARAMETERS: [Parameter; 17] = [
    Parameter { name: "capacity", value: "6 TB", source: HC310 },
    Parameter { name: "rotation", value: "8.333 ms", source: HC310 },
    Parameter { name: "seek_track", value: "0.23 ms", source: HC310 },
    Parameter { name: "seek_average", value: "7.4 ms", source: HC310 },
    Parameter { name: "seek_full", value: "16 ms", source: CLASS },
    Parameter { name: "write_settle", value: "0.8 ms", source: "HC310: 8.2 ms against 7.4 ms" },
    Parameter { name: "rate_outer", value: "227 MB/s", source: CLASS },
    Parameter { name: "rate_inner", value: "115 MB/s", source: CLASS },
    Parameter { name: "write_permille", value: "1000", source: CLASS },
    Parameter { name: "rate_bus", value: "600 MB/s", source: "SATA 6 Gb/s" },
    Parameter { name: "overhead", value: "100 us", source: CLASS },
    Parameter { name: "read_ahead", value: "2 MiB", source: CLASS },
    Parameter { name: "segments", value: "32", source: CLASS },
    Parameter { name: "write_cache", value: "64 MiB", source: CLASS },
    Parameter { name: "destage_idle", value: "100 ms", source: CLASS },
    Parameter { name: "depth", value: "31", source: "SATA 2.5: 32 tags, of which drivers use 31" },
    Parameter { name: "ncq_age_max", value: "500 ms", source: CLASS },
];

const SSD_SATA: SsdConfig = SsdConfig {
    capacity: Bytes(1_000_000_000_000),
    channels: 8,
    stripe: Bytes(16 * 1024),
    overhead: Nanos::from_micros(12),
    read_time: Nanos::from_micros(80),
    program_time: Nanos::from_micros(250),
    random_write_permille: 1_000,
    rate_bus: BytesPerSec(540_000_000),
    write_cache: Bytes(32 << 20),
    depth: 31,
};

const EVO850: &str =
    "fits Samsung 850 EVO 1 TB: 540/520 MB/s, 10 000 reads/s at depth 1, 98 000 at 32";

const SSD_SATA_PARAMETERS: [Parameter; 10] = [
    Parameter { name: "capacity", value: "1 TB", source: "Samsung 850 EVO 1 TB" },
    Parameter { name: "channels", value: "8", source: EVO850 },
    Parameter { name: "stripe", value: "16 KiB", source: "a page of TLC flash of the time" },
    Parameter { name: "overhead", value: "12 us", source: EVO850 },
    Parameter { name: "read_time", value: "80 us", source: EVO850 },
    Parameter { name: "program_time", value: "250 us", source: EVO850 },
    Parameter { name: "random_write_permille", value: "1000", source: EVO850 },
    Parameter { name: "rate_bus", value: "540 MB/s", source: EVO850 },
    Parameter { name: "write_cache", value: "32 MiB", source: CLASS },
    Parameter { name: "depth", value: "31", source: "SATA 2.5: 32 tags, of which drivers use 31" },
];

const SSD_NVME: SsdConfig = SsdConfig {
    capacity: Bytes(1_000_000_000_000),
    channels: 32,
    stripe: Bytes(16 * 1024),
    overhead: Nanos::from_micros(8),
    read_time: Nanos::from_micros(75),
    program_time: Nanos::from_micros(200),
    random_write_permille: 1_500,
    rate_bus: BytesPerSec(3_200_000_000),
    write_cache: Bytes(64 << 20),
    depth: 256,
};

const NVME: &str = "typical of 1 TB PCIe 3.0 disks: 3.2/2.5 GB/s, 380 000 reads/s";

const SSD_NVME_PARAMETERS: [Parameter; 10] = [
    Parameter { name: "capacity", value: "1 TB", source: NVME },
    Parameter { name: "channels", value: "32", source: NVME },
    Parameter { name: "stripe", value: "16 KiB", source: "a page of TLC flash" },
    Parameter { name: "overhead", value: "8 us", source: NVME },
    Parameter { name: "read_time", value: "75 us", source: NVME },
    Parameter { name: "program_time", value: "200 us", source: NVME },
    Parameter { name: "random_write_permille", value: "1500", source: CLASS },
    Parameter { name: "rate_bus", value: "3.2 GB/s", source: NVME },
    Parameter { name: "write_cache", value: "64 MiB", source: CLASS },
    Parameter { name: "depth", value: "256", source: "a queue as Linux sets it up by default" },
];

const NULL_PARAMETERS: [Parameter; 2] = [
    Parameter { name: "capacity", value: "64 GiB", source: "arbitrary" },
    Parameter { name: "depth", value: "1024", source: "the deepest window of the core" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_and_every_parameter_has_a_source() {
        for preset in PRESETS {
            let disk = (find(preset.name).expect("by its name").build)();
            assert!(disk.capacity() > Bytes::ZERO && disk.depth() >= 1);
            assert!(preset.parameters.iter().all(|p| !p.source.is_empty() && !p.value.is_empty()));
        }
        assert!(find("hdd").is_none());
    }
}
