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

/// Ways in which a load is counted: as one of the few (0), or of the many, as it was of late or is.
const WAYS: u32 = 4;
const WAS_MANY: u32 = 1;
const IS_MANY: u32 = 2;

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
pub(super) struct FairLoad {
    requests: u32,
    bytes: u64,
    /// [`WAYS`] times the number of the epoch in which it was last counted, and how: see
    /// [`FairLoad::count`].
    counted: u32,
}

impl FairLoad {
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
    pub(super) fn has_few(&self, piece_max: u64) -> bool {
        let bytes_max = FEW_BYTES.min(u64::from(self.requests) * piece_max);
        self.requests <= FEW && self.bytes <= bytes_max
    }

    /// Whether it is of the few: it has few requests, and had so when it was last counted.
    pub(super) fn is_few(&self, piece_max: u64) -> bool {
        self.counted.is_multiple_of(WAYS) && self.has_few(piece_max)
    }

    /// It is counted no more.
    #[inline]
    pub(super) fn uncount(&mut self) {
        self.counted = 0;
    }

    /// A request has come in this epoch when it had few or many. Whether that puts it on the side
    /// of the many, and if it is to be counted there: `None` if it has been, else whether it was
    /// counted on the other side in this epoch.
    ///
    /// Nobody is of the few who had many in this epoch or the one before: of a client that asks for
    /// the next ones when all are done the first of each lot would be.
    #[inline]
    pub(super) fn count(&mut self, epoch: u32, has_many: bool) -> (bool, Option<bool>) {
        let (counted, was) = (self.counted / WAYS, self.counted % WAYS);
        let way = match counted {
            _ if has_many => IS_MANY,
            _ if counted == epoch => was,
            _ if counted + 1 == epoch && was == IS_MANY => WAS_MANY,
            _ => 0,
        };
        self.counted = epoch * WAYS + way;
        let was_counted = counted == epoch;
        let is_known = was_counted && (was == 0) == (way == 0);
        (way != 0, (!is_known).then_some(was_counted))
    }
}
