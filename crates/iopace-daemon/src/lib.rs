//! The running iopace: the only crate with sockets, threads and clocks.
//!
//! The path of a request: [`nbd`] reads it from a socket, [`device`] puts it before its engine and
//! carries out what the engine says, [`io`] is the disk, and the reply goes back through [`nbd`].

pub mod below;
pub mod config;
pub mod control;
pub mod daemon;
mod dirty;
pub mod figures;
pub mod groups;
#[cfg(any(test, feature = "fuzzing"))]
pub mod hostile;
pub mod job;
pub mod kernel;
pub mod measured;
mod opening;
pub mod printable;
mod process;
pub mod runtime_files;
pub use process::process_of;
mod start_error;

pub mod nbd;

pub mod fuse;

pub mod device;

pub mod io;

pub mod buffer;
mod caps;
pub mod clock;
pub mod limits;
pub mod live;
pub mod memory;
pub mod timer;
