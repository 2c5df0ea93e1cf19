//! The parameters of a flash disk.
//!
//! | parameter | rule |
//! |---|---|
//! | `rate_bus` | the fastest sequential read |
//! | `depth` | 1 if random reads gain nothing from depth, else what was tried at most |
//! | `command_time` | one over the random reads per second at full depth |
//! | `overhead` | a random write at depth 1 less the others, at most half; else an eighth |
//! | `read_time` | a random read at depth 1 less the others |
//! | `units` | the power of two with the nearest sweep over depth, by running the model |
//! | `program_time` | sequential writes: a stripe on every unit in that time |
//! | `flush_time` | a flush after one random write, over the model without it |
//! | `gc_permille` | random writes at depth 32, where the model is too fast without |

use super::{Model, Set, compare, mean_error, modelled, moved, scaled};
use crate::calibrate::measure::Figure;
use crate::calibrate::plan::StepKind;
use crate::calibrate::{DEPTH_MAX, plan::FigureUnit};
use crate::ssd::SsdConfig;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// Rounds of correction.
const ROUNDS: usize = 3;

/// A page of flash as programmed at once; no step shows it apart from `units`.
const STRIPE: Bytes = Bytes(16 << 10);

/// As of the presets; a step of seconds fills it.
const WRITE_CACHE: Bytes = Bytes(32 << 20);

/// Random reads that gain this much from depth (in thousandths) show units side by side.
const GAIN_PERMILLE: u64 = 1_150;

/// Numbers of units that are tried.
const UNITS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

type Sources = Vec<(&'static str, &'static str)>;

/// Fits a flash disk.
pub(super) fn fit(set: &Set<'_>) -> (SsdConfig, Sources) {
    let mut sources: Sources = vec![("capacity", "measured: size of the disk or file")];
    let mut config = assumed(set, &mut sources);
    times(&mut config, set, &mut sources);
    units(&mut config, set);
    sources.push(("units", "measured: the power of two with the nearest sweep over depth"));
    writes(&mut config, set, &mut sources);
    (config, sources)
}

fn assumed(set: &Set<'_>, sources: &mut Sources) -> SsdConfig {
    sources.push(("stripe", "assumed: a page of flash"));
    sources.push(("write_cache", "assumed: typical of the class"));
    let collection = "assumed: the cost of random writes is that of the time of the measurement";
    sources.extend(["spare", "clean_rate"].map(|name| (name, collection)));
    let by_page = "assumed: maps every page by itself";
    sources.extend(["block", "open_blocks", "merge_time"].map(|name| (name, by_page)));
    let in_sequence = set
        .figures
        .iter()
        .filter(|figure| figure.step.unit() == FigureUnit::BytesPerSec && !figure.step.writes());
    let fastest = in_sequence.map(|figure| figure.value).max().unwrap_or_default();
    sources.push(("rate_bus", "measured: the fastest sequential read"));
    let alone = set.random(4, 1).expect("without it nothing is fitted");
    let deep = set.deepest(4).unwrap_or(alone);
    let gains = scaled(1_000, deep.value, alone.value) > GAIN_PERMILLE;
    sources.push(match gains {
        true => ("depth", "measured: the depth that was tried at most"),
        false => ("depth", "measured: random reads gain nothing from depth"),
    });
    SsdConfig {
        capacity: Bytes(set.capacity.get() / 512 * 512),
        units: 16,
        stripe: STRIPE,
        command_time: Nanos::ZERO,
        overhead: Nanos::ZERO,
        read_time: Nanos::ZERO,
        program_time: Nanos::ZERO,
        rate_bus: BytesPerSec(fastest.max(100_000)),
        write_cache: WRITE_CACHE,
        spare: Bytes::ZERO,
        gc_permille: 1_000,
        clean_rate: BytesPerSec(0),
        block: Bytes::ZERO,
        open_blocks: 0,
        merge_time: Nanos::ZERO,
        flush_time: Nanos::ZERO,
        depth: if gains { DEPTH_MAX } else { 1 },
    }
}

