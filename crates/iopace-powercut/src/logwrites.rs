//! The log of the kernel's device-mapper target `log-writes`, replayed up to a mark.
//!
//! # Format
//! Numbers are little-endian. The first sector of the log holds a magic number, the version, the
//! count of entries (64 bits each) and the size of a sector (32 bits). Each entry begins with a
//! sector of its own: first sector on the disk, count of sectors, flags, length of the text
//! behind (64 bits each), and that text, which is the name of a mark. The data follows in whole
//! sectors, but for a discard. Source: Documentation/admin-guide/device-mapper/log-writes.rst and
//! drivers/md/dm-log-writes.c of Linux.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

/// The numbers of an entry.
const ENTRY: usize = 32;

/// The part of a log that was replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Entries.
    pub entries: u64,
    /// Bytes of the log; 0 is its beginning.
    pub bytes: u64,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a log of writes: {what}"))
}

/// Replays a log from a place up to the mark of that name, and says where that is.
///
/// # Errors
/// The error of the system call; `InvalidData` if it is no log, `NotFound` if it has no such mark.
pub fn replay(log: &File, disk: &File, from: Place, mark: &str) -> io::Result<Place> {
    let mut head = [0; ENTRY];
    log.read_exact_at(&mut head, 0)?;
    let sector = u64::from(number(&head, 24) as u32);
    if number(&head, 0) != MAGIC || number(&head, 8) != VERSION || sector < 512 {
        return Err(invalid("its first sector is another"));
    }
    let mut at = Place { bytes: from.bytes.max(sector), ..from };
    while at.entries < number(&head, 16) {
        let mut entry = vec![0; sector as usize];
        log.read_exact_at(&mut entry, at.bytes)?;
        at = Place { entries: at.entries + 1, bytes: at.bytes + sector };
        let (first, count, flags) = (number(&entry, 0), number(&entry, 8), number(&entry, 16));
        let bytes = |count: u64| count.checked_mul(sector).ok_or(invalid("a number is too large"));
        if flags & MARK != 0 {
            let text = entry[ENTRY..].iter().take(number(&entry, 24) as usize);
            let text: Vec<u8> = text.copied().take_while(|byte| *byte != 0).collect();
            if text == mark.as_bytes() {
                disk.sync_all()?;
                return Ok(at);
            }
            continue;
        }
        let source = (flags & DISCARD == 0).then_some((log, at.bytes));
        copy(source, (disk, bytes(first)?), bytes(count)?)?;
        if source.is_some() {
            at.bytes += bytes(count)?;
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("the log has no mark {mark}")))
}

/// Copies from the log, or writes zeroes, which is what a discard leaves at best.
fn copy(source: Option<(&File, u64)>, (disk, to): (&File, u64), len: u64) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let mut piece = vec![0; PIECE.min(len - done) as usize];
        if let Some((log, from)) = source {
            log.read_exact_at(&mut piece, from + done)?;
        }
        disk.write_all_at(&piece, to + done)?;
        done += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: usize = 512;

    fn sector(numbers: &[u64], text: &str) -> Vec<u8> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend(text.as_bytes());
        bytes.resize(SECTOR, 0);
        bytes
    }

    fn log() -> File {
        let file = tempfile::tempfile().expect("a temporary file");
        let all = [
            sector(&[MAGIC, VERSION, 5, SECTOR as u64], ""),
            sector(&[1, 2, 0, 0], ""),
            vec![7; 2 * SECTOR],
            sector(&[0, 0, MARK, 3], "one"),
            sector(&[2, 1, 1, 0], ""),
            vec![8; SECTOR],
            sector(&[1, 1, DISCARD, 0], ""),
            sector(&[0, 0, MARK, 3], "two"),
        ];
        file.write_all_at(&all.concat(), 0).expect("written");
        file
    }

    fn sectors(disk: &File) -> Vec<u8> {
        let mut data = vec![0; 4 * SECTOR];
        disk.read_exact_at(&mut data, 0).expect("read");
        data.chunks(SECTOR).map(|sector| sector[0]).collect()
    }

    #[test]
    fn a_log_is_replayed_up_to_each_mark() {
        let (log, disk) = (log(), tempfile::tempfile().expect("a temporary file"));
        disk.write_all_at(&[1; 4 * SECTOR], 0).expect("written");
        let one = replay(&log, &disk, Place::default(), "one").expect("it is there");
        assert_eq!(sectors(&disk), [1, 7, 7, 1]);
        let two = replay(&log, &disk, one, "two").expect("it is there");
        assert_eq!(sectors(&disk), [1, 0, 8, 1]);
        let missing = replay(&log, &disk, two, "three").expect_err("there is none");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let wrong = replay(&disk, &log, one, "one").expect_err("no log");
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidData);
    }
}
