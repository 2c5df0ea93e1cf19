//! The class of a request for the kernel's scheduler below: bfq and mq-deadline go by it.
//!
//! A read or write past the page cache has a class of its own in io_uring. All else, such as what
//! the kernel reads into its cache and writes back from it, is of the class of the thread that has
//! it done: threads of a pool take that of each request for as long as they carry it out.
//!
//! # Limits
//! Reads through the page cache by io_uring are of the class of the daemon, and so are flushes: a
//! commit waits for them. Levels within best-effort are not passed on: those are weights here,
//! which count among siblings only.

use crate::ioprio::{self, IoPriority};
use iopace_core::group::Class;
use std::io;

/// As `ioprio_set(2)` takes it; zero is none, that of the thread.
pub(super) fn of(class: Class) -> u16 {
    match class {
        Class::BestEffort => 0,
        class => IoPriority::from(class).0,
    }
}

/// Whether this thread may ask for real-time: with `CAP_SYS_NICE`.
pub(super) fn may_be_real_time() -> bool {
    let before = own();
    let may = set(of(Class::RealTime)).is_ok();
    if may {
        // As it was, which is always allowed.
        let _ = set(before);
    }
    may
}

/// What this thread does until this is dropped is of a class.
#[derive(Debug)]
pub(super) struct Meanwhile {
    before: Option<u16>,
}

impl Meanwhile {
    /// Best-effort is what the thread has anyway, and costs nothing. What is not allowed here is
    /// left out: the request counts, its class is a wish.
    pub(super) fn of_class(class: Class) -> Meanwhile {
        let is_other = class != Class::BestEffort;
        let before = is_other.then(own).filter(|_| set(of(class)).is_ok());
        Meanwhile { before }
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Back to best-effort is always allowed.
            let _ = set(before);
        }
    }
}

/// That of this thread.
fn own() -> u16 {
    ioprio::get(0).map(|IoPriority(own)| own).unwrap_or_default()
}

/// Sets that of this thread.
fn set(ioprio: u16) -> io::Result<()> {
    ioprio::set(0, IoPriority(ioprio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_class_of_a_request_for_as_long_as_it_lasts() {
        let before = own();
        {
            let _meanwhile = Meanwhile::of_class(Class::Idle);
            assert_eq!(own(), of(Class::Idle));
        }
        {
            let _meanwhile = Meanwhile::of_class(Class::BestEffort);
            assert_eq!(own(), before);
        }
        let may = may_be_real_time();
        {
            let _meanwhile = Meanwhile::of_class(Class::RealTime);
            assert_eq!(own() == of(Class::RealTime), may);
        }
        assert_eq!(own(), before);
    }
}
