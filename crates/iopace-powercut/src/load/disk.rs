//! The calls on an image, and those of an NBD client and of a file.

use super::SIZE;
use iopace_nbd::Error as NbdError;
use iopace_nbd::client::{Client, Failure};
use iopace_nbd::wire;
use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::net::UnixStream;

/// The calls that clients make on an image.
pub trait Disk: Send {
    /// Writes; durable when it returns, with `fua`.
    ///
    /// # Errors
    /// The error of the reply.
    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<()>;

    /// Makes a range zero.
    ///
    /// # Errors
    /// The error of the reply.
    fn zero(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()>;

    /// Gives a range back.
    ///
    /// # Errors
    /// The error of the reply.
    fn trim(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()>;

    /// Makes durable what was answered before.
    ///
    /// # Errors
    /// The error of the reply.
    fn flush(&mut self) -> io::Result<()>;
}

fn said(failure: Failure) -> io::Error {
    match failure {
        Failure::Refused(NbdError::Io) => io::Error::from_raw_os_error(libc::EIO),
        failure => io::Error::other(failure.to_string()),
    }
}

fn flags(fua: bool) -> u16 {
    if fua { wire::CMD_FLAG_FUA } else { 0 }
}

impl Disk for Client<UnixStream> {
    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        Client::write(self, offset, data, fua).map_err(said)
    }

    fn zero(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        self.command(wire::CMD_WRITE_ZEROES, flags(fua), offset, len as u32).map_err(said)
    }

    fn trim(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        self.command(wire::CMD_TRIM, flags(fua), offset, len as u32).map_err(said)
    }

    fn flush(&mut self) -> io::Result<()> {
        Client::flush(self).map_err(said)
    }
}

impl Disk for File {
    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        let flags = if fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let written = rustix::io::pwritev2(&*self, &[IoSlice::new(data)], offset, flags)?;
        // The rest of a write that ended early is what failed.
        if written == data.len() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
    }

    fn zero(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        let keep = FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&*self, FallocateFlags::ZERO_RANGE | keep, offset, len)?;
        if fua { self.sync_data() } else { Ok(()) }
    }

    fn trim(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        debug_assert!(offset + len <= SIZE as u64);
        let keep = FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&*self, FallocateFlags::PUNCH_HOLE | keep, offset, len)?;
        if fua { self.sync_data() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
