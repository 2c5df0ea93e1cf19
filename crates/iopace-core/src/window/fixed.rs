//! A fixed number of requests in flight.
//!
//! # Model
//! `in_flight < depth`, whatever the device does. With depth 1 the scheduler decides everything;
//! with the device's full depth the device's own queue decides.
//!
//! # Properties
//! 1. At most `depth` requests are in flight, unless it was lowered under load; then none starts
//!    until enough are done.
//! 2. One request may always start on an idle device.
//! 3. At most [`super::WRITE_BACK_DEPTH`] write-back requests are in line, and one may always be.
//!
//! # When it does not know
//! The frontend sets the depth that the device says it has.
//!
//! # Limits
//! Too deep and the scheduler has no say, too shallow and the device idles: it does not learn.

use super::{AnyWindow, Window, WindowPolicy};
use crate::limits::WINDOW_DEPTH_MAX;

/// The registry's line.
pub static POLICY: WindowPolicy = WindowPolicy {
    name: "fixed",
    summary: "a fixed number of requests, whatever the device does",
    build: |depth| AnyWindow::Fixed(Fixed::new(depth)),
};

/// The depth, at least 1.
#[derive(Debug)]
pub struct Fixed(u32);

impl Fixed {
    /// A window of `depth` requests, brought into the legal range.
    pub fn new(depth: u32) -> Fixed {
        Fixed(depth.clamp(1, WINDOW_DEPTH_MAX))
    }
}

impl Window for Fixed {
    fn depth(&self) -> u32 {
        self.0
    }

    fn set_depth(&mut self, depth: u32) {
        self.0 = depth.clamp(1, WINDOW_DEPTH_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;
    use crate::units::Bytes;
    use crate::verdict::{Reason, Verdict};
    use crate::window::{WRITE_BACK_DEPTH, WriteBack};

    #[test]
    fn p1_at_most_depth_are_in_flight() {
        let mut window = Fixed::new(4);
        assert!(window.has_room(3) && !window.has_room(4));
        window.set_depth(2);
        assert!(!window.has_room(3) && !window.has_room(2) && window.has_room(1));
    }

    #[test]
    fn p2_one_may_always_start_on_an_idle_device() {
        assert!(Fixed::new(0).has_room(0));
    }

    #[test]
    fn p3_so_much_write_back_is_in_line() {
        let mut window = Fixed::new(4);
        let in_line = |requests_count| WriteBack { requests_count, ..WriteBack::default() };
        let mut ask = |count| window.write_back(Instant::ZERO, &in_line(count), Bytes(4096));
        assert_eq!((ask(0), ask(WRITE_BACK_DEPTH - 1)), (Verdict::Pass, Verdict::Pass));
        assert_eq!(ask(WRITE_BACK_DEPTH), Verdict::Wait(Instant::NEVER, Reason::Window));
    }
}
