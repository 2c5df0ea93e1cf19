//! Loop devices: a file as a block device of the kernel.
//!
//! Numbers and structures are those of `<linux/loop.h>`; see loop(4).

use crate::limits::{LOOP_TRIES_MAX, LOOPS_MAX};
use linux_raw_sys::loop_device as sys;
use rustix::fs::{major, minor};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why there is no loop device for a file.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The driver is not there.
    #[error(
        "/dev/loop-control cannot be opened: {0}; load the driver ('modprobe loop'), be root, or \
         give the container the device"
    )]
    Control(io::Error),
    /// The kernel has a free one, but nothing in /dev leads to it.
    #[error("{0} cannot be opened: {1}; make it with 'mknod {0} b 7 {2}', or mount devtmpfs")]
    Node(String, io::Error, u32),
    /// All that are free are taken by others before us.
    #[error("no loop device stays free long enough: others take each before us; try again")]
    Taken,
    /// The file cannot be opened.
    #[error("{path}: cannot be opened: {0}", path = .1.display())]
    File(io::Error, PathBuf),
    /// The kernel refuses.
    #[error("{0} cannot be set up: {1}; LOOP_CONFIGURE needs Linux 5.8 and root")]
    Configure(String, io::Error),
}

/// How a file is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Refuse writes.
    pub read_only: bool,
    /// Smallest request in bytes: a power of two from 512 to the page size.
    pub block_bytes: u32,
}

/// A loop device that was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Where it is, as `/dev/loop0`.
    pub path: PathBuf,
    /// Whether the kernel bypasses its page cache between the device and the file.
    pub direct: bool,
}

/// Attaches a file to a free loop device, which bypasses the page cache where the kernel lets it.
///
/// # Errors
/// See [`LoopError`].
pub fn attach(file: &Path, how: How) -> Result<Attached, LoopError> {
    let backing = File::options().read(true).write(!how.read_only).open(file);
    let backing = backing.map_err(|error| LoopError::File(error, file.to_owned()))?;
    let control = File::options().read(true).write(true).open("/dev/loop-control");
    let control = control.map_err(LoopError::Control)?;
    for _ in 0..LOOP_TRIES_MAX {
        // SAFETY: takes no argument and touches no memory of ours.
        let number =
            unsafe { libc::ioctl(control.as_raw_fd(), libc::Ioctl::from(sys::LOOP_CTL_GET_FREE)) };
        let number =
            u32::try_from(number).map_err(|_| LoopError::Control(io::Error::last_os_error()))?;
        let path = format!("/dev/loop{number}");
        let device = File::options().read(true).write(true).open(&path);
        let device = device.map_err(|error| LoopError::Node(path.clone(), error, number))?;
        match configure(&device, &backing, (file, how)) {
            Ok(()) => {
                let direct = is_direct(number);
                return Ok(Attached { path: path.into(), direct });
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(LoopError::Configure(path, error)),
        }
    }
    Err(LoopError::Taken)
}

fn configure(device: &File, backing: &File, (file, how): (&Path, How)) -> io::Result<()> {
    // SAFETY: plain integers and arrays of them, for which all zeroes are a value.
    let mut config: sys::loop_config = unsafe { std::mem::zeroed() };
    config.fd = backing.as_raw_fd().cast_unsigned();
    config.block_size = how.block_bytes;
    config.info.lo_flags = sys::LO_FLAGS_DIRECT_IO as u32;
    if how.read_only {
        config.info.lo_flags |= sys::LO_FLAGS_READ_ONLY as u32;
    }
    // What losetup shows where it cannot ask for more; the last byte stays zero.
    let name = file.as_os_str().as_encoded_bytes();
    let room = config.info.lo_file_name.len() - 1;
    for (to, from) in config.info.lo_file_name.iter_mut().take(room).zip(name) {
        *to = *from;
    }
    let command = libc::Ioctl::from(sys::LOOP_CONFIGURE);
    // SAFETY: the command reads a `loop_config`, which lives until it returns.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), command, &raw const config) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn is_direct(number: u32) -> bool {
    let text = fs::read_to_string(format!("/sys/block/loop{number}/loop/dio"));
    text.is_ok_and(|text| text.trim() == "1")
}

/// Whether it is a loop device at all, by its major number 7.
pub fn is_loop(path: &Path) -> bool {
    let found = fs::metadata(path);
    found.is_ok_and(|found| found.file_type().is_block_device() && major(found.rdev()) == 7)
}

/// The file behind a loop device, as the kernel names it; `None` if there is none. Asks nobody but
/// the kernel, so that a file that does not answer holds nobody up.
pub fn backing(path: &Path) -> Option<PathBuf> {
    let number = path.to_str()?.strip_prefix("/dev/loop")?.parse::<u32>().ok()?;
    let text = fs::read_to_string(format!("/sys/block/loop{number}/loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// Whether the file behind a loop device is still `file`. Of a mount that is out of sight the
/// kernel shows what is left of the path.
pub fn is_behind(path: &Path, file: &Path) -> bool {
    let rest = file.file_name().map(|name| Path::new("/").join(name));
    backing(path).is_some_and(|found| found == file || Some(found) == rest)
}

/// The loop devices behind which `file` is.
pub fn of_file(file: &Path) -> Vec<PathBuf> {
    let all = (0..LOOPS_MAX).map(|number| PathBuf::from(format!("/dev/loop{number}")));
    all.filter(|path| backing(path).is_some_and(|found| found == file)).collect()
}

/// Takes the file away from a loop device; if it is in use, as soon as it is not. Blocks until what
/// its own page cache has is written.
///
/// # Errors
/// What the system said.
pub fn detach(path: &Path) -> io::Result<()> {
    let device = File::options().read(true).open(path)?;
    let command = libc::Ioctl::from(sys::LOOP_CLR_FD);
    // SAFETY: takes no argument and touches no memory of ours.
    match unsafe { libc::ioctl(device.as_raw_fd(), command, 0) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // It is free already.
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
            error => Err(error),
        },
    }
}

/// Writes what the page cache of a loop device has and flushes what is behind it, blocking.
///
/// # Errors
/// What the system said.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Whether the kernel has it in use itself: a mount, swap, a part of another device.
pub fn is_claimed(path: &Path) -> bool {
    let opened = File::options().read(true).custom_flags(libc::O_EXCL).open(path);
    opened.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// Its device number.
pub fn number(path: &Path) -> Option<(u32, u32)> {
    let found = fs::metadata(path).ok()?.rdev();
    Some((major(found), minor(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_loop_device_has_nothing_behind_it() {
        for path in ["/dev/null", "/dev/loop", "/dev/loop999999", "/dev/loop-1", "/no/such"] {
            let path = Path::new(path);
            assert!(backing(path).is_none() && !is_loop(path), "{path:?}");
            assert!(!is_behind(path, Path::new("/x")), "{path:?}");
        }
        assert!(of_file(Path::new("/no/such")).is_empty());
    }
}
