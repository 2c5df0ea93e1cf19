//! `/dev/ublk-control`: devices are made, started, stopped and taken over by commands to it.

use super::abi::{ControlCommand, DeviceFacts, DiskParams, control, feature};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

const PATH: &str = "/dev/ublk-control";

/// Why there is no ublk device.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The driver is not there.
    #[error(
        "/dev/ublk-control cannot be opened: {0}; load the driver ('modprobe ublk_drv', Linux 6.10 \
         or newer) and be root; 'iopace attach' may leave out --ublk: a loop device needs no such \
         driver"
    )]
    Control(io::Error),
    /// The driver can do too little.
    #[error(
        "the kernel's ublk driver lacks what is needed (user copy, and a recovery that may itself \
         be interrupted): that takes Linux 6.10; leave out --ublk to have a loop device"
    )]
    Old,
    /// io_uring is refused.
    #[error("io_uring is not allowed here ({0}), and ublk needs it; leave out --ublk")]
    Ring(io::Error),
    /// A command was refused.
    #[error(
        "{path}: {what}: {1}; the kernel's log may say why (dmesg)",
        path = super::block_path(*.0).display(), what = .2
    )]
    Command(u32, io::Error, &'static str),
    /// Nothing in `/dev` leads to it.
    #[error("{path} cannot be opened: {1}; mount devtmpfs", path = super::char_path(*.0).display())]
    Node(u32, io::Error),
    /// All numbers are taken.
    #[error("no number is left for a ublk device: end some ('iopace detach')")]
    Full,
    /// It was made for something else.
    #[error("{0}")]
    Other(String),
}

/// The control device of the driver. One command at a time.
pub(super) struct ControlPort {
    file: File,
    ring: IoUring<squeue::Entry128>,
}

impl ControlPort {
    /// Opens it; the driver can do all that is needed.
    pub(super) fn open() -> Result<ControlPort, UblkError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(PATH).map_err(UblkError::Control)?;
        // One command at a time, and room for what the kernel rounds up to.
        let ring = IoUring::builder().build(2).map_err(UblkError::Ring)?;
        let mut port = ControlPort { file, ring };
        let features = port.send(control::FEATURES, u32::MAX, 0, vec![0; 8]);
        let features = features.map_err(|_| UblkError::Old)?;
        let features = u64::from_ne_bytes(features.try_into().expect("as long as before"));
        if features & feature::NEEDED != feature::NEEDED {
            return Err(UblkError::Old);
        }
        Ok(port)
    }

    /// Makes a device with that number, and says how the kernel has made it.
    pub(super) fn add(&mut self, facts: &DeviceFacts) -> io::Result<DeviceFacts> {
        self.send(control::ADD, facts.id, 0, facts.bytes().to_vec()).map(facts_of)
    }

    /// All that the driver says of a device.
    pub(super) fn facts(&mut self, id: u32) -> io::Result<DeviceFacts> {
        self.send(control::INFO, id, 0, vec![0; DeviceFacts::BYTES]).map(facts_of)
    }

    /// Says how the disk looks; only before it is started.
    pub(super) fn set_params(&mut self, id: u32, disk: &DiskParams) -> io::Result<()> {
        self.send(control::SET_PARAMS, id, 0, disk.bytes().to_vec()).map(drop)
    }

    /// The block device appears. All places of requests are free before.
    pub(super) fn start(&mut self, id: u32) -> io::Result<()> {
        self.send(control::START, id, std::process::id().into(), Vec::new()).map(drop)
    }

    /// The block device goes: requests that come are failed. Those that the server has are waited
    /// for.
    pub(super) fn stop(&mut self, id: u32) -> io::Result<()> {
        self.send(control::STOP, id, 0, Vec::new()).map(drop)
    }

    /// Deletes a device that is stopped: its number is free when nobody has it open any more, which
    /// kernels before 6.7 wait for.
    pub(super) fn delete(&mut self, id: u32) -> io::Result<()> {
        match self.send(control::DELETE_LATER, id, 0, Vec::new()) {
            Err(error) if is(&error, Errno::OPNOTSUPP) || is_unknown(&error) => {
                self.send(control::DELETE, id, 0, Vec::new()).map(drop)
            }
            done => done.map(drop),
        }
    }

    /// Another server is to come.
    pub(super) fn begin_recovery(&mut self, id: u32) -> io::Result<()> {
        self.send(control::BEGIN_RECOVERY, id, 0, Vec::new()).map(drop)
    }

    /// This process is the server from now on; all places of requests are free before.
    pub(super) fn end_recovery(&mut self, id: u32) -> io::Result<()> {
        self.send(control::END_RECOVERY, id, std::process::id().into(), Vec::new()).map(drop)
    }

    /// Sends a command and waits until it is carried out: its payload, which it may have changed.
    fn send(
        &mut self,
        number: u32,
        id: u32,
        data: u64,
        mut payload: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        let len = u16::try_from(payload.len()).expect("some structures");
        let address = if len == 0 { 0 } else { payload.as_mut_ptr().addr() as u64 };
        let command = ControlCommand { id, address, len, data };
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, number).cmd(command.bytes()).build();
        // SAFETY: the kernel uses the payload until the command is done. This function returns
        // after that only, or leaves the payload in place for ever.
        unsafe { self.ring.submission().push(&entry).expect("the only one") };
        loop {
            let waited = self.ring.submitter().submit_and_wait(1);
            if let Some(done) = self.ring.completion().next() {
                return match done.result() {
                    error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                    _ => Ok(payload),
                };
            }
            match waited {
                Err(error) if !is(&error, Errno::INTR) => {
                    std::mem::forget(payload);
                    return Err(error);
                }
                _ => {}
            }
        }
    }
}

fn facts_of(bytes: Vec<u8>) -> DeviceFacts {
    DeviceFacts::of(&bytes.try_into().expect("as long as before"))
}

/// Whether the driver has no such command: `ENOTSUPP` of include/linux/errno.h, which programs are
/// not meant to see.
fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(524)
}

/// Whether that is the error.
pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
