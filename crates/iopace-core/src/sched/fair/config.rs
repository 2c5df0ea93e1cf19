//! Its parameters: names, bounds and defaults.

use crate::sched::{ParamSpec, Params};
use crate::time::Nanos;
use crate::units::Bytes;

/// Bounds and defaults.
pub(super) static PARAMS: [ParamSpec; 5] = [
    ParamSpec::new(
        "quantum_ms",
        "ms",
        [1, 100, 500],
        "device time that a task has in one go on a disk with a head; ten seeks long, so \
              switching costs about a tenth; flash switches after every request",
    ),
    ParamSpec::new(
        "quantum_kb",
        "KiB",
        [16, 8192, 65536],
        "the same in bytes, whichever ends first; what an 80 MB/s disk moves in 100 ms",
    ),
    ParamSpec::new(
        "wait_ms",
        "ms",
        [0, 10, 30],
        "longest anticipation, for sequential tasks on a disk with a head only; 0 is never",
    ),
    ParamSpec::new(
        "idle_starve_ms",
        "ms",
        [10, 200, 10_000],
        "class idle gets one request beside busier classes when it had none for so long; \
              the value of BFQ",
    ),
    ParamSpec::new(
        "expire_ms",
        "ms",
        [100, 5_000, 60_000],
        "within a task a request is passed over by nearer ones for so long; the value of \
              mq-deadline for writes",
    ),
];

/// The parameters in force, in the core's units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FairConfig {
    pub(super) quantum: Nanos,
    pub(super) quantum_bytes: Bytes,
    pub(super) wait: Nanos,
    /// A longer think time counts as this long.
    pub(super) think_max: Nanos,
    pub(super) idle_starve: Nanos,
    pub(super) expire: Nanos,
}

impl FairConfig {
    pub(super) fn new(params: &Params) -> FairConfig {
        FairConfig {
            quantum: Nanos::from_millis(params.get(0)),
            quantum_bytes: Bytes::from_kib(params.get(1)),
            wait: Nanos::from_millis(params.get(2)),
            think_max: Nanos::from_millis(params.get(2)).times(2),
            idle_starve: Nanos::from_millis(params.get(3)),
            expire: Nanos::from_millis(params.get(4)),
        }
    }
}
