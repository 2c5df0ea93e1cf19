//! A thread that receives requests and carries them out.

use super::Shared;
use super::dispatch::dispatch;
use super::users::{Entered, Parked};
use crate::device::Device;
use crate::errno::Errno;
use crate::filesystem::Filesystem;
use crate::flags::WriteFlags;
use crate::parse::{Layout, Malformed, Operation, parse};
use crate::reply::Raw;
use crate::subordinate::look_again;
use crate::wire::input::InHeader;
use crate::wire::opcode::{BATCH_FORGET, FORGET, INTERRUPT, READ, RELEASE, RELEASEDIR, WRITE};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use zerocopy::FromBytes;

/// Whether a request may not be refused, however much waits: the end of a file's use, of which
/// there are no more than open or known files, and write-back, of which the kernel asks for no more
/// than may be dirty, and whose data would be lost.
fn is_kept(opcode: u32, bytes: &[u8], layout: Layout) -> bool {
    match opcode {
        RELEASE | RELEASEDIR | FORGET | BATCH_FORGET => true,
        WRITE => parse(bytes, layout).is_ok_and(|parsed| match parsed.operation {
            Operation::Write(write) => write.how.contains(WriteFlags::FUSE_WRITE_CACHE),
            _ => false,
        }),
        _ => false,
    }
}

/// Whether the kernel may ask it without anybody who waits: pages are read ahead in requests that
/// look like those that a program waits for, and so do direct reads and writes of asynchronous I/O.
/// Any other write is waited for, but for write-back.
fn is_background(opcode: u32, bytes: &[u8], layout: Layout) -> bool {
    match opcode {
        READ => true,
        WRITE => parse(bytes, layout).is_ok_and(|parsed| match parsed.operation {
            Operation::Write(write) => {
                write.how.contains(WriteFlags::FUSE_WRITE_CACHE)
                    || write.flags.0 & libc::O_DIRECT != 0
            }
            _ => false,
        }),
        _ => false,
    }
}

/// Starts one more thread, with a descriptor of its own if there is one for it.
pub(super) fn start<F: Filesystem>(shared: &Arc<Shared<F>>) -> io::Result<()> {
    look_again();
    let slot = shared.users.add_thread();
    let slot = slot.ok_or_else(|| io::Error::other("there are as many threads as may be"))?;
    shared.live.add();
    let own = Arc::clone(shared);
    let name = format!("fuse-{slot}");
    let started = thread::Builder::new().name(name).spawn(move || {
        let live = Arc::clone(&own.live);
        // Without another descriptor the first one does as well.
        let device = own.device.clone_fd().map_or_else(|_| Arc::clone(&own.device), Arc::new);
        let result = Worker { shared: own, device, slot }.run();
        live.remove(result);
    });
    if started.is_err() {
        shared.users.remove_thread(slot);
        shared.live.remove(Ok(()));
    }
    started.map(drop)
}

struct Worker<F: Filesystem> {
    shared: Arc<Shared<F>>,
    device: Arc<Device>,
    slot: usize,
}

impl<F: Filesystem> Worker<F> {
    /// Receives until the connection ends or there are too many threads.
    fn run(self) -> io::Result<()> {
        let users = &self.shared.users;
        let mut buffer = vec![0; self.shared.buffer_bytes];
        loop {
            let received = self.device.receive(&mut buffer);
            let len = match received {
                Ok(Some(len)) => len,
                ended => {
                    users.remove_thread(self.slot);
                    self.shared.drop_parked();
                    return ended.map(drop);
                }
            };
            let bytes = &buffer[..len];
            let Ok((header, _)) = InHeader::read_from_prefix(bytes) else {
                tracing::error!(len, "the kernel has sent no request");
                continue;
            };
            if header.opcode == INTERRUPT && self.is_interrupt(bytes)
                || !self.may_go_on(&header, bytes)
            {
                continue;
            }
            self.carry_out(bytes, &self.device);
            while let Some(Parked { bytes, device, .. }) = users.next(self.slot) {
                self.carry_out(&bytes, &device);
            }
            if !users.leave(self.slot) {
                return Ok(());
            }
        }
    }

    /// Interrupts are delivered at once, whatever else goes on.
    fn is_interrupt(&self, bytes: &[u8]) -> bool {
        match parse(bytes, self.shared.layout).map(|parsed| parsed.operation) {
            Ok(Operation::Interrupt { unique }) => {
                self.device.interrupts.deliver(unique);
                true
            }
            _ => false,
        }
    }

