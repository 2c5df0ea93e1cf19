//! What is measured, step by step.

use iopace_core::request::Op;
use std::fmt;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Block after block, from that many thousandths of the capacity on.
    Sequential {
        /// Reads or writes.
        op: Op,
        /// Where it begins.
        at_permille: u64,
    },
    /// Places anywhere; so many of a hundred are reads, the others writes.
    Random {
        /// 100: reads only; 0: writes only.
        read_percent: u64,
    },
    /// The same block over and over, the quickest of them: what the interface and the disk's own
    /// buffer cost.
    Again,
    /// A read anywhere, then one at that distance, which is timed.
    Distance {
        /// In thousandths of the capacity; zero: 8 MiB, or a sixteenth of a small disk.
        permille: u64,
    },
    /// So many random writes, then a flush, which is timed.
    Flush {
        /// Writes before it.
        writes: u64,
    },
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// Bytes per second.
    BytesPerSec,
    /// Requests per second.
    PerSecond,
    /// Nanoseconds; the mean, but for [`StepKind::Again`].
    Nanos,
}

impl FigureUnit {
    /// `B/s`, `1/s` or `ns`.
    pub fn name(self) -> &'static str {
        match self {
            FigureUnit::BytesPerSec => "B/s",
            FigureUnit::PerSecond => "1/s",
            FigureUnit::Nanos => "ns",
        }
    }
}

/// One step: a load of one kind, and one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// What it does.
    pub kind: StepKind,
    /// Bytes per request.
    pub block_bytes: u64,
    /// Requests outstanding.
    pub depth: u32,
}

impl PlanStep {
    /// The unit of its figure.
    pub fn unit(&self) -> FigureUnit {
        match self.kind {
            StepKind::Sequential { .. } => FigureUnit::BytesPerSec,
            StepKind::Random { .. } => FigureUnit::PerSecond,
            StepKind::Again | StepKind::Distance { .. } | StepKind::Flush { .. } => {
                FigureUnit::Nanos
            }
        }
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        match self.kind {
            StepKind::Sequential { op, .. } => op == Op::Write,
            StepKind::Random { read_percent } => read_percent < 100,
            StepKind::Flush { .. } => true,
            StepKind::Again | StepKind::Distance { .. } => false,
        }
    }

    /// Its share of the time, to that of the others: what is fitted by differences of means gets
    /// more.
    pub fn weight(&self) -> u64 {
        match self.kind {
            StepKind::Distance { .. } => 3,
            StepKind::Again => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for PlanStep {
    /// For example `read-random-4k-x16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = match self.block_bytes {
            bytes if bytes >= 1 << 20 => format!("{}m", bytes >> 20),
            bytes => format!("{}k", bytes >> 10),
        };
        let depth = self.depth;
        match self.kind {
            StepKind::Sequential { op, at_permille } => {
                let what = if op == Op::Write { "write" } else { "read" };
                write!(f, "{what}-sequential-{block}-x{depth}-at-{at_permille}")
            }
            StepKind::Random { read_percent: 100 } => write!(f, "read-random-{block}-x{depth}"),
            StepKind::Random { read_percent: 0 } => write!(f, "write-random-{block}-x{depth}"),
            StepKind::Random { read_percent } => write!(f, "mix-{read_percent}-{block}-x{depth}"),
            StepKind::Again => write!(f, "read-again-{block}"),
            StepKind::Distance { permille: 0 } => write!(f, "read-near-{block}"),
            StepKind::Distance { permille } => write!(f, "read-distance-{permille}-{block}"),
            StepKind::Flush { writes } => write!(f, "flush-after-{writes}"),
        }
    }
}

/// Distances at which seeks are timed, in thousandths of the capacity.
pub(super) const DISTANCES: [u64; 7] = [0, 10, 50, 150, 333, 660, 980];

/// The nearest and the farthest of them.
const NEAR: u64 = DISTANCES[0];
const FAR: u64 = DISTANCES[DISTANCES.len() - 1];

/// Depths of the sweep.
pub(super) const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Writes before a flush.
pub(super) const FLUSHES: [u64; 3] = [1, 16, 256];

const KIB4: u64 = 4 << 10;
const KIB64: u64 = 64 << 10;
const KIB128: u64 = 128 << 10;
const MIB: u64 = 1 << 20;

/// All steps, reads first; those that write only if that is allowed. The first two are those
/// without which there is no model, the next two tell whether the disk has a head: whoever stops
/// early has a model of what was measured.
pub fn plan(may_write: bool) -> Vec<PlanStep> {
    let step = |kind, block_bytes, depth| PlanStep { kind, block_bytes, depth };
    let read = |at_permille| StepKind::Sequential { op: Op::Read, at_permille };
    let random = StepKind::Random { read_percent: 100 };
    let distance = |permille| step(StepKind::Distance { permille }, KIB4, 1);
    let mut steps = vec![
        step(read(0), MIB, 1),
        step(random, KIB4, 1),
        distance(NEAR),
        distance(FAR),
        step(read(0), KIB4, 1),
        step(read(0), KIB64, 1),
        step(read(0), MIB, 8),
        step(read(500), MIB, 1),
        step(read(970), MIB, 1),
        step(StepKind::Again, KIB4, 1),
        step(StepKind::Again, KIB128, 1),
    ];
    let sweep = [KIB4, KIB64].into_iter().flat_map(|block| DEPTHS.map(|depth| (block, depth)));
    let others = sweep.map(|(block, depth)| step(random, block, depth));
    for other in others.chain(DISTANCES.map(distance)) {
        if !steps.contains(&other) {
            steps.push(other);
        }
    }
    if may_write {
        let write = StepKind::Sequential { op: Op::Write, at_permille: 0 };
        steps.push(step(StepKind::Random { read_percent: 0 }, KIB4, 1));
        steps.push(step(StepKind::Random { read_percent: 0 }, KIB4, 32));
        steps.extend(FLUSHES.map(|writes| step(StepKind::Flush { writes }, KIB4, 1)));
        steps.push(step(StepKind::Random { read_percent: 70 }, KIB4, 16));
        steps.push(step(StepKind::Random { read_percent: 30 }, KIB64, 16));
        steps.push(step(write, MIB, 8));
    }
    steps
}
