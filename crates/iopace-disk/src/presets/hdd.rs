//! Disks with a head.

use super::{CLASS, Preset, TAGS, parameters};
use crate::hdd::HddConfig;
use crate::model::Model;
use crate::model::hdd::{SPECS, values};
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// The disk of the geom_sched measurements. The README names it by size, interface and rate only.
const SATA_250G_CONFIG: HddConfig = HddConfig {
    capacity: Bytes(250_000_000_000),
    rotation: Nanos(8_333_333),
    seek_track: Nanos::from_micros(1_000),
    seek_average: Nanos::from_micros(8_500),
    seek_full: Nanos::from_micros(20_000),
    write_settle: Nanos::from_micros(1_000),
    rate_outer: BytesPerSec(72_000_000),
    rate_inner: BytesPerSec(34_500_000),
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

const SATA_250G_SOURCES: [&str; 17] = [
    "README of geom_sched (2009)",
    "7200 rpm",
    "Hitachi Travelstar 7K320 OEM specification: single track seek, read (7200 rpm, 2.5 inch; \
     makers of 3.5 inch disks state less: 0.8 to 2 ms)",
    "Hitachi Deskstar 7K500 and T7K250: average seek, read (7200 rpm, 3.5 inch, 2005)",
    "Hitachi Travelstar 7K320 OEM specification: full stroke seek, read (7200 rpm, 2.5 inch)",
    "typical of the class: a write is stated 1 to 2 ms slower than a read on average",
    "measured in the source: dd, raw read, in the README of geom_sched (2009)",
    "Hitachi Deskstar 7K500 specification: 31.0 against 64.8 MB/s sustained, 48 % of the \
     outer edge",
    "calibrated: 55 of 72 MB/s, dd write alone in the README of geom_sched; holds all that a \
     buffered write through a file system loses there (allocation, metadata, missed turns)",
    "SATA 1.5 Gb/s, which controllers and disks of the time had in common",
    CLASS,
    "typical of the class: an 8 MB buffer in some 16 segments; makers do not state it",
    "typical of the class: half of the 8 MB buffer in segments of 512 KiB",
    "half of the 8 MB buffer of the class; makers do not state the share",
    CLASS,
    "the ata driver of FreeBSD 8 (2009) did not use NCQ",
    "no effect at depth 1",
];

pub(super) const SATA_250G: Preset = Preset {
    name: "hdd-sata-250g",
    summary: "7200 rpm, 250 GB, 72 MB/s SATA disk of 2009, driven without NCQ",
    model: "hdd",
    parameters: &parameters(&SPECS, values(&SATA_250G_CONFIG), SATA_250G_SOURCES),
    config: Model::Hdd(SATA_250G_CONFIG),
    build: || Model::Hdd(SATA_250G_CONFIG).build(),
};

const SATA_250G_NCQ_CONFIG: HddConfig = HddConfig { depth: 31, ..SATA_250G_CONFIG };

const SATA_250G_NCQ_SOURCES: [&str; 17] = {
    let mut sources = SATA_250G_SOURCES;
    sources[15] = TAGS;
    sources[16] = CLASS;
    sources
};

pub(super) const SATA_250G_NCQ: Preset = Preset {
    name: "hdd-sata-250g-ncq",
    summary: "the same disk with NCQ: up to 31 commands at once",
    model: "hdd",
    parameters: &parameters(&SPECS, values(&SATA_250G_NCQ_CONFIG), SATA_250G_NCQ_SOURCES),
    config: Model::Hdd(SATA_250G_NCQ_CONFIG),
    build: || Model::Hdd(SATA_250G_NCQ_CONFIG).build(),
};

const NEARLINE_6T_CONFIG: HddConfig = HddConfig {
    capacity: Bytes(6_000_000_000_000),
    rotation: Nanos(8_333_333),
    seek_track: Nanos::from_micros(230),
    seek_average: Nanos::from_micros(7_400),
    seek_full: Nanos::from_micros(16_000),
    write_settle: Nanos::from_micros(800),
    rate_outer: BytesPerSec(227_000_000),
    rate_inner: BytesPerSec(110_000_000),
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

pub(super) const NEARLINE_6T: Preset = Preset {
    name: "hdd-nearline-6t",
    summary: "7200 rpm, 6 TB data-centre disk of 2018 with NCQ",
    model: "hdd",
    parameters: &parameters(
        &SPECS,
        values(&NEARLINE_6T_CONFIG),
        [
            HC310,
            HC310,
            "Western Digital Ultrastar DC HC310 OEM specification: single track seek, read",
            "Western Digital Ultrastar DC HC310 OEM specification: average seek, read",
            CLASS,
            "Western Digital Ultrastar DC HC310 OEM specification: 8.2 ms write, 7.4 ms read",
            "typical of the class: 220 to 255 MB/s at the outer edge",
            "the same share of the outer edge as hdd-sata-250g",
            "typical of the class: writes as fast as it reads",
            "SATA 6 Gb/s",
            CLASS,
            CLASS,
            CLASS,
            "typical of the class: a quarter of the 256 MB buffer",
            CLASS,
            TAGS,
            CLASS,
        ],
    ),
    config: Model::Hdd(NEARLINE_6T_CONFIG),
    build: || Model::Hdd(NEARLINE_6T_CONFIG).build(),
};
