//! The parameters of a disk with a head.
//!
//! | parameter | rule |
//! |---|---|
//! | `overhead`, `rate_bus` | the same block again: the time of 4 KiB and that of 128 KiB |
//! | `rate_outer`, `rate_inner` | sequential reads at the beginning and near the end |
//! | `rotation` | the spread of near reads is a turn; the next common speed within a tenth |
//! | `seek_track`, `_average`, `_full` | reads near, a third and all of it away, less the rest |
//! | `depth` | 31 if random reads gain from depth, else 1 |
//! | `write_permille` | sequential writes over reads at the same place |
//! | `write_settle` | a flush after one random write, over the model without it |
//! | `write_cache` | none if random writes take as long as reads; its size is assumed |

use super::{Model, Set, modelled, moved, scaled};
use crate::hdd::HddConfig;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// Times of a turn at 15000, 10000, 7200, 5900, 5400 and 4200 rpm.
const TURNS: [u64; 6] = [4_000_000, 6_000_000, 8_333_333, 10_169_491, 11_111_111, 14_285_714];

/// Rounds of correction: the second moves what the first did not, the third shows that it is still.
const ROUNDS: usize = 3;

/// Random reads that gain this much from depth (in thousandths) show that commands are ordered.
const NCQ_GAIN_PERMILLE: u64 = 1_150;

type Sources = Vec<(&'static str, &'static str)>;

/// Fits a disk with a head.
pub(super) fn fit(set: &Set<'_>) -> (HddConfig, Sources) {
    let mut sources: Sources = vec![("capacity", "measured: size of the disk or file")];
    let mut config = assumed(set.capacity, &mut sources);
    interface(&mut config, set, &mut sources);
    rates(&mut config, set, &mut sources);
    rotation(&mut config, set, &mut sources);
    seeks(&mut config, set, &mut sources);
    depth(&mut config, set, &mut sources);
    writes(&mut config, set, &mut sources);
    (config, sources)
}

/// What no step shows: the values of the presets' class.
fn assumed(capacity: Bytes, sources: &mut Sources) -> HddConfig {
    const CLASS: &str = "assumed: typical of the class";
    let names = ["read_ahead", "segments", "destage_idle", "ncq_age_max"];
    sources.extend(names.map(|name| (name, CLASS)));
    HddConfig {
        capacity: Bytes(capacity.get() / 512 * 512),
        rotation: Nanos(8_333_333),
        seek_track: Nanos::from_millis(1),
        seek_average: Nanos::from_micros(8_500),
        seek_full: Nanos::from_millis(18),
        write_settle: Nanos::from_millis(1),
        rate_outer: BytesPerSec(100_000_000),
        rate_inner: BytesPerSec(50_000_000),
        write_permille: 1_000,
        rate_bus: BytesPerSec(300_000_000),
        overhead: Nanos::from_micros(200),
        read_ahead: Bytes(512 << 10),
        segments: 16,
        write_cache: Bytes(4 << 20),
        destage_idle: Nanos::from_millis(100),
        depth: 1,
        ncq_age_max: Nanos::from_millis(500),
    }
}

fn interface(config: &mut HddConfig, set: &Set<'_>, sources: &mut Sources) {
    let (Some(small), Some(large)) = (set.again(4), set.again(128)) else {
        sources.push(("rate_bus", "assumed: SATA 3 Gb/s"));
        sources.push(("overhead", "assumed: typical of the class"));
        return;
    };
    let more = large.value.saturating_sub(small.value).max(1);
    config.rate_bus = BytesPerSec(scaled(124 << 10, 1_000_000_000, more).max(1_000_000));
    let transfer = config.rate_bus.time_for(Bytes(4 << 10));
    config.overhead = Nanos(small.value).saturating_sub(transfer);
    sources.push(("rate_bus", "measured: a block of 128 KiB again, less one of 4 KiB"));
    sources.push(("overhead", "measured: a block of 4 KiB again, less its transfer"));
}

fn rates(config: &mut HddConfig, set: &Set<'_>, sources: &mut Sources) {
    let outer = set.sequential(1024, 1, 0).expect("without it nothing is fitted");
    config.rate_outer = BytesPerSec(outer.value.max(100_000));
    let inner = set.sequential(1024, 1, 970);
    config.rate_inner = inner.map_or(config.rate_outer, |inner| BytesPerSec(inner.value));
    for _ in 0..ROUNDS {
        let at = modelled(Model::Hdd(*config), outer);
        config.rate_outer.0 = scaled(config.rate_outer.0, outer.value, at).max(100_000);
        if let Some(inner) = inner {
            let at = modelled(Model::Hdd(*config), inner);
            config.rate_inner.0 = scaled(config.rate_inner.0, inner.value, at);
        }
        config.rate_inner = config.rate_inner.clamp(BytesPerSec(100_000), config.rate_outer);
    }
    sources.push(("rate_outer", "measured: sequential reads of 1 MiB at the beginning"));
    sources.push(match inner {
        Some(_) => ("rate_inner", "measured: sequential reads of 1 MiB near the end"),
        None => ("rate_inner", "assumed: as at the beginning"),
    });
}

