//! Extended attributes and access control lists, which are such.

use super::super::caller::Caller;
use super::Tree;
use super::credentials::prepare_thread;
use super::forbids::Forbids;
use iopace_fuse::INodeNo;
use rustix::fs::XattrFlags;
use std::ffi::OsStr;
use std::io;

/// The capabilities of a program. The kernel removes them itself when somebody writes to the file,
/// in the name of the writer, who may not. Of all others it has checked `CAP_SETFCAP` before.
pub(super) const CAPABILITIES: &str = "security.capability";

/// Attributes that Linux gives to everybody who reaches a file. The kernel above asks for lists of
/// access with most look-ups of users, and for capabilities with the first write to a file.
const FOR_EVERYBODY: [&str; 3] =
    [CAPABILITIES, "system.posix_acl_access", "system.posix_acl_default"];

// There is no call for extended attributes that takes a descriptor which opens nothing. So each
// goes by the name of that descriptor in the working directory, `/proc/self/fd` here. That is a
// link, which is followed to the inode and no further.
impl Tree {
    /// The value, or only its size if `room` is 0.
    pub(super) fn xattr(
        &self,
        from: Caller,
        id: INodeNo,
        name: &OsStr,
        room: u32,
    ) -> io::Result<Value> {
        let inode = self.inode(id)?;
        if name == CAPABILITIES && inode.forbidden.get().has(Forbids::SET_ID) {
            return Err(super::refused(libc::ENODATA));
        }
        let read = || {
            if room == 0 {
                return Ok(Value::Size(rustix::fs::getxattr_query(inode.name(), name)?));
            }
            let mut value = vec![0; room as usize];
            let len = rustix::fs::getxattr(inode.name(), name, &mut value[..])?;
            value.truncate(len);
            Ok(Value::Bytes(value))
        };
        // A server on the network or a user's file system may decide by who asks. The file systems
        // with handles do not, and becoming the caller takes more time than all the rest.
        if inode.origin.has_handles() && FOR_EVERYBODY.iter().any(|one| name == *one) {
            prepare_thread()?;
            return read();
        }
        self.act_for(from, &[&inode], read)
    }

    /// The names, each with a 0 behind it, or only their size if `room` is 0.
    pub(super) fn xattrs(&self, from: Caller, id: INodeNo, room: u32) -> io::Result<Value> {
        let inode = self.inode(id)?;
        let mut names = self.act_for(from, &[&inode], || {
            let size = rustix::fs::listxattr_query(inode.name())?;
            // One more, as an empty buffer asks for the size.
            let mut names = vec![0; size + 1];
            let len = rustix::fs::listxattr(inode.name(), &mut names[..])?;
            names.truncate(len);
            Ok(names)
        })?;
        if inode.forbidden.get().has(Forbids::SET_ID) {
            names = without_capabilities(&names);
        }
        if room == 0 {
            return Ok(Value::Size(names.len()));
        }
        if names.len() > room as usize {
            return Err(super::refused(libc::ERANGE));
        }
        Ok(Value::Bytes(names))
    }

    /// Sets one, with the flags of `setxattr`.
    pub(super) fn set_xattr(
        &self,
        from: Caller,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> io::Result<()> {
        let inode = self.inode(id)?;
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        let set = || Ok(rustix::fs::setxattr(inode.name(), name, value, flags)?);
        inode.hold.with_space(|| self.act_for(from, &[&inode], set))
    }

    /// Removes one.
    pub(super) fn remove_xattr(&self, from: Caller, id: INodeNo, name: &OsStr) -> io::Result<()> {
        let inode = self.inode(id)?;
        let remove = || Ok(rustix::fs::removexattr(inode.name(), name)?);
        if name == CAPABILITIES {
            prepare_thread()?;
            return remove();
        }
        self.act_for(from, &[&inode], remove)
    }
}

/// A list of names without that of the capabilities.
pub(super) fn without_capabilities(names: &[u8]) -> Vec<u8> {
    let shown = |name: &&[u8]| name.strip_suffix(b"\0").unwrap_or(name) != CAPABILITIES.as_bytes();
    names.split_inclusive(|&byte| byte == 0).filter(shown).flatten().copied().collect()
}

/// An answer that may be only its size.
pub(super) enum Value {
    Size(usize),
    Bytes(Vec<u8>),
}
