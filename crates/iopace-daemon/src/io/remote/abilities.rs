//! The requests that an export takes, as the flags of its server say.

use crate::limits::{REMOTE_PAYLOAD_DEFAULT, REMOTE_RANGE_MAX};
use iopace_core::request::{Extent, Op};
use iopace_core::units::Bytes;
use iopace_nbd::client::Session;
use iopace_nbd::{MAX_REQUEST_LEN, wire};

/// Largest write that stands in for a part of a write of zeroes, in bytes.
pub(super) const ZEROES_BYTES: u32 = 256 << 10;

/// The flags of a session that clients above depend on: an export with others is another one.
const FIXED_FLAGS: u16 = wire::READ_ONLY | wire::SEND_FLUSH;

/// The requests that an export takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    flags: u16,
    /// Largest read or write in bytes.
    payload_max: u32,
}

/// One request as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// `CMD_` of the protocol.
    pub(super) kind: u16,
    /// `CMD_FLAG_` of the protocol.
    pub(super) flags: u16,
    /// Its place in the export in bytes.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) len: u32,
    /// It is a write that stands in for a write of zeroes.
    pub(super) is_zeroes: bool,
}

impl Piece {
    /// A request that covers all writes that were answered.
    pub(super) const FLUSH: Piece =
        Piece { kind: wire::CMD_FLUSH, flags: 0, offset: 0, len: 0, is_zeroes: false };

    /// Whether it changes the export.
    pub(super) fn changes(&self) -> bool {
        [wire::CMD_WRITE, wire::CMD_TRIM, wire::CMD_WRITE_ZEROES].contains(&self.kind)
    }

    /// Its place in the export.
    pub(super) fn extent(&self) -> Extent {
        let extent = Extent::new(Bytes(self.offset), Bytes(u64::from(self.len)));
        extent.expect("it is part of an extent")
    }

    /// Whether both have a byte in common.
    pub(super) fn overlaps(&self, other: Extent) -> bool {
        self.extent().overlaps(other)
    }
}

impl Abilities {
    /// Those of an opened export.
    ///
    /// # Errors
    /// Its block sizes are none that can be kept.
    pub(super) fn of(session: &Session) -> Result<Abilities, &'static str> {
        let [min, _, max] = session.block_sizes.unwrap_or([1, 4096, REMOTE_PAYLOAD_DEFAULT]);
        let max = max.min(MAX_REQUEST_LEN);
        // Pieces begin and end at multiples of the smallest block, and of a page where they can.
        let unit = if max >= 4096 { min.max(4096) } else { min };
        if !min.is_power_of_two() || max < unit {
            return Err("its block sizes make no sense");
        }
        Ok(Abilities { flags: session.flags, payload_max: max - max % unit })
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether writes are durable only behind a flush; without that they are, by its word.
    pub(super) fn can_flush(&self) -> bool {
        self.has(wire::SEND_FLUSH)
    }

    /// Whether a durable write takes a flush behind it.
    pub(super) fn needs_flush_behind(&self, fua: bool) -> bool {
        fua && !self.has(wire::SEND_FUA) && self.can_flush()
    }

    /// Whether there is nothing to be sent for such a request: the export has no such advice, or
    /// nothing that is not durable.
    pub(super) fn has_nothing_to_do(&self, op: Op) -> bool {
        match op {
            Op::Flush => !self.can_flush(),
            Op::Trim => !self.has(wire::SEND_TRIM),
            Op::Cache => !self.has(wire::SEND_CACHE),
            Op::Read | Op::Write | Op::WriteZeroes => false,
        }
    }

    /// The next request for a part of `extent`, of which `done` bytes were sent for.
    pub(super) fn piece(&self, op: Op, extent: Extent, done: u64, fua: bool) -> Piece {
        let is_zeroes = op == Op::WriteZeroes && !self.has(wire::SEND_WRITE_ZEROES);
        let (kind, most) = match op {
            Op::Flush => return Piece::FLUSH,
            Op::Read => (wire::CMD_READ, self.payload_max),
            Op::Write => (wire::CMD_WRITE, self.payload_max),
            Op::WriteZeroes if is_zeroes => (wire::CMD_WRITE, self.payload_max.min(ZEROES_BYTES)),
            Op::WriteZeroes => (wire::CMD_WRITE_ZEROES, REMOTE_RANGE_MAX),
            Op::Trim => (wire::CMD_TRIM, REMOTE_RANGE_MAX),
            Op::Cache => (wire::CMD_CACHE, self.payload_max),
        };
        let left = extent.len().get() - done;
        let len = u32::try_from(left).map_or(most, |left| left.min(most));
        let mut piece =
            Piece { kind, flags: 0, offset: extent.offset().get() + done, len, is_zeroes };
        if fua && piece.changes() && self.has(wire::SEND_FUA) {
            piece.flags = wire::CMD_FLAG_FUA;
        }
        piece
    }

    /// The ways in which an export is another one than before; `None` if it is the same.
    pub(super) fn difference(before: &Session, now: &Session) -> Option<String> {
        if before.size_bytes != now.size_bytes {
            let (before, now) = (before.size_bytes, now.size_bytes);
            return Some(format!("it has {now} bytes and had {before}"));
        }
        let min = |session: &Session| session.block_sizes.map_or(1, |sizes| sizes[0]);
        if min(now) > min(before) {
            return Some(format!(
                "its smallest block is {} bytes and was {}",
                min(now),
                min(before)
            ));
        }
        let changed = (before.flags ^ now.flags) & FIXED_FLAGS;
        let word = if changed & wire::READ_ONLY != 0 { "read-only" } else { "a volatile cache" };
        let is = if now.flags & changed != 0 { "is or has" } else { "is not or has not" };
        (changed != 0).then(|| format!("it {is} {word} by now"))
    }
}
