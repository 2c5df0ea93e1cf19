//! A virtio disk: what it says of itself, and what it may be asked (virtio 1.2, section 5.2).

use super::{QUEUE_SIZE_MAX, QUEUES_MAX, REQUEST_BYTES_MAX, SECTOR_BYTES};
use crate::device::DeviceInfo;

/// Size of the header of a request.
pub(super) const HEADER_BYTES: usize = 16;

/// Size of the name that a disk has: it fills what it does not need with zeroes.
pub(super) const ID_BYTES: usize = 20;

/// Size of one range of a discard or a write of zeroes.
pub(super) const RANGE_BYTES: usize = 16;

/// Most ranges of one request: as many as a page has room for would be 256, and each is a request
/// for the disk.
pub(super) const RANGES_MAX: u32 = 32;

/// Most parts in memory of one request: with header and status they fill 128 descriptors.
pub(super) const SEGMENTS_MAX: u32 = 126;

/// Most sectors of one range: 4 GiB less one block of any disk, as for NBD.
const RANGE_SECTORS_MAX: u32 = (u32::MAX - 4095) / SECTOR_BYTES as u32;

/// How a request ended, in the last byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    /// It is done.
    Ok = 0,
    /// It failed.
    IoError = 1,
    /// There is no such request.
    Unsupported = 2,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The disk is read.
    In,
    /// It is written.
    Out,
    /// All that was acknowledged becomes durable.
    Flush,
    /// It is asked for its name.
    Id,
    /// Data of some ranges are not needed any more.
    Discard,
    /// Some ranges become zeroes.
    WriteZeroes,
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The kind of request, if it is one.
    pub(super) kind: Option<Kind>,
    /// Where, in sectors.
    pub(super) sector: u64,
}

impl Header {
    pub(super) fn of(bytes: [u8; HEADER_BYTES]) -> Header {
        let [a, b, c, d, _, _, _, _, sector @ ..] = bytes;
        let kind = match u32::from_le_bytes([a, b, c, d]) {
            0 => Some(Kind::In),
            1 => Some(Kind::Out),
            4 => Some(Kind::Flush),
            8 => Some(Kind::Id),
            11 => Some(Kind::Discard),
            13 => Some(Kind::WriteZeroes),
            _ => None,
        };
        Header { kind, sector: u64::from_le_bytes(sector) }
    }
}

/// A range of a discard or a write of zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Where it begins, in sectors.
    pub(super) sector: u64,
    /// So many sectors.
    pub(super) count: u32,
    /// Bit 0: zeroes may be holes. Others are reserved.
    pub(super) flags: u32,
}

impl Range {
    pub(super) fn of(bytes: &[u8; RANGE_BYTES]) -> Range {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
        Range {
            sector: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            count: u32::from_le_bytes([i, j, k, l]),
            flags: u32::from_le_bytes([m, n, o, p]),
        }
    }
}

const F_SEG_MAX: u64 = 1 << 2;
const F_RO: u64 = 1 << 5;
const F_BLK_SIZE: u64 = 1 << 6;
/// The driver asks for flushes; without, what is acknowledged is durable.
pub(super) const F_FLUSH: u64 = 1 << 9;
const F_TOPOLOGY: u64 = 1 << 10;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;
const F_INDIRECT: u64 = 1 << 28;
/// Each side says from which place on it wants to be told.
pub(super) const F_EVENT_IDX: u64 = 1 << 29;
/// The conversation has features of its own.
pub(super) const F_PROTOCOL: u64 = 1 << 30;
const F_VERSION_1: u64 = 1 << 32;

/// The disk as a machine sees it.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// Its size in sectors, whole blocks only.
    pub(super) sectors: u64,
    /// Its smallest request in bytes.
    pub(super) block: u32,
    /// The best size of a request in bytes.
    best: u32,
    /// Whether it refuses writes.
    pub(super) read_only: bool,
    /// Its name, for `/dev/disk/by-id`.
    pub(super) id: [u8; ID_BYTES],
}

impl Disk {
    pub(super) fn new(info: &DeviceInfo, size_bytes: u64, name: &str, read_only: bool) -> Disk {
        let (block, best) = info.block_bytes;
        let block = block.max(SECTOR_BYTES as u32);
        let mut id = [0; ID_BYTES];
        for (to, from) in id.iter_mut().zip(name.bytes()) {
            *to = if from.is_ascii_graphic() { from } else { b'_' };
        }
        let size = size_bytes - size_bytes % u64::from(block);
        let read_only = read_only || info.read_only;
        Disk { sectors: size / SECTOR_BYTES, block, best: best.max(block), read_only, id }
    }

    /// The features that a driver is offered.
    pub(super) fn features(&self) -> u64 {
        let writes = if self.read_only { F_RO } else { F_DISCARD | F_WRITE_ZEROES };
        let disk = F_SEG_MAX | F_BLK_SIZE | F_FLUSH | F_TOPOLOGY | F_MQ | writes;
        disk | F_INDIRECT | F_EVENT_IDX | F_PROTOCOL | F_VERSION_1
    }

    /// Its configuration space (section 5.2.4), up to the fields of writes of zeroes.
    pub(super) fn config(&self) -> Vec<u8> {
        let blocks = |bytes: u32| bytes / self.block;
        let mut space = Vec::with_capacity(60);
        space.extend(self.sectors.to_le_bytes());
        space.extend(0u32.to_le_bytes()); // size_max: any
        space.extend(SEGMENTS_MAX.to_le_bytes());
        space.extend([0; 4]); // geometry: none
        space.extend(self.block.to_le_bytes());
        // A physical block is the best size: so many logical ones, as a power of two.
        let exponent = u8::try_from(blocks(self.best).ilog2()).unwrap_or(0);
        space.extend([exponent, 0]);
        space.extend(u16::try_from(blocks(self.best)).unwrap_or(1).to_le_bytes());
        space.extend(blocks(REQUEST_BYTES_MAX as u32).min(blocks(1 << 20)).to_le_bytes());
        space.extend([0, 0]); // writeback: not to be changed
        space.extend((QUEUES_MAX as u16).to_le_bytes());
        for _ in ["discard", "write zeroes"] {
            space.extend(RANGE_SECTORS_MAX.to_le_bytes());
            space.extend(RANGES_MAX.to_le_bytes());
            if space.len() == 44 {
                space.extend((self.block / SECTOR_BYTES as u32).to_le_bytes());
            }
        }
        space.extend([1, 0, 0, 0]); // zeroes may be holes
        debug_assert_eq!((space.len(), usize::from(QUEUE_SIZE_MAX) % 2), (60, 0));
        space
    }

    /// Whether so many bytes from a sector on are whole blocks of it.
    pub(super) fn has(&self, sector: u64, bytes: u64) -> bool {
        let block = u64::from(self.block);
        let is_whole = bytes.is_multiple_of(block) && sector.is_multiple_of(block / SECTOR_BYTES);
        let end = sector.checked_add(bytes / SECTOR_BYTES);
        is_whole && end.is_some_and(|end| end <= self.sectors)
    }
}
