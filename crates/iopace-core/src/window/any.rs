//! A window policy at work, whichever it is.

use super::fixed::Fixed;
use super::{Started, Window};
use crate::request::Done;
use crate::time::Instant;
use core::ops::{Deref, DerefMut};

/// A policy at work. Three calls are made for every request, of which the fixed one has no use for
/// two: they cost nothing there.
#[derive(Debug)]
pub enum AnyWindow {
    /// The default.
    Fixed(Fixed),
    /// Another one.
    Other(Box<dyn Window>),
}

impl AnyWindow {
    /// As [`Window::has_room`].
    #[inline(always)]
    pub fn has_room(&self, in_flight: u32) -> bool {
        match self {
            AnyWindow::Fixed(fixed) => fixed.has_room(in_flight),
            AnyWindow::Other(window) => window.has_room(in_flight),
        }
    }

    /// As [`Window::on_start`].
    #[inline(always)]
    pub fn on_start(&mut self, now: Instant, started: &Started) {
        if let AnyWindow::Other(window) = self {
            window.on_start(now, started);
        }
    }

    /// As [`Window::on_done`].
    #[inline(always)]
    pub fn on_done(&mut self, now: Instant, done: &Done) {
        if let AnyWindow::Other(window) = self {
            window.on_done(now, done);
        }
    }
}

impl Deref for AnyWindow {
    type Target = dyn Window;

    fn deref(&self) -> &(dyn Window + 'static) {
        match self {
            AnyWindow::Fixed(fixed) => fixed,
            AnyWindow::Other(window) => &**window,
        }
    }
}

impl DerefMut for AnyWindow {
    fn deref_mut(&mut self) -> &mut (dyn Window + 'static) {
        match self {
            AnyWindow::Fixed(fixed) => fixed,
            AnyWindow::Other(window) => &mut **window,
        }
    }
}
