//! Bytes of a request to a typed operation, without I/O. Whatever the bytes are, this does not
//! panic: what cannot be read is an error with what is needed to answer it.

mod body;

use crate::attributes::TimeOrNow;
use crate::flags::{
    AccessFlags, CopyFileRangeFlags, IoctlFlags, ReleaseFlags, RenameFlags, SetxattrFlags,
    WriteFlags,
};
use crate::types::{FileHandle, FileLock, INodeNo, LockOwner, OpenFlags, Version};
use crate::wire::input::{ForgetOne, InHeader};
use std::ffi::OsStr;
use std::time::SystemTime;
use zerocopy::FromBytes;

/// The facts that the layout of requests depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `FUSE_SETXATTR_EXT` was agreed.
    pub setxattr_ext: bool,
}

/// Why bytes are no request that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not even a header, or one of another length: there is nobody to answer.
    Header,
    /// An operation that is not known here: `ENOSYS`.
    Unknown {
        /// The request's number.
        unique: u64,
        /// The operation's.
        opcode: u32,
    },
    /// A known operation whose arguments are not as they have to be: `EIO`.
    Arguments {
        /// The request's number.
        unique: u64,
        /// The operation's.
        opcode: u32,
    },
}

/// A request.
#[derive(Debug)]
pub struct Parsed<'a> {
    /// The caller, and the file it asks about.
    pub header: InHeader,
    /// The operation that is asked for.
    pub operation: Operation<'a>,
}

/// The operation of a request; the file that it is about is in the header. Fields are the
/// parameters of the method of [`crate::Filesystem`] with that name.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    Lookup { name: &'a OsStr },
    Forget { lookups: u64 },
    BatchForget { files: &'a [u8] },
    GetAttr { handle: Option<FileHandle> },
    SetAttr(SetAttr),
    ReadLink,
    Symlink { name: &'a OsStr, target: &'a OsStr },
    MkNod { name: &'a OsStr, mode: u32, umask: u32, rdev: u32 },
    MkDir { name: &'a OsStr, mode: u32, umask: u32 },
    Unlink { name: &'a OsStr },
    RmDir { name: &'a OsStr },
    Rename { name: &'a OsStr, to: INodeNo, new_name: &'a OsStr, flags: RenameFlags },
    Link { file: INodeNo, name: &'a OsStr },
    Open { flags: OpenFlags },
    Create { name: &'a OsStr, mode: u32, umask: u32, flags: i32 },
    Read { handle: FileHandle, offset: u64, size: u32, flags: OpenFlags, owner: Option<LockOwner> },
    Write(Write<'a>),
    StatFs,
    Release { handle: FileHandle, flags: OpenFlags, owner: LockOwner, how: ReleaseFlags },
    Flush { handle: FileHandle, owner: LockOwner },
    Fsync { handle: FileHandle, data_only: bool },
    SetXattr { name: &'a OsStr, value: &'a [u8], flags: i32, how: SetxattrFlags },
    GetXattr { name: &'a OsStr, size: u32 },
    ListXattr { size: u32 },
    RemoveXattr { name: &'a OsStr },
    OpenDir { flags: OpenFlags },
    ReadDir { handle: FileHandle, offset: u64, size: u32, plus: bool },
    ReleaseDir { handle: FileHandle, flags: OpenFlags },
    FsyncDir { handle: FileHandle, data_only: bool },
    GetLk { handle: FileHandle, lock: FileLock },
    SetLk { handle: FileHandle, lock: FileLock, waits: bool },
    Access { mask: AccessFlags },
    Bmap { block: u64, block_size: u32 },
    Ioctl { handle: FileHandle, flags: IoctlFlags, command: u32, input: &'a [u8], room: u32 },
    Fallocate { handle: FileHandle, offset: u64, len: u64, mode: i32 },
    Lseek { handle: FileHandle, offset: i64, whence: i32 },
    CopyFileRange(CopyFileRange),
    Init(Init),
    Interrupt { unique: u64 },
    Destroy,
}

/// The attributes that are to be set.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
    pub ctime: Option<SystemTime>,
    pub handle: Option<FileHandle>,
    /// Set-user-id and set-group-id bits have to go.
    pub kills_privileges: bool,
}

/// A write.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Write<'a> {
    pub handle: FileHandle,
    pub offset: u64,
    pub data: &'a [u8],
    pub how: WriteFlags,
    pub flags: OpenFlags,
    pub owner: Option<LockOwner>,
}

/// A copy; the file of the header is the source.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct CopyFileRange {
    pub source: (FileHandle, u64),
    pub to: (INodeNo, FileHandle, u64),
    pub len: u64,
    pub flags: CopyFileRangeFlags,
}

/// The kernel begins to ask.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    /// Its version.
    pub version: Version,
    /// Most bytes that it reads ahead.
    pub max_readahead: u32,
    /// The flags that it knows.
    pub flags: u64,
}

/// Reads a request as it came from `/dev/fuse`.
///
/// # Errors
/// It is none that can be carried out.
pub fn parse(bytes: &[u8], layout: Layout) -> Result<Parsed<'_>, Malformed> {
    let (header, rest) = InHeader::read_from_prefix(bytes).map_err(|_| Malformed::Header)?;
    if header.len as usize != bytes.len() {
        return Err(Malformed::Header);
    }
    // Extensions (security contexts, groups) are at the end; none is asked for.
    let extensions = usize::from(header.total_extlen) * 8;
    let (unique, opcode) = (header.unique, header.opcode);
    let malformed = Malformed::Arguments { unique, opcode };
    let len = rest.len().checked_sub(extensions).ok_or(malformed)?;
    let found = body::operation(opcode, &rest[..len], layout).ok_or(malformed)?;
    let operation = found.ok_or(Malformed::Unknown { unique, opcode })?;
    Ok(Parsed { header, operation })
}

/// The files of [`Operation::BatchForget`], each with how often it was looked up.
pub fn forgotten(files: &[u8]) -> impl Iterator<Item = (INodeNo, u64)> {
    files.chunks_exact(size_of::<ForgetOne>()).filter_map(|bytes| {
        let one = ForgetOne::read_from_bytes(bytes).ok()?;
        Some((INodeNo(one.nodeid), one.nlookup))
    })
}

#[cfg(test)]
mod tests;
