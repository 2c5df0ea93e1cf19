//! Why nothing is inserted, or taken out.

use std::io;

/// Why nothing is inserted, or taken out.
#[derive(Debug, thiserror::Error)]
pub enum InsertionError {
    /// It is no volume.
    #[error(
        "{0}: is no volume of the device mapper (LVM): a daemon goes in front of other disks, \
         files and partitions by 'iopace attach --ublk', before they are mounted"
    )]
    NoVolume(String),
    /// A table that cannot be copied.
    #[error(
        "{0}: is made of '{1}', which cannot be there twice: only volumes of linear and striped \
         pieces can be inserted into; look with 'dmsetup deps' for one below it"
    )]
    Kind(String, String),
    /// Somebody else is at it.
    #[error(
        "{0}: somebody else is at it at this moment (LVM, another iopace), or it is suspended; try \
         again after that"
    )]
    Changing(String),
    /// A volume of our own making.
    #[error("{0}: is the volume below of another that a daemon is in front of; name that one")]
    Below(String),
    /// The device mapper refuses.
    #[error("{0}: {1}: {2}; the kernel's log may say why (dmesg)")]
    Refused(String, &'static str, io::Error),
    /// The device mapper is not there.
    #[error("/dev/mapper/control cannot be opened: {0}; load it with 'modprobe dm_mod'")]
    Control(io::Error),
}
