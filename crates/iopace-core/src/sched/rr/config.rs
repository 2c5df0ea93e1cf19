//! The parameters of gsched_rr: names, bounds and defaults.

use crate::sched::{ParamSpec, Params};
use crate::time::Nanos;
use crate::units::Bytes;

/// Bounds and defaults.
pub(super) static PARAMS: [ParamSpec; 6] = [
    ParamSpec {
        name: "wait_ms",
        unit: "ms",
        min: 1,
        default: 10,
        max: 30,
        doc: "longest anticipation; about one seek with its rotation, so waiting costs at most \
              what it may save",
    },
    ParamSpec {
        name: "quantum_ms",
        unit: "ms",
        min: 1,
        default: 100,
        max: 500,
        doc: "slice in time, counted from its first completion; ten seeks long, so switching \
              costs about a tenth",
    },
    ParamSpec {
        name: "quantum_kb",
        unit: "KiB",
        min: 16,
        default: 8192,
        max: 65536,
        doc: "slice in bytes; what an 80 MB/s disk moves in 100 ms",
    },
    ParamSpec {
        name: "queue_depth",
        unit: "requests",
        min: 0,
        default: 0,
        max: 50,
        doc: "requests at the disk at once; one gives this scheduler all the say; 0 is one, and on \
              a disk that is known to have no head as many as stage window lets",
    },
    ParamSpec {
        name: "bypass",
        unit: "0/1",
        min: 0,
        default: 0,
        max: 1,
        doc: "pass new requests through in order of arrival and hold nothing back",
    },
    ParamSpec {
        name: "w_anticipate",
        unit: "0/1",
        min: 0,
        default: 1,
        max: 1,
        doc: "anticipate after writes too",
    },
];

/// The parameters in force, in the core's units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) wait: Nanos,
    pub(super) quantum: Nanos,
    pub(super) quantum_bytes: Bytes,
    /// 0: the disk decides.
    pub(super) queue_depth: u32,
    pub(super) bypass: bool,
    pub(super) w_anticipate: bool,
}

impl Config {
    pub(super) fn new(params: &Params) -> Config {
        Config {
            wait: Nanos::from_millis(params.get(0)),
            quantum: Nanos::from_millis(params.get(1)),
            quantum_bytes: Bytes::from_kib(params.get(2)),
            queue_depth: u32::try_from(params.get(3)).expect("bounded by its spec"),
            bypass: params.is_on(4),
            w_anticipate: params.is_on(5),
        }
    }
}
