//! Looking for a client's next request for a moment before sleeping.
//!
//! At depth 1 the client answers within some 10 µs, and putting a processor to sleep and waking it
//! costs more than that, in a virtual machine several times more. The rule is that of KVM's halt
//! polling: look for a moment where the last wait showed that a moment would have been enough, and
//! not at all after a longer one. Every look yields the processor to whoever can use it.

use crate::clock;
use crate::limits::{SPIN_MAX, SPIN_PAYS};
use iopace_core::time::Nanos;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Threads that spin now, in the whole process.
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// So many may: one processor is left to the clients. None where there is only one.
fn spinners_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| thread::available_parallelism().map_or(0, |count| count.get() - 1))
}

/// One connection's habit.
#[derive(Debug, Default)]
pub(super) struct Spin {
    /// Whether the last wait was short enough to have been spent spinning.
    pays: bool,
}

impl Spin {
    /// Bytes that arrived while looking; `None` if the caller is to wait for them, or for the end
    /// or error that waits there.
    pub(super) fn receive(&self, socket: BorrowedFd<'_>, space: &mut [u8]) -> Option<usize> {
        if !self.pays {
            return None;
        }
        let got = if SPINNING.fetch_add(1, Relaxed) < spinners_max() {
            look(socket, space)
        } else {
            None
        };
        SPINNING.fetch_sub(1, Relaxed);
        got
    }

    /// So long the thread slept until bytes came.
    pub(super) fn slept(&mut self, time: Nanos) {
        self.pays = time < SPIN_PAYS;
    }
}

fn look(socket: BorrowedFd<'_>, space: &mut [u8]) -> Option<usize> {
    let begin = clock::now();
    loop {
        match recv(socket, &mut *space, RecvFlags::DONTWAIT) {
            Ok((count, _)) if count > 0 => return Some(count),
            Err(Errno::AGAIN) if clock::now().since(begin) < SPIN_MAX => thread::yield_now(),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn looks_only_after_a_short_wait() {
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        theirs.write_all(b"request").expect("room");
        let mut space = [0; 16];
        let mut spin = Spin::default();
        assert_eq!(spin.receive(ours.as_fd(), &mut space), None);
        spin.slept(Nanos::from_micros(1));
        if spinners_max() > 0 {
            assert_eq!(spin.receive(ours.as_fd(), &mut space), Some(7));
        }
        assert_eq!(spin.receive(ours.as_fd(), &mut space), None, "nothing there: sleep");
        spin.slept(Nanos::from_millis(1));
        theirs.write_all(b"x").expect("room");
        assert_eq!(spin.receive(ours.as_fd(), &mut space), None);
    }

    #[test]
    fn leaves_the_end_of_the_stream_to_the_waiting_call() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        drop(theirs);
        let spin = Spin { pays: true };
        assert_eq!(spin.receive(ours.as_fd(), &mut [0; 16]), None);
    }
}
