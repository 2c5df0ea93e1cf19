//! An image or block device that somebody else has to write, which a daemon must not write too.
//!
//! QEMU says by locks of single bytes of an image how it uses that (`RAW_LOCK_PERM_BASE` and
//! `RAW_LOCK_SHARED_BASE` of block/file-posix.c): iopace looks for those of others and has its own,
//! so neither starts beside the other. Linux itself knows who has a block device for himself
//! (`O_EXCL`, open(2)): what is mounted, swapped to, or a part of another device. A loop device has
//! an image open and locks nothing.
//!
//! # Limits
//!
//! Programs that write an image and lock nothing are not known here.

use super::{lock, ofd};
use crate::buffer::Buffer;
use crate::printable;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What disks are made of.
const SECTOR_BYTES: u64 = 512;

/// The bytes of QEMU's permissions: to read what is consistent, and to write.
const READS: u64 = 100;
const WRITES: u64 = 101;

/// Those of what it does not leave to others: to write, and to change the size.
const WRITES_ALONE: u64 = 201;
const RESIZES_ALONE: u64 = 203;

/// Sees to it that nobody else writes this image, as far as that can be known, and says so to QEMU.
///
/// # Errors
/// `ResourceBusy`, with who has it and what to do.
pub(super) fn claim(file: &File) -> io::Result<()> {
    if let Some(device) = loop_device(file)? {
        let why = format!(
            "it is the disk of {device}, and two writers destroy what is on it; detach that first \
             ('losetup -d {device}'), or say --read-only"
        );
        return Err(busy(why));
    }
    for byte in [WRITES, WRITES_ALONE] {
        // A file system without such locks has none of QEMU's either.
        if let Ok(Some(_)) = ofd::get(file, libc::F_WRLCK, byte, byte) {
            let why = "QEMU has it open (a virtual machine, qemu-nbd, qemu-img), and two writers \
                       destroy what is on it; end that first, or say --read-only";
            return Err(busy(why.into()));
        }
    }
    for byte in [READS, WRITES, WRITES_ALONE, RESIZES_ALONE] {
        let _ = ofd::set(file, libc::F_RDLCK, byte, byte);
    }
    Ok(())
}

/// What it means that the system refuses a block device because somebody has it for himself:
/// `WouldBlock` if that is another daemon.
pub(super) fn claimed(path: &Path, error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EBUSY) {
        return error;
    }
    let taken = File::open(path).and_then(|file| lock::take(&file, true));
    if let Err(error) = taken
        && error.kind() == io::ErrorKind::WouldBlock
    {
        return error;
    }
    let why = "it is mounted, swapped to, or a part of another device (see 'lsblk'), and two \
               writers destroy what is on it; end that first, or say --read-only";
    busy(why.into())
}

/// Formats of disk images, by their sign and where that is.
const FORMATS: [(usize, &[u8], &str); 7] = [
    (0, b"QFI\xfb", "qcow2"),
    (0, b"QED\0", "QED"),
    (0, b"KDMV", "VMDK"),
    (0, b"# Disk DescriptorFile", "VMDK"),
    (0, b"conectix", "VHD"),
    (0, b"vhdxfile", "VHDX"),
    (64, b"\x7f\x10\xda\xbe", "VDI"),
];

/// Says what its owner may not have meant.
pub(super) fn warn(path: &Path, size_bytes: u64) {
    let path = path.display().to_string();
    let path = printable::name(&path);
    if !size_bytes.is_multiple_of(SECTOR_BYTES) || size_bytes == 0 {
        tracing::warn!(
            "{path} has {size_bytes} bytes: few clients take a disk that has none, or not whole \
             sectors of {SECTOR_BYTES}; 'truncate -s %{SECTOR_BYTES} FILE' makes it longer"
        );
    }
}

/// The format of an image that is not a plain one.
pub(crate) fn format(file: &File) -> Option<&'static str> {
    // Past the page cache only whole blocks are read, to where such blocks may be.
    let mut start = Buffer::new(4096);
    let read = file.read_at(start.as_mut_slice(), 0).unwrap_or(0);
    let start = &start.as_slice()[..read];
    let has = |(offset, sign, _): &&(usize, &[u8], &str)| {
        start.get(*offset..).is_some_and(|at| at.starts_with(sign))
    };
    FORMATS.iter().find(has).map(|(_, _, name)| *name)
}

fn busy(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, why)
}

/// The loop device that writes to this file.
fn loop_device(file: &File) -> io::Result<Option<String>> {
    let own = file.metadata()?;
    // Without loop devices the directory has none, or is not there.
    let Ok(blocks) = fs::read_dir("/sys/block") else { return Ok(None) };
    for block in blocks.flatten() {
        let name = block.file_name().to_string_lossy().into_owned();
        let Ok(backing) = fs::read_to_string(block.path().join("loop/backing_file")) else {
            continue;
        };
        let is_written =
            fs::read_to_string(block.path().join("ro")).is_ok_and(|ro| ro.trim() == "0");
        let other = fs::metadata(backing.trim_end_matches('\n'));
        let is_same = other.is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()));
        if is_written && is_same {
            return Ok(Some(format!("/dev/{name}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_another_format_is_known_by_its_sign() {
        let file = tempfile::tempfile().expect("a temporary file");
        assert_eq!(format(&file), None, "empty");
        file.write_all_at(&[0; 512], 0).expect("written");
        assert_eq!(format(&file), None);
        file.write_all_at(b"\x7f\x10\xda\xbe", 64).expect("written");
        assert_eq!(format(&file), Some("VDI"));
        file.write_all_at(b"QFI\xfb\0\0\0\x03", 0).expect("written");
        assert_eq!(format(&file), Some("qcow2"));
    }
}
