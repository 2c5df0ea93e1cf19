//! Disk models without I/O and without a clock, a modelled page cache, and the [`pump`] that joins
//! an engine to them or to a real disk. Deterministic: the same calls at the same times give the
//! same answers.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod disk;
pub mod faulty;
pub mod hdd;
pub mod model;
pub mod model_file;
pub mod modelled;
pub mod nfs;
pub mod null;
pub mod page_cache;
pub mod presets;
pub mod pump;
pub mod scripted;
pub mod slowed;
pub mod ssd;
pub mod units;

mod due;

#[cfg(test)]
mod models_page;
#[cfg(test)]
mod testing;

pub use disk::{Command, Completion, Disk, DiskStats};
