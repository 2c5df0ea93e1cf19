//! How a device stood at an instant, and how long a writer had to wait.

use iopace_core::pace;
use iopace_core::time::{Instant, Nanos};
use iopace_core::verdict::Reason;
use iopace_core::window;

/// A look at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub at: Instant,
    /// Stage pace and dirty memory.
    pub pace: pace::PacePicture,
    /// Stage window.
    pub window: window::WindowPicture,
    /// Requests at the disk.
    pub in_flight_count: usize,
    /// Requests in line: without a slot, or in the scheduler.
    pub queued_count: usize,
    /// Buffered writes that wait.
    pub paced_count: usize,
    /// Why nothing more started.
    pub reason: Reason,
    /// Time that the disk has been busy since the beginning.
    pub disk_busy: Nanos,
}

/// A writer that had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When the wait ended.
    pub at: Instant,
    /// Which task of the scenario.
    pub task: usize,
    /// For how long the write was held up.
    pub pause: Nanos,
}
