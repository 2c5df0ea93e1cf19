//! Flash disks. Times inside the disk are not stated by makers; they are chosen so that the stated
//! throughputs come out, which the tests of the model hold.

use super::{CLASS, Preset, TAGS, parameters};
use crate::model::Model;
use crate::model::ssd::{SPECS, values};
use crate::ssd::SsdConfig;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

const GC: &str = "typical of the class: pages copied for each page of steady random writes";

const BY_PAGE: &str = "a disk with memory for its table maps every page by itself";

const NO_FLUSH: &str = "makers do not state it; none with memory that survives a power cut";

const NO_EFFECT: &str = "no effect without `block`";

const SATA_CONFIG: SsdConfig = SsdConfig {
    capacity: Bytes(1_000_000_000_000),
    units: 16,
    stripe: Bytes(16 * 1024),
    command_time: Nanos(9_500),
    overhead: Nanos(8_000),
    read_time: Nanos::from_micros(75),
    program_time: Nanos::from_micros(500),
    rate_bus: BytesPerSec(540_000_000),
    write_cache: Bytes(32 << 20),
    spare: Bytes(99_000_000_000),
    gc_permille: 4_000,
    clean_rate: BytesPerSec(200_000_000),
    block: Bytes::ZERO,
    open_blocks: 0,
    merge_time: Nanos::ZERO,
    flush_time: Nanos::ZERO,
    depth: 31,
};

pub(super) const SATA: Preset = Preset {
    name: "ssd-sata",
    summary: "1 TB SATA flash disk of 2014: 540 MB/s, 98 000 reads/s",
    model: "ssd",
    parameters: &parameters(
        &SPECS,
        values(&SATA_CONFIG),
        [
            "Samsung 850 EVO 1 TB",
            "with program_time: 520 MB/s written, Samsung 850 EVO 1 TB (which has 64 dies, not all \
             of them at work at once)",
            "a page of TLC flash of the time",
            "Samsung 850 EVO 1 TB: 98 000 reads/s at depth 32",
            "Samsung 850 EVO 1 TB: 40 000 writes/s at depth 1",
            "Samsung 850 EVO 1 TB: 10 000 reads/s at depth 1",
            "with units: 520 MB/s written, Samsung 850 EVO 1 TB",
            "Samsung 850 EVO 1 TB: 540 MB/s read",
            CLASS,
            "1024 GiB of flash for 1000 GB, Samsung 850 EVO 1 TB",
            GC,
            CLASS,
            BY_PAGE,
            NO_EFFECT,
            NO_EFFECT,
            NO_FLUSH,
            TAGS,
        ],
    ),
    config: Model::Ssd(SATA_CONFIG),
    build: || Model::Ssd(SATA_CONFIG).build(),
};

const NVME_CONFIG: SsdConfig = SsdConfig {
    capacity: Bytes(1_000_000_000_000),
    units: 64,
    stripe: Bytes(16 * 1024),
    command_time: Nanos(2_600),
    overhead: Nanos(16_000),
    read_time: Nanos::from_micros(51),
    program_time: Nanos::from_micros(550),
    rate_bus: BytesPerSec(3_200_000_000),
    write_cache: Bytes(64 << 20),
    spare: Bytes(99_000_000_000),
    gc_permille: 4_000,
    clean_rate: BytesPerSec(500_000_000),
    block: Bytes::ZERO,
    open_blocks: 0,
    merge_time: Nanos::ZERO,
    flush_time: Nanos::ZERO,
    depth: 256,
};

pub(super) const NVME: Preset = Preset {
    name: "ssd-nvme",
    summary: "1 TB NVMe flash disk of 2016: 3.2 GB/s, 380 000 reads/s",
    model: "ssd",
    parameters: &parameters(
        &SPECS,
        values(&NVME_CONFIG),
        [
            "Samsung 960 EVO 1 TB",
            "with program_time: 1.9 GB/s written, Samsung 960 EVO 1 TB",
            "a page of TLC flash of the time",
            "Samsung 960 EVO 1 TB: 380 000 reads/s at depth 32",
            "Samsung 960 EVO 1 TB: 50 000 writes/s at depth 1",
            "Samsung 960 EVO 1 TB: 14 000 reads/s at depth 1",
            "with units: 1.9 GB/s written, Samsung 960 EVO 1 TB",
            "Samsung 960 EVO 1 TB: 3.2 GB/s read",
            CLASS,
            "1024 GiB of flash for 1000 GB",
            GC,
            CLASS,
            BY_PAGE,
            NO_EFFECT,
            NO_EFFECT,
            NO_FLUSH,
            "far below what NVMe allows; enough for the stated throughput",
        ],
    ),
    config: Model::Ssd(NVME_CONFIG),
    build: || Model::Ssd(NVME_CONFIG).build(),
};

/// A stick of about 2010, of the kind that is given away.
const USB_KEY_CONFIG: SsdConfig = SsdConfig {
    capacity: Bytes(16_000_000_000),
    units: 1,
    stripe: Bytes(16 * 1024),
    command_time: Nanos::from_micros(100),
    overhead: Nanos::from_micros(300),
    read_time: Nanos::from_micros(150),
    program_time: Nanos::from_micros(2_000),
    rate_bus: BytesPerSec(35_000_000),
    write_cache: Bytes(64 * 1024),
    spare: Bytes::ZERO,
    gc_permille: 1_000,
    clean_rate: BytesPerSec(0),
    block: Bytes(4 * 1024 * 1024),
    open_blocks: 3,
    merge_time: Nanos::from_millis(200),
    flush_time: Nanos::ZERO,
    depth: 1,
};

pub(super) const USB_KEY: Preset = Preset {
    name: "usb-key",
    summary: "16 GB USB 2.0 stick of 2010: 24 MB/s read, 6 MB/s written, 200 ms of nothing every \
              4 MiB",
    model: "ssd",
    parameters: &parameters(
        &SPECS,
        values(&USB_KEY_CONFIG),
        [
            "a common size of 2010",
            "one chip, one channel",
            "A. Bergmann (2011): pages of 16 or 32 KiB in cards since 2010",
            "with overhead and read_time: 0.5 to 0.8 ms for a read of 1 KiB, measured with \
             flashbench on a 16 GB stick (Patriot Xporter) and in the README of flashbench",
            "see command_time",
            "see command_time",
            "with merge_time: 6 MB/s written, as measured when an 8 GB stick (Sony) was \
             zeroed from end to end",
            "typical of the class: what is left of 480 Mb/s after the protocol of USB mass storage",
            "typical of the class: a few pages in the controller; makers do not state it",
            "pages are not collected, blocks are closed",
            "see spare",
            "see spare",
            "A. Bergmann (2011): two erase blocks of 2 MiB make an allocation unit of 4 MiB in \
             cards since 2010",
            "typical of the class: a handful; makers do not state it",
            "typical of the class: 100 to 300 ms to copy and erase; with program_time 6 MB/s",
            NO_FLUSH,
            "USB mass storage (bulk only) takes one command at a time",
        ],
    ),
    config: Model::Ssd(USB_KEY_CONFIG),
    build: || Model::Ssd(USB_KEY_CONFIG).build(),
};
