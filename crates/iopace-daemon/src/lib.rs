//! The running iopace: the only crate with sockets, threads and clocks.
//!
//! The path of a request: [`nbd`] reads it from a socket, [`device`] puts it before its engine and
//! carries out what the engine says, [`io`] is the disk, and the reply goes back through [`nbd`].
//!
//! The modules stand in layers, the lowest first; none knows one above it (`cargo xtask tidy` holds
//! that). A frontend (`nbd`, `fuse`, `vhost_user`, `ublk`) is one folder: a device knows it by
//! [`answer`] only.

// What all may use.
pub mod api;
pub mod attached;
pub mod below;
pub mod buffer;
pub mod clock;
mod device_mapper;
pub mod figures;
pub mod given;
mod held;
#[cfg(any(test, feature = "fuzzing"))]
mod hostile;
pub mod insertion;
pub mod ioprio;
pub mod kernel;
pub mod limits;
pub mod listener;
pub mod loadable;
pub mod memory;
pub mod mount_error;
pub mod mount_table;
pub mod nbd_uri;
mod percent;
pub mod printable;
pub mod resident;
pub mod runtime_files;
mod spin;
mod start_error;
pub mod timer;
pub mod tls;

// The system: its processes, what a user configures of it.
mod process;
mod rules;

pub mod config;

// Disks, and an engine before each.
pub mod io;

pub mod answer;
pub mod job;

pub mod device;

pub mod device_table;
mod dirty;

// Who pays.
mod caps;
pub mod change;
pub mod exports;
pub mod groups;
pub mod report;

// Frontends.
pub mod fuse;
pub mod nbd;
pub mod ublk;
mod vhost_user;

// All of it, running; what is seen of it, and how it is controlled.
pub mod live;

mod opening;

mod cluster;
pub mod daemon;
pub mod exporting;
pub mod reload;

pub mod control;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod measured;

pub use cluster::{Cluster, ClusterError};
pub use process::{MovedBytes, ProcessFamily, Thread, group_number, process_of, processes_named};
pub use rules::cgroup::cgroup_of;
pub use rules::{CgroupLimits, Rule, RuleError, Rules};
