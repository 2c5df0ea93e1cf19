//! The parameters of the disk that takes no time.

use super::{DEPTH_MAX, MIB, PIB};
use super::{ParameterUnit, Spec};
use crate::null::NullConfig;
use iopace_core::units::Bytes;

/// The parameters of [`NullConfig`], in its order.
pub const SPECS: [Spec; 2] = [
    Spec::new("capacity", ParameterUnit::Size, MIB, PIB, "its size, a multiple of 512 B"),
    Spec::new("depth", ParameterUnit::Count, 1, DEPTH_MAX, "commands held at once"),
];

/// The values of a configuration, in the order of [`SPECS`].
pub const fn values(config: &NullConfig) -> [u64; 2] {
    [config.capacity.0, config.depth as u64]
}

/// The configuration with these values, which are within the bounds of [`SPECS`].
pub(super) fn config(values: [u64; 2]) -> NullConfig {
    let [capacity, depth] = values;
    NullConfig { capacity: Bytes(capacity), depth: depth as u32 }
}
