//! Its parameters: names, bounds and defaults.

use crate::sched::{ParamSpec, Params};
use crate::time::Nanos;
use crate::units::Bytes;

/// Bounds and defaults.
pub(super) static PARAMS: [ParamSpec; 5] = [
    ParamSpec {
        name: "quantum_ms",
        unit: "ms",
        min: 1,
        default: 100,
        max: 500,
        doc: "device time that a task has in one go on a disk with a head; ten seeks long, so \
              switching costs about a tenth; flash switches after every request",
    },
    ParamSpec {
        name: "quantum_kb",
        unit: "KiB",
        min: 16,
        default: 8192,
        max: 65536,
        doc: "the same in bytes, whichever ends first; what an 80 MB/s disk moves in 100 ms",
    },
    ParamSpec {
        name: "wait_ms",
        unit: "ms",
        min: 0,
        default: 10,
        max: 30,
        doc: "longest anticipation, for sequential tasks on a disk with a head only; 0 is never",
    },
    ParamSpec {
        name: "idle_starve_ms",
        unit: "ms",
        min: 10,
        default: 200,
        max: 10_000,
        doc: "class idle gets one request beside busier classes when it had none for so long; \
              the value of BFQ",
    },
    ParamSpec {
        name: "expire_ms",
        unit: "ms",
        min: 100,
        default: 5_000,
        max: 60_000,
        doc: "within a task a request is passed over by nearer ones for so long; the value of \
              mq-deadline for writes",
    },
];

/// The parameters in force, in the core's units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) quantum: Nanos,
    pub(super) quantum_bytes: Bytes,
    pub(super) wait: Nanos,
    pub(super) idle_starve: Nanos,
    pub(super) expire: Nanos,
}

impl Config {
    pub(super) fn new(params: &Params) -> Config {
        Config {
            quantum: Nanos::from_millis(params.get(0)),
            quantum_bytes: Bytes::from_kib(params.get(1)),
            wait: Nanos::from_millis(params.get(2)),
            idle_starve: Nanos::from_millis(params.get(3)),
            expire: Nanos::from_millis(params.get(4)),
        }
    }
}
