//! The kernel's table of mounts, `/proc/self/mountinfo`, and which of them are ours.
//!
//! Nothing here touches a mounted file system: one that does not answer holds nobody up.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file system type of our mounts: the kernel's `fuse` with the subtype `iopace`.
pub const FS_TYPE: &str = "fuse.iopace";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, which no other mount of the machine has while it is there.
    pub id: u64,
    /// The number of the mount that it lies on.
    pub parent: u64,
    /// Major and minor number of what is mounted, as in `st_dev` of its files.
    pub device: (u32, u32),
    /// The directory of the file system that is its root; for the whole of it `/`.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// Type of the file system, with its subtype.
    pub fs_type: String,
    /// What is mounted; of our mounts, the directory.
    pub source: PathBuf,
    /// Options of the file system.
    pub options: String,
}

/// The device number of a FUSE mount with this connection, see [`Entry::connection`].
pub fn device_of(connection: u32) -> (u32, u32) {
    (connection >> 20, connection & 0xf_ffff)
}

impl Entry {
    /// Whether iopace mounted it.
    pub fn is_ours(&self) -> bool {
        self.fs_type == FS_TYPE
    }

    /// The number of its connection in `/sys/fs/fuse/connections`: the device number as the kernel
    /// keeps it, twenty bits of it minor.
    pub fn connection(&self) -> u32 {
        (self.device.0 << 20) | self.device.1
    }

    /// The user who mounted it, for FUSE mounts.
    pub fn uid(&self) -> Option<u32> {
        let mut options = self.options.split(',');
        options.find_map(|option| option.strip_prefix("user_id=")?.parse().ok())
    }
}

/// All mounts that this process sees, in the order in which they were made.
///
/// # Errors
/// The table cannot be read: `/proc` is not mounted.
pub fn read() -> io::Result<Vec<Entry>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

/// Those that another process sees, given its directory in `/proc`.
pub(crate) fn read_of(process: &Path) -> io::Result<Vec<Entry>> {
    Ok(parse(&fs::read(process.join("mountinfo"))?))
}

/// The text by which a mount of ours names its directory, see [`Entry::source`]: what is no text in
/// a path is replaced.
pub(crate) fn source_of(directory: &Path) -> String {
    directory.to_string_lossy().into_owned()
}

/// The mount that is seen at `path`, if it is a mount point: the latest of those there.
pub fn at<'a>(table: &'a [Entry], path: &Path) -> Option<&'a Entry> {
    table.iter().rev().find(|entry| entry.mountpoint == path)
}

/// The mount that `path` lies on: the latest of those with the longest mount point above it.
pub fn covering<'a>(table: &'a [Entry], path: &Path) -> Option<&'a Entry> {
    let above = table.iter().filter(|entry| path.starts_with(&entry.mountpoint));
    // Of equal ones the last is taken.
    above.max_by_key(|entry| entry.mountpoint.components().count())
}

/// `path` in full. What is mounted there already is not touched, as it may not answer.
///
/// # Errors
/// There is no such path.
pub fn resolve(path: &Path, table: &[Entry]) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    if at(table, &path).is_some() {
        return Ok(path);
    }
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        let plain = parent.canonicalize()?.join(name);
        if at(table, &plain).is_some() {
            return Ok(plain);
        }
    }
    path.canonicalize()
}

pub(crate) fn parse(text: &[u8]) -> Vec<Entry> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// As in proc_pid_mountinfo(5):
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &[u8]) -> Option<Entry> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut next = || std::str::from_utf8(words.next()?).ok();
    let (id, parent) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let (major, minor) = next()?.split_once(':')?;
    let (root, mountpoint) = (words.next()?, words.next()?);
    words.by_ref().find(|word| word == b"-")?;
    let (fs_type, source, options) = (words.next()?, words.next()?, words.next()?);
    Some(Entry {
        id,
        parent,
        root: unescape(root),
        device: (major.parse().ok()?, minor.parse().ok()?),
        mountpoint: unescape(mountpoint),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        source: unescape(source),
        options: String::from_utf8_lossy(options).into_owned(),
    })
}

/// Blanks, line ends and backslashes are written as `\` and three octal digits.
pub fn unescape(text: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| byte == b'\\' && is_octal(digits));
        let (byte, after) = match octal {
            Some(digits) => {
                let value = digits
                    .iter()
                    .fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0'));
                (value, &after[3..])
            }
            None => (byte, after),
        };
        plain.push(byte);
        rest = after;
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn is_octal(digits: &[u8]) -> bool {
    digits.iter().all(|digit| (b'0'..b'8').contains(digit))
}

/// Mounts of ours in the table, whoever made them.
///
/// # Errors
/// The table cannot be read.
pub fn ours() -> io::Result<Vec<Entry>> {
    Ok(read()?.into_iter().filter(Entry::is_ours).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
40 27 8:17 / /srv rw shared:7 master:3 - xfs /dev/sdb1 rw\n\
41 40 0:52 / /srv rw,relatime - fuse.iopace /srv rw,user_id=0,group_id=0,allow_other\n\
42 27 0:53 / /mnt/a\\040b\\134c rw - fuse.iopace /data/x rw,user_id=1000,group_id=1000\n\
garbled\n";

    #[test]
    fn the_table_is_read_with_its_escapes() {
        let table = parse(TABLE);
        assert_eq!(table.len(), 4);
        assert_eq!((table[1].id, table[1].parent, &*table[1].root), (40, 27, Path::new("/")));
        assert_eq!(table[3].mountpoint, Path::new("/mnt/a b\\c"));
        assert_eq!((table[3].uid(), table[3].connection()), (Some(1000), 53));
        assert_eq!((table[1].fs_type.as_str(), table[1].is_ours()), ("xfs", false));
        assert_eq!(table[1].uid(), None);
    }

    #[test]
    fn the_latest_mount_is_the_one_that_is_seen() {
        let table = parse(TABLE);
        assert!(at(&table, Path::new("/srv")).expect("there").is_ours());
        assert!(at(&table, Path::new("/srv/x")).is_none());
        assert!(covering(&table, Path::new("/srv/x/y")).expect("there").is_ours());
        assert_eq!(covering(&table, Path::new("/srvx")).expect("there").fs_type, "ext4");
    }

    #[test]
    fn our_own_table_has_a_root() {
        let table = read().expect("read");
        assert!(covering(&table, Path::new("/")).is_some());
        let resolved = resolve(Path::new("/proc/../proc"), &table).expect("resolved");
        assert_eq!(resolved, Path::new("/proc"));
        assert!(resolve(Path::new("/no/such"), &table).is_err());
    }
}
