//! Notifications: messages that the kernel gets unasked.

use crate::device::Device;
use crate::types::INodeNo;
use crate::wire::opcode::{
    NOTIFY_DELETE, NOTIFY_INC_EPOCH, NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE, NOTIFY_PRUNE,
};
use crate::wire::output::{
    NotifyDelete, NotifyInvalEntry, NotifyInvalInode, NotifyPrune, OutHeader,
};
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Tells the kernel that something has changed. It takes locks for that which a caller whose
/// request is not answered yet may hold: not to be called by a method of the file system.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<Device>);

impl Notifier {
    pub(crate) fn new(device: Arc<Device>) -> Notifier {
        Notifier(device)
    }

    /// The attributes of a file, and its cached pages from `offset` on (`len` 0: all; a negative
    /// offset: none).
    ///
    /// # Errors
    /// The kernel does not know the file, or the connection has ended.
    pub fn inval_inode(&self, ino: INodeNo, offset: i64, len: i64) -> io::Result<()> {
        let body = NotifyInvalInode { ino: ino.0, off: offset, len };
        self.send(NOTIFY_INVAL_INODE, &[body.as_bytes()])
    }

    /// A name is to be looked up anew.
    ///
    /// # Errors
    /// As with [`Notifier::inval_inode`].
    pub fn inval_entry(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        let namelen = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let body = NotifyInvalEntry { parent: parent.0, namelen, flags: 0 };
        self.send(NOTIFY_INVAL_ENTRY, &[body.as_bytes(), name.as_bytes(), b"\0"])
    }

    /// A name of this file is gone: whoever watches it hears of it.
    ///
    /// # Errors
    /// As with [`Notifier::inval_inode`].
    pub fn delete(&self, parent: INodeNo, child: INodeNo, name: &OsStr) -> io::Result<()> {
        let namelen = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let body = NotifyDelete { parent: parent.0, child: child.0, namelen, padding: 0 };
        self.send(NOTIFY_DELETE, &[body.as_bytes(), name.as_bytes(), b"\0"])
    }

    /// All names are to be looked up anew when they are next used.
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.16; the connection has ended.
    pub fn inc_epoch(&self) -> io::Result<()> {
        self.send(NOTIFY_INC_EPOCH, &[])
    }

    /// These files may be forgotten: the kernel drops those that are not in use, and says so as
    /// ever. What is open, mounted on or the working directory of somebody stays.
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.18; the connection has ended.
    pub fn prune(&self, all: &[INodeNo]) -> io::Result<()> {
        let count = u32::try_from(all.len()).map_err(io::Error::other)?;
        let body = NotifyPrune { count, padding: 0, spare: 0 };
        let numbers: Vec<u64> = all.iter().map(|one| one.0).collect();
        self.send(NOTIFY_PRUNE, &[body.as_bytes(), numbers.as_bytes()])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        let len = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        // A notification has no number, and its code where replies have their error.
        let header = OutHeader { len: len as u32, error: code, unique: 0 };
        let parts = [header.as_bytes()].into_iter().chain(parts.iter().copied());
        let parts: Vec<IoSlice<'_>> = parts.map(IoSlice::new).collect();
        Ok(self.0.send(&parts)?)
    }
}
