//! iopace in virtual time: what a disk and its users do under a scheduler, known before it is
//! tried.
//!
//! The simulator turns the crank of the very code that the daemon runs (engine, schedulers, page
//! cache and disk models), with made-up time and made-up programs. One run is one disk, one thread
//! and one seed; the same scenario gives the same bytes on every machine and in every build.
//!
//! - [`scenario`]: stories as data, read from files or made in code; [`judge`] carries one out and
//!   checks what must hold.
//! - [`task`]: the programs (`dd`, `cvs`, plain patterns), usable by live clients too.
//! - [`inputs`]: traces and fio job files; [`replay`] carries them out.
//! - [`run`]: the event loop. [`report`]: what comes out. [`trace`]: looks at the device meanwhile.
//! - [`record`]: a run in time steps. [`recorded`]: requests of a live device, in a file, and their
//!   replay.
//! - [`tables`]: the outcome tables beside the figures of their sources. [`sweep`]:
//!   trade-off curves. [`score`]: policies on a fixed set of mixes and disks. [`fuzz`]: random
//!   scenarios, and what fails of them made small.
#![forbid(unsafe_code)]

pub mod scenario;
pub mod schema;
pub mod task;

pub mod fleet;
pub mod hosts;
pub mod judge;
pub mod night;
pub mod readprio;
pub mod replay;
pub mod run;

pub mod figure;
pub mod fuzz;
pub mod inputs;
pub mod look;
pub mod record;
pub mod recorded;
pub mod report;
pub mod score;
pub mod trace;

pub mod spelling;
pub mod starters;
pub mod stories;
pub mod study;
pub mod sweep;
pub mod tables;

pub mod milli;
pub mod random;
pub mod units;

pub mod tally;

mod blocking;
mod disks;
mod markup;
pub mod parallel;
mod svg;
