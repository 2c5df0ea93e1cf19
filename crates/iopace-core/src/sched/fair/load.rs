//! How much somebody has queued and at the disk, and on which side that puts him.

/// Most requests of a task or group with few. On a disk with a head (NCQ): so many are lost among
/// others, as it orders them by place; of more, some are always the nearest ones.
pub(super) const FEW: u32 = 4;

/// Their most bytes: two readings ahead of Linux (128 KiB).
pub(super) const FEW_BYTES: u64 = 256 << 10;

/// Their largest mean request on a disk without a head while nobody has more than [`FEW_BYTES`]:
/// less than one reading ahead. A read of 16 KiB beside one that reads 128 KiB at a time waits for
/// the interface for longer than it takes itself.
pub(super) const PIECE_AMONG_FEW: u64 = (128 << 10) - 1;

/// How much somebody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Side {
    /// Of class idle, or below a group of that class.
    Idle,
    /// A few requests at a time.
    #[default]
    Few,
    /// Many.
    Many,
}

/// Requests and bytes that a task or group has queued and at the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    requests: u32,
    bytes: u64,
    /// Twice the number of the epoch in which it was last counted, and one more if as one of the
    /// many: see [`Load::count`].
    counted: u32,
}

impl Load {
    pub(super) fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }

    /// Harmless for what was never added.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn requests(&self) -> u32 {
        self.requests
    }

    /// Whether it has few requests, and none larger than that on the mean.
    pub(super) fn is_few(&self, piece_max: u64) -> bool {
        let bytes_max = FEW_BYTES.min(u64::from(self.requests) * piece_max);
        self.requests <= FEW && self.bytes <= bytes_max
    }

    /// A request has come when it was on that side: `None` if it has been counted there in this
    /// epoch, else whether it was counted on the other one. Nobody is of the few any more who was
    /// of the many.
    #[inline]
    pub(super) fn count(&mut self, epoch: u32, side: Side) -> Option<bool> {
        let (mark, was) = (2 * epoch + u32::from(side == Side::Many), self.counted);
        let was_counted = was / 2 == epoch;
        if was_counted && was >= mark {
            return None;
        }
        self.counted = mark;
        Some(was_counted)
    }
}
