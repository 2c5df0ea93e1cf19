//! Disk models without I/O and without a clock, a modelled page cache, and the [`machine`] that joins
//! them to an engine. Deterministic: the same calls at the same times give the same answers.
#![forbid(unsafe_code)]

pub mod disk;
pub mod machine;
pub mod page_cache;

pub use disk::{Command, Completion, Disk, DiskStats};
