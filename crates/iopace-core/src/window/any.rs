//! A window policy at work, whichever it is.

use super::Window;
use super::fixed::Fixed;
use core::ops::{Deref, DerefMut};

/// A policy at work. Three calls are made for every request, of which the fixed one has no use for
/// two: what they are told is not put together there.
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

    /// The policy, if it is one that is told of starts and completions.
    #[inline(always)]
    pub fn learning(&mut self) -> Option<&mut (dyn Window + 'static)> {
        match self {
            AnyWindow::Fixed(_) => None,
            AnyWindow::Other(window) => Some(&mut **window),
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
