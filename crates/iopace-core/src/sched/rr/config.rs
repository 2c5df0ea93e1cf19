//! The parameters of gsched_rr: names, bounds and defaults.

use crate::sched::{ParamSpec, Params};
use crate::time::Nanos;
use crate::units::Bytes;

/// Bounds and defaults.
pub(super) static PARAMS: [ParamSpec; 6] = [
    ParamSpec::new(
        "wait_ms",
        "ms",
        [1, 10, 30],
        "longest anticipation; about one seek with its rotation, so waiting costs at most \
              what it may save",
    ),
    ParamSpec::new(
        "quantum_ms",
        "ms",
        [1, 100, 500],
        "slice in time, counted from its first completion; ten seeks long, so switching \
              costs about a tenth",
    ),
    ParamSpec::new(
        "quantum_kb",
        "KiB",
        [16, 8192, 65536],
        "slice in bytes; what an 80 MB/s disk moves in 100 ms",
    ),
    ParamSpec::new(
        "queue_depth",
        "requests",
        [0, 0, 50],
        "requests at the disk at once; one gives this scheduler all the say; 0 is one, and on \
              a disk that is known to have no head as many as stage window lets",
    ),
    ParamSpec::new(
        "bypass",
        "0/1",
        [0, 0, 1],
        "pass new requests through in order of arrival and hold nothing back",
    ),
    ParamSpec::new("w_anticipate", "0/1", [0, 1, 1], "anticipate after writes too"),
];

/// The parameters in force, in the core's units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RrConfig {
    pub(super) wait: Nanos,
    pub(super) quantum: Nanos,
    pub(super) quantum_bytes: Bytes,
    /// 0: the disk decides.
    pub(super) queue_depth: u32,
    pub(super) bypass: bool,
    pub(super) w_anticipate: bool,
}

impl RrConfig {
    pub(super) fn new(params: &Params) -> RrConfig {
        RrConfig {
            wait: Nanos::from_millis(params.get(0)),
            quantum: Nanos::from_millis(params.get(1)),
            quantum_bytes: Bytes::from_kib(params.get(2)),
            queue_depth: u32::try_from(params.get(3)).expect("bounded by its spec"),
            bypass: params.is_on(4),
            w_anticipate: params.is_on(5),
        }
    }
}
