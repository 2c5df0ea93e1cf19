//! Replies that list directories.

use super::{Raw, common, entry_out};
use crate::attributes::{FileAttr, FileType};
use crate::types::{Generation, INodeNo};
use crate::wire::output::Dirent;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Entries begin at multiples of this.
const ALIGN: usize = 8;

/// Entries, as many as the kernel has room for.
#[derive(Debug)]
struct Entries {
    bytes: Vec<u8>,
    room: usize,
}

impl Entries {
    fn new(room: u32) -> Entries {
        Entries { bytes: Vec::new(), room: room as usize }
    }

    /// True if there is no room for it.
    fn add(&mut self, before: &[u8], dirent: &Dirent, name: &OsStr) -> bool {
        let len = before.len() + size_of::<Dirent>() + name.len();
        let padded = len.next_multiple_of(ALIGN);
        if self.bytes.len() + padded > self.room {
            return true;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(self.room.min(32 << 10));
        }
        self.bytes.extend_from_slice(before);
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.resize(self.bytes.len() + padded - len, 0);
        false
    }
}

fn dirent(ino: INodeNo, offset: u64, kind: FileType, name: &OsStr) -> Dirent {
    let namelen = u32::try_from(name.len()).unwrap_or(u32::MAX);
    Dirent { ino: ino.0, off: offset, namelen, kind: kind.in_directory() }
}

/// Names of a directory.
#[derive(Debug)]
pub struct ReplyDirectory(Raw, Entries);

common!(ReplyDirectory);

impl ReplyDirectory {
    pub(crate) fn new(raw: Raw, room: u32) -> ReplyDirectory {
        ReplyDirectory(raw, Entries::new(room))
    }

    /// Adds an entry; the next one is asked for with `offset`. True if there is no room for it.
    #[must_use]
    pub fn add(
        &mut self,
        ino: INodeNo,
        offset: u64,
        kind: FileType,
        name: impl AsRef<OsStr>,
    ) -> bool {
        let name = name.as_ref();
        self.1.add(&[], &dirent(ino, offset, kind, name), name)
    }

    /// That is all for now; all there is if nothing was added.
    pub fn ok(self) {
        self.0.bytes(&self.1.bytes, &[]);
    }
}

/// Names of a directory with the attributes of their files.
#[derive(Debug)]
pub struct ReplyDirectoryPlus(Raw, Entries);

common!(ReplyDirectoryPlus);

impl ReplyDirectoryPlus {
    pub(crate) fn new(raw: Raw, room: u32) -> ReplyDirectoryPlus {
        ReplyDirectoryPlus(raw, Entries::new(room))
    }

    /// Adds an entry; the next one is asked for with `offset`. True if there is no room for it.
    /// With `ino` 0 the file does not count as looked up.
    #[must_use]
    pub fn add(
        &mut self,
        ino: INodeNo,
        offset: u64,
        name: impl AsRef<OsStr>,
        ttl: &Duration,
        attr: &FileAttr,
        generation: Generation,
    ) -> bool {
        let name = name.as_ref();
        let entry = entry_out(ttl, ttl, attr, (ino, generation));
        self.1.add(entry.as_bytes(), &dirent(attr.ino, offset, attr.kind, name), name)
    }

    /// That is all for now; all there is if nothing was added.
    pub fn ok(self) {
        self.0.bytes(&self.1.bytes, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_bounded() {
        let mut entries = Entries::new(100);
        let add = |entries: &mut Entries, name: &str| {
            let name = OsStr::new(name);
            entries.add(&[], &dirent(INodeNo(2), 1, FileType::Socket, name), name)
        };
        assert!(!add(&mut entries, "a"));
        assert_eq!(entries.bytes.len(), 32);
        assert!(!add(&mut entries, "12345678"));
        assert!(!add(&mut entries, "123456789012"[..8].as_ref()));
        assert!(add(&mut entries, "b"), "no room");
        assert_eq!(entries.bytes.len(), 96);
        assert_eq!(entries.bytes[16..20], 1u32.to_ne_bytes());
        assert_eq!(entries.bytes[20..24], 12u32.to_ne_bytes(), "DT_SOCK");
        assert_eq!(entries.bytes[24..32], *b"a\0\0\0\0\0\0\0");
    }
}