    /// Whether the request goes on in this thread now; else it waits, or is refused.
    fn may_go_on(&self, header: &InHeader, bytes: &[u8]) -> bool {
        let users = &self.shared.users;
        match users.enter(self.slot, header.uid) {
            Entered::Runs { is_last: false } => return true,
            Entered::Runs { is_last: true } => {}
            Entered::Waits => {
                let parked = Parked {
                    uid: header.uid,
                    unique: header.unique,
                    is_kept: is_kept(header.opcode, bytes, self.shared.layout),
                    is_background: is_background(header.opcode, bytes, self.shared.layout),
                    bytes: bytes.to_vec(),
                    device: Arc::clone(&self.device),
                };
                match users.park(self.slot, parked) {
                    Ok(None) => return false,
                    Ok(Some(_)) => {}
                    Err((parked, errno)) => {
                        Raw::new(&parked.device, parked.unique).error(errno);
                        return false;
                    }
                }
            }
        }
        // Somebody has to receive meanwhile. Without another thread this one goes on all the same:
        // most requests end at once.
        if users.has_no_reader()
            && let Err(error) = start(&self.shared)
            && !self.shared.has_warned.swap(true, Relaxed)
        {
            tracing::warn!(%error, "no further thread receives requests");
        }
        true
    }

    fn carry_out(&self, bytes: &[u8], device: &Arc<Device>) {
        let (unique, errno) = match parse(bytes, self.shared.layout) {
            Ok(parsed) => {
                let raw = Raw::new(device, parsed.header.unique);
                let fs = &self.shared.filesystem;
                // A method that panics has dropped its reply, which has answered. Others go on.
                let done = catch_unwind(AssertUnwindSafe(|| dispatch(fs, parsed, raw)));
                if done.is_err() {
                    tracing::error!("a request has failed in a panic");
                }
                return;
            }
            Err(Malformed::Unknown { unique, .. }) => (unique, Errno::ENOSYS),
            Err(Malformed::Arguments { unique, opcode }) => {
                tracing::error!(opcode, "a request is not as it has to be");
                (unique, Errno::EIO)
            }
            Err(Malformed::Header) => {
                tracing::error!(len = bytes.len(), "the kernel has sent no request");
                return;
            }
        };
        Raw::new(device, unique).error(errno);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::opcode::LOOKUP;

    /// A write as the kernel sends it: header, arguments with these flags, data.
    fn write(flags: u32) -> Vec<u8> {
        write_by(flags, 0)
    }

    /// The same through a file that was opened so.
    fn write_by(flags: u32, opened: i32) -> Vec<u8> {
        let mut bytes = vec![0; 80];
        bytes[..4].copy_from_slice(&84u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&WRITE.to_ne_bytes());
        bytes[56..60].copy_from_slice(&4u32.to_ne_bytes());
        bytes[60..64].copy_from_slice(&flags.to_ne_bytes());
        bytes[72..76].copy_from_slice(&opened.to_ne_bytes());
        bytes.extend(*b"data");
        bytes
    }

    #[test]
    fn write_back_and_what_is_let_go_are_never_refused() {
        let kept = |opcode, bytes: &[u8]| is_kept(opcode, bytes, Layout::default());
        let cached = WriteFlags::FUSE_WRITE_CACHE.bits();
        assert!(kept(WRITE, &write(cached)), "the kernel's write-back");
        assert!(!kept(WRITE, &write(0)), "a caller that can be told");
        assert!(!kept(WRITE, b"no write") && !kept(LOOKUP, b""));
        assert!([RELEASE, RELEASEDIR, FORGET, BATCH_FORGET].iter().all(|&one| kept(one, b"")));
    }

    #[test]
    fn a_buffered_write_is_waited_for() {
        let is = |opcode, bytes: &[u8]| is_background(opcode, bytes, Layout::default());
        assert!(!is(WRITE, &write_by(0, libc::O_RDWR | libc::O_APPEND)));
        assert!(is(WRITE, &write_by(0, libc::O_WRONLY | libc::O_DIRECT)));
        assert!(is(WRITE, &write(WriteFlags::FUSE_WRITE_CACHE.bits())) && is(READ, b""));
        assert!(!is(LOOKUP, b"") && !is(WRITE, b"no write"));
    }
}
