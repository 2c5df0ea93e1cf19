//! The requests that a live device got, in a file, and their replay under the same settings.
//!
//! [`format`](mod@format) is the file that `iopace record` writes (`reading.rs` reads it),
//! [`replay`] runs it on a disk model, and [`report`] puts the recorded latencies beside the
//! replayed ones.

pub mod format;
mod late;
mod load;
mod reading;
pub mod replay;
pub mod report;
mod run;

pub use format::{
    Device, End, Group, Header, Name, RecordedPace, RecordingFile, Request, Scheduler, Window,
};
pub use reading::{NAMES_MAX, REQUESTS_MAX};
pub use replay::{RecordedReplay, ReplaySettings};
pub use report::{Figures, Report, ReportRow};

#[cfg(test)]
mod tests;