/// The parts of a lone read.
fn times(config: &mut SsdConfig, set: &Set<'_>, sources: &mut Sources) {
    let alone = set.random(4, 1).expect("without it nothing is fitted");
    let latency = 1_000_000_000 / alone.value.max(1);
    let deep = set.deepest(4).filter(|_| config.depth > 1);
    config.command_time = Nanos(match deep {
        Some(deep) => (1_000_000_000 / deep.value.max(1)).min(latency),
        None => latency / 4,
    });
    sources.push(match deep {
        Some(_) => ("command_time", "measured: random reads of 4 KiB at full depth"),
        None => ("command_time", "assumed: a quarter of a lone read"),
    });
    let transfer = config.rate_bus.time_for(Bytes(4 << 10));
    let others = config.command_time.0 + transfer.0;
    let write = set.random_write(1).map(|figure| 1_000_000_000 / figure.value.max(1));
    let overhead = write.map_or(latency / 8, |write| write.saturating_sub(others));
    // A disk that writes slower than it reads would leave no time for the read itself.
    config.overhead = Nanos(overhead.min(latency.saturating_sub(others) / 2));
    sources.push(match write {
        Some(_) => ("overhead", "measured: random writes of 4 KiB at depth 1, less the rest"),
        None => ("overhead", "assumed: an eighth of a lone read"),
    });
    config.read_time = Nanos(latency.saturating_sub(others + config.overhead.0));
    sources.push(("read_time", "measured: random reads of 4 KiB at depth 1, less the rest"));
}

/// Tries every number of units on the sweep over depth, then corrects the times.
fn units(config: &mut SsdConfig, set: &Set<'_>) {
    let is_sweep = |figure: &&Figure| figure.step.kind == StepKind::Random { read_percent: 100 };
    let sweep: Vec<Figure> = set.figures.iter().filter(is_sweep).copied().collect();
    let tried = UNITS.iter().map(|&units| {
        let candidate = corrected(SsdConfig { units, ..*config }, set);
        (mean_error(&compare(&Model::Ssd(candidate), &sweep)), candidate)
    });
    // Of equals the first: fewer units claim less.
    let best = tried.min_by_key(|(error, _)| *error);
    *config = best.expect("some are tried").1;
}

/// Moves the time of a read, of a command and the rate to where the model shows what was measured.
fn corrected(mut config: SsdConfig, set: &Set<'_>) -> SsdConfig {
    let alone = set.random(4, 1).expect("without it nothing is fitted");
    let fastest = set.sequential(1024, 8, 0);
    for _ in 0..ROUNDS {
        let at = modelled(Model::Ssd(config), alone);
        let (real, is) = (1_000_000_000 / alone.value.max(1), 1_000_000_000 / at.max(1));
        config.read_time.0 = moved(config.read_time.0, real, is);
        if let Some(deep) = set.deepest(4).filter(|_| config.depth > 1) {
            let at = modelled(Model::Ssd(config), deep);
            // Only downwards: a model that is too slow may be so for want of units.
            config.command_time.0 = scaled(config.command_time.0, at.min(deep.value), deep.value);
        }
        if let Some(fastest) = fastest {
            let at = modelled(Model::Ssd(config), fastest);
            let rate = scaled(config.rate_bus.0, fastest.value, at);
            config.rate_bus.0 = rate.clamp(config.rate_bus.0, config.rate_bus.0 * 2);
        }
    }
    config
}

fn writes(config: &mut SsdConfig, set: &Set<'_>, sources: &mut Sources) {
    let stripes = config.units as u64 * STRIPE.get();
    if let Some(real) = set.sequential_write() {
        config.program_time.0 = scaled(stripes, 1_000_000_000, real.value);
        for _ in 0..ROUNDS {
            let at = modelled(Model::Ssd(*config), real);
            config.program_time.0 = scaled(config.program_time.0, at, real.value);
        }
        sources.push(("program_time", "measured: sequential writes of 1 MiB"));
    } else {
        config.program_time.0 = scaled(stripes, 1_000_000_000, config.rate_bus.0);
        sources.push(("program_time", "assumed: writes as fast as it reads"));
    }
    collection(config, set, sources);
    // Last, as it is what the rest does not explain.
    if let Some(real) = set.flush(1) {
        let at = modelled(Model::Ssd(*config), real);
        config.flush_time.0 = real.value.saturating_sub(at);
        sources.push(("flush_time", "measured: a flush after one write, over the model's"));
    } else {
        sources.push(("flush_time", "assumed: none; flushes were not measured"));
    }
}

/// What random writes cost beside their own programs.
fn collection(config: &mut SsdConfig, set: &Set<'_>, sources: &mut Sources) {
    let Some(real) = set.random_write(32) else {
        sources.push(("gc_permille", "assumed: no copying"));
        return;
    };
    let at = modelled(Model::Ssd(*config), real);
    // A tenth is noise, not copying.
    if at > real.value + real.value / 10 {
        config.gc_permille = scaled(1_000, at, real.value).clamp(1_000, 100_000);
    }
    sources.push(("gc_permille", "measured: random writes at depth 32"));
}
