//! The FUSE frontend: a directory, mounted over itself or elsewhere, whose files are read and
//! written through a device.
//!
//! ```text
//!  program ─► kernel ─► tree/   names, attributes, locks: passed through to the directory below
//!                        │
//!                        ▼
//!                      data.rs  read, write, fsync: who is it (who/), where is it on the disk,
//!                        │      may it go on now (the engine of the device)
//!                        ▼
//!                      the real file
//! ```

mod backing;
mod caller;
mod claiming;
mod closing;
pub(crate) mod extents;
pub(crate) mod file_spaces;
mod filesystem;
pub mod image;
mod in_use;
mod inflight_operations;
mod layout;
pub mod mounting;
pub mod mounts;
pub(crate) mod pending_replies;
mod read_ahead;
pub mod record;
mod scheduled;
pub(crate) mod session;
pub(crate) mod tree;
mod watch;
pub mod who;

pub(crate) use tree::trim::raise_descriptors;

#[cfg(test)]
pub(crate) mod tiny;

pub use session::Ended;