fn rotation(config: &mut HddConfig, set: &Set<'_>, sources: &mut Sources) {
    let Some(near) = set.distance(0) else {
        sources.push(("rotation", "assumed: 7200 rpm"));
        return;
    };
    // From the second to the 98th hundredth of an even spread: 96 hundredths of a turn.
    let turn = near.high.saturating_sub(near.low).0 * 100 / 96;
    let common = TURNS.iter().copied().min_by_key(|common| common.abs_diff(turn));
    let common = common.filter(|common| common.abs_diff(turn) <= common / 10);
    config.rotation = Nanos(common.unwrap_or(turn.max(1_000_000)));
    sources.push(match common {
        Some(_) => ("rotation", "measured: spread of near reads, to the next common speed"),
        None => ("rotation", "measured: spread of near reads; no common speed is near"),
    });
}

/// Reads at three distances give the three points of the curve, each less what is not seek.
fn seeks(config: &mut HddConfig, set: &Set<'_>, sources: &mut Sources) {
    let names = ["seek_track", "seek_average", "seek_full"];
    let points = [set.distance(0), set.distance(333), set.distance(980)];
    let [Some(near), Some(third), Some(full)] = points else {
        sources.extend(names.map(|name| (name, "assumed: typical of the class")));
        return;
    };
    let rest = config.overhead.0 + config.rotation.0 / 2;
    config.seek_full = Nanos(full.value.saturating_sub(rest));
    config.seek_average = Nanos(third.value.saturating_sub(rest)).min(config.seek_full);
    config.seek_track = Nanos(near.value.saturating_sub(rest)).min(config.seek_average);
    for _ in 0..ROUNDS {
        // Clamped as it goes, so that the model is one at every step.
        let at = modelled(Model::Hdd(*config), full);
        config.seek_full.0 = moved(config.seek_full.0, full.value, at);
        config.seek_average = config.seek_average.min(config.seek_full);
        let at = modelled(Model::Hdd(*config), third);
        config.seek_average.0 = moved(config.seek_average.0, third.value, at);
        config.seek_full = config.seek_full.max(config.seek_average);
        let at = modelled(Model::Hdd(*config), near);
        config.seek_track.0 = moved(config.seek_track.0, near.value, at);
        config.seek_track = config.seek_track.min(config.seek_average);
    }
    sources.push(("seek_track", "measured: reads 8 MiB apart, corrected by the model"));
    sources.push(("seek_average", "measured: reads a third of the size apart, corrected"));
    sources.push(("seek_full", "measured: reads 98 % of the size apart, corrected"));
}

fn depth(config: &mut HddConfig, set: &Set<'_>, sources: &mut Sources) {
    let alone = set.random(4, 1).expect("without it nothing is fitted");
    let Some(deep) = set.deepest(4).filter(|deep| deep.step.depth > 1) else {
        sources.push(("depth", "assumed: without NCQ"));
        return;
    };
    let gains = scaled(1_000, deep.value, alone.value) > NCQ_GAIN_PERMILLE;
    config.depth = if gains { 31 } else { 1 };
    sources.push(match gains {
        true => ("depth", "measured: random reads gain from depth; SATA has 31 usable tags"),
        false => ("depth", "measured: random reads gain nothing from depth"),
    });
}

fn writes(config: &mut HddConfig, set: &Set<'_>, sources: &mut Sources) {
    let names = ["write_cache", "write_permille", "write_settle"];
    let reads = set.random(4, 1).expect("without it nothing is fitted");
    let Some(random) = set.random_write(1) else {
        let why = "assumed: typical of the class; writes were not measured";
        sources.extend(names.map(|name| (name, why)));
        return;
    };
    if random.low.0 > reads.low.0 / 2 {
        config.write_cache = Bytes::ZERO;
        sources.push(("write_cache", "measured: no write is quicker than a read"));
    } else {
        sources.push(("write_cache", "assumed: its size; that there is one is measured"));
    }
    if let Some(real) = set.flush(1) {
        config.write_settle = Nanos::ZERO;
        for _ in 0..ROUNDS {
            let at = modelled(Model::Hdd(*config), real);
            config.write_settle.0 = moved(config.write_settle.0, real.value, at);
        }
        sources.push(("write_settle", "measured: a flush after one write, over the model's"));
    } else {
        sources.push(("write_settle", "assumed: typical of the class"));
    }
    if let Some(real) = set.sequential_write() {
        for _ in 0..ROUNDS {
            let at = modelled(Model::Hdd(*config), real);
            config.write_permille = scaled(config.write_permille, real.value, at).clamp(10, 1_000);
        }
        sources.push(("write_permille", "measured: sequential writes over reads"));
    } else {
        sources.push(("write_permille", "assumed: writes as fast as it reads"));
    }
}
