//! An open `/dev/fuse`.

use crate::interrupts::Interrupts;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as SysErrno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// `FUSE_DEV_IOC_CLONE`: number 0 of `FUSE_DEV_IOC_MAGIC`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// A descriptor of a connection. What was received through it is answered through it.
#[derive(Debug)]
pub(crate) struct Device {
    fd: OwnedFd,
    pub(crate) interrupts: Arc<Interrupts>,
}

impl Device {
    pub(crate) fn new(fd: OwnedFd) -> Device {
        Device { fd, interrupts: Arc::default() }
    }

    /// Another descriptor of the same connection, with a list of its own of what it has received.
    pub(crate) fn clone_fd(&self) -> io::Result<Device> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
        let own = self.fd.as_raw_fd().cast_unsigned();
        // SAFETY: FUSE_DEV_IOC_CLONE reads a u32, the number of a descriptor, and keeps no pointer.
        let request = unsafe { Setter::<CLONE, u32>::new(own) };
        // SAFETY: `fd` is an open /dev/fuse without a connection, as the request wants it.
        unsafe { ioctl(&fd, request)? };
        Ok(Device { fd, interrupts: Arc::clone(&self.interrupts) })
    }

    /// Receives one request. `None`: the file system was unmounted or its connection cut.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(len) => return Ok(Some(len)),
                // ENOENT: its caller was killed before it was received.
                Err(SysErrno::NOENT | SysErrno::INTR | SysErrno::AGAIN) => {}
                Err(SysErrno::NODEV) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends one reply or notification.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>]) -> Result<(), SysErrno> {
        loop {
            match rustix::io::writev(&self.fd, parts) {
                Ok(_) => return Ok(()),
                Err(SysErrno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
