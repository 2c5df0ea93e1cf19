//! The bounds of ublk devices, each with its reason.

use std::time::Duration;

/// Most queues of a device, of which there is one for each processor: one thread serves all of
/// them, and is not quicker for more.
pub(super) const QUEUES_MAX: u16 = 4;

/// Requests of a queue, as disks and guests commonly have them. With four queues a device has as
/// many as an NBD connection may.
pub(super) const DEPTH: u16 = 128;

/// The longest read or write: what the kernel makes of its page cache at most, and no more than a
/// disk needs to be sequential. The driver takes up to 32 MiB.
pub(super) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Numbers of devices that are tried: others may have some, or take each before us.
pub(super) const IDS_MAX: u32 = 1_024;

/// A device waits so long until the kernel has noticed that its server was killed. Usually it has
/// within milliseconds. Where a queue had no free place left, it does when a request has taken
/// 30 s, as block devices have it; and once more where that was just renewed.
pub(super) const RECOVERY_PATIENCE: Duration = Duration::from_secs(100);

/// Between two looks whether it has.
pub(super) const RECOVERY_STEP: Duration = Duration::from_millis(20);

/// A deleted device is gone as soon as nobody has it open: udev looks at each for a moment.
pub(super) const DELETE_PATIENCE: Duration = Duration::from_secs(2);

/// Stack of the thread of a device: as that of an NBD connection.
pub(super) const STACK_BYTES: usize = 256 * 1024;

/// So often the lock of a record is asked for: whoever lists what is attached has it for less than
/// a millisecond.
pub(super) const HOLD_TRIES: u32 = 10;

/// So often the driver is asked to forget the old server before the device is looked at again.
pub(super) const BEGIN_TRIES: u32 = 40;

/// Between two of these: its worker runs within some ms.
pub(super) const BEGIN_STEP: Duration = Duration::from_millis(5);
