//! A new ublk device, from its record to its start.

use super::abi::{DeviceFacts, DeviceState, DiskParams, feature};
use super::limits::{DEPTH, IDS_MAX, QUEUES_MAX, REQUEST_BYTES_MAX};
use super::port::{ControlPort, UblkError, is};
use super::queues::Shape;
use super::reply::ReplyLine;
use super::server::{self, ServerThread, UblkSubject};
use super::{block_path, char_path};
use crate::attached::{Record, UblkFacts};
use crate::device::pieces::PIECE_BYTES;
use crate::memory::Memory;
use crate::runtime_files::Kept;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// A disk that is to be served, however often it is tried.
pub(super) struct Plan {
    /// Where records are kept.
    pub(super) runtime: PathBuf,
    /// The record of it; number and mark are filled in.
    pub(super) record: Record,
    pub(super) rotational: bool,
    pub(super) discards: bool,
    pub(super) memory: Arc<Memory>,
    pub(super) subject: Box<dyn Fn() -> UblkSubject>,
    /// Called when the device was stopped.
    pub(super) on_end: Arc<dyn Fn() + Send + Sync>,
}

/// A device that is served.
pub(super) struct Running {
    pub(super) facts: UblkFacts,
    pub(super) kept: Kept,
    pub(super) thread: ServerThread,
}

impl Plan {
    /// The record of the device with that number and mark, kept from here on.
    pub(super) fn keep(&self, ublk: UblkFacts) -> Result<Kept, UblkError> {
        let mut record = self.record.clone();
        (record.loop_device, record.image) = (block_path(ublk.id), char_path(ublk.id));
        record.ublk = Some(ublk);
        let kept = record.keep(&self.runtime);
        kept.map_err(|error| UblkError::Other(format!("it cannot be recorded: {error}")))
    }

    /// Starts the thread that serves a device.
    pub(super) fn serve(&self, id: u32, shape: Shape) -> Result<ServerThread, UblkError> {
        let file = open_char(id).map_err(|error| UblkError::Node(id, error))?;
        self.serve_by(file, shape).map_err(|error| UblkError::Command(id, error, "not served"))
    }

    /// The same, with the device by which it is served opened already.
    pub(super) fn serve_by(&self, file: File, shape: Shape) -> io::Result<ServerThread> {
        let line = Arc::new(ReplyLine::new(file, Arc::clone(&self.memory))?);
        let on_end = Arc::clone(&self.on_end);
        server::start((self.subject)(), line, shape, move || on_end())
    }

    /// A new device. The record is there before: whoever kills us leaves nothing unknown.
    pub(super) fn make(&self, port: &mut ControlPort) -> Result<Running, UblkError> {
        let block_bytes = self.record.ublk.map_or(512, |ublk| ublk.block_bytes);
        let mark =
            random().map_err(|error| UblkError::Other(format!("no random number: {error}")))?;
        for id in 0..IDS_MAX {
            if char_path(id).exists() {
                continue;
            }
            let file = self.record.ublk.and_then(|ublk| ublk.file);
            let facts = UblkFacts { id, mark, block_bytes, file };
            let kept = self.keep(facts)?;
            match port.add(&wanted(id, mark)) {
                Ok(made) => {
                    let begun = self.begin(port, &made, block_bytes);
                    return match begun {
                        Ok(thread) => Ok(Running { facts, kept, thread }),
                        Err(error) => {
                            if remove(port, id).is_err() {
                                // It stays known.
                                kept.leave();
                            }
                            Err(error)
                        }
                    };
                }
                Err(error) if is(&error, Errno::EXIST) => {}
                Err(error) => return Err(UblkError::Command(id, error, "cannot be made")),
            }
        }
        Err(UblkError::Full)
    }

    fn begin(
        &self,
        port: &mut ControlPort,
        made: &DeviceFacts,
        block_bytes: u32,
    ) -> Result<ServerThread, UblkError> {
        let id = made.id;
        if made.features & feature::NEEDED != feature::NEEDED {
            return Err(UblkError::Old);
        }
        let disk = DiskParams {
            size_bytes: self.record.size_bytes,
            block_bytes,
            request_bytes_max: made.request_bytes_max,
            // No longer than a device takes as one.
            zeroes_bytes_max: PIECE_BYTES,
            read_only: self.record.read_only,
            rotational: self.rotational,
            discards: self.discards,
        };
        let refused = |error| UblkError::Command(id, error, "the kernel refuses such a disk");
        port.set_params(id, &disk).map_err(refused)?;
        let shape = Shape { queues_count: made.queues_count, depth: made.depth };
        let thread = self.serve(id, shape)?;
        port.start(id).map_err(|error| UblkError::Command(id, error, "does not start"))?;
        Ok(thread)
    }
}

/// The device that the driver is asked for.
fn wanted(id: u32, mark: u64) -> DeviceFacts {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    DeviceFacts {
        id,
        queues_count: u16::try_from(processors).map_or(QUEUES_MAX, |count| count.min(QUEUES_MAX)),
        depth: DEPTH,
        state: DeviceState::Dead,
        request_bytes_max: REQUEST_BYTES_MAX,
        features: feature::NEEDED,
        mark,
    }
}

/// Opens the device by which one is served: one process at a time has it (`EBUSY`).
pub(super) fn open_char(id: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(char_path(id))?;
    match file.metadata()?.file_type().is_char_device() {
        true => Ok(file),
        false => Err(io::Error::other("it is no device")),
    }
}

/// Stops and deletes a device, whatever state it is in.
///
/// # Errors
/// The driver's own, which was logged.
pub(super) fn remove(port: &mut ControlPort, id: u32) -> io::Result<()> {
    let done = port.stop(id).and_then(|()| port.delete(id));
    match done {
        Err(error) if is(&error, Errno::NODEV) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "{} is not deleted", block_path(id).display());
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::other("the kernel has too little randomness")),
    }
}
