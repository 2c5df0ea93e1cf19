//! Every bound of the core in one place, each with its reason.

use crate::time::Nanos;
use crate::units::Bytes;

/// Most requests that one device may have at all: waiting, queued and in flight.
///
/// A table entry is about 200 bytes, so a full device costs some 13 MB. Frontends stop reading
/// their sockets long before.
pub const DEVICE_REQUESTS_MAX: usize = 65_536;

/// Default of `nr_requests`, slots per device: so many that they keep nobody back unless they are
/// set, as 256 clients with 64 requests each need. A scheduler shares what it sees: with the 128 of
/// the Linux block layer (queue-sysfs.txt) 64 groups of unequal weight that stream from a disk with
/// a head had a weighted Jain's index of 0.73 (0.999 with these), and 256 groups of random readers
/// a third of the rate.
pub const NR_REQUESTS_DEFAULT: u32 = 16_384;

/// Requests at the device of an engine for which nobody says how many: as many as the Linux block
/// layer has slots.
pub const WINDOW_DEPTH_DEFAULT: u32 = 128;

/// Smallest `nr_requests`: the Linux block layer's minimum (BLKDEV_MIN_RQ).
pub const NR_REQUESTS_MIN: u32 = 4;

/// Largest `nr_requests`: what the scheduler and the device together may hold.
pub const NR_REQUESTS_MAX: u32 = 32_768;

/// Largest fixed window: the deepest queue that a device offers (NVMe allows 65 535, no disk that
/// profits from scheduling goes beyond a thousand).
pub const WINDOW_DEPTH_MAX: u32 = 1_024;

/// Most bytes of a command of several requests by default, where requests are merged: Linux's
/// `max_sectors_kb` for many years (BLK_DEF_MAX_SECTORS, 512 KiB).
pub const MERGE_MAX_DEFAULT: Bytes = Bytes::from_kib(512);

/// The largest that may be asked for: no disk gains from more, and others wait for it.
pub const MERGE_MAX_MAX: Bytes = Bytes::from_mib(16);

/// Most requests of a command: the segments that Linux gives a request (BLK_MAX_SEGMENTS), far
/// below the 1 024 of a vectored system call.
pub const MERGE_PARTS_MAX: usize = 128;

/// Longest write-back request by default: the largest request of the disks of 2009 (FreeBSD's
/// MAXPHYS), small enough that a read behind it waits for 2 ms.
pub const WRITE_BACK_LEN: Bytes = Bytes::from_kib(128);

/// Largest portion of a buffered write that goes into memory at once. Long enough that a system
/// call per portion does not count, short enough that no write is far ahead of its rate.
pub const PORTION_MAX: Bytes = Bytes::from_mib(1);

/// Places in the device's table that are kept for write-back: frontends are refused before it must
/// be.
pub const WRITE_BACK_REQUESTS_MAX: usize = 1_024;

/// Most requests and buffered writes of frontends.
pub const FRONTEND_REQUESTS_MAX: usize = DEVICE_REQUESTS_MAX - WRITE_BACK_REQUESTS_MAX;

/// How long a scheduler may hold work while the device is idle before it is replaced.
///
/// Ten times the longest legal anticipation (wait_ms of rr is at most 30 ms) with room for a host
/// that was not scheduled; far below the 30 s after which Linux calls a request lost.
pub const SCHEDULER_STALL: Nanos = Nanos::from_millis(1_000);

/// A compiled-in scheduler is suspected of having lost a request that others, which came so much
/// later, have passed: then it is asked for all that it has.
///
/// Rarely, as it forgets then all that it has learned: `elevator` starves lawfully, and the longest
/// legal queue (`NR_REQUESTS_MAX`) takes a disk of 100 requests a second half of it.
pub const SCHEDULER_FORGETS: Nanos = Nanos::from_secs(600);

/// The same of a loaded policy, which is code of a stranger.
///
/// The time after which Linux calls a request of a disk lost (the time-out of SCSI disks). It is
/// looked for each tenth of that.
pub const POLICY_FORGETS: Nanos = Nanos::from_secs(30);

/// Longest state dump of a failed scheduler, in bytes: enough for its head and some hundred
/// requests, small enough for a log line collector.
pub const STATE_DUMP_BYTES_MAX: usize = 64 * 1024;

/// Most tasks a scheduler keeps statistics for. The one unused for longest is forgotten first.
pub const TASKS_MAX: usize = 16_384;

/// Most tasks that a device keeps an account of; a power of two. Some 1 KiB each. Only tasks with a
/// request there need a place; the others stay as long as there is room, and more would be too
/// many to list.
pub const TASK_ACCOUNTS_MAX: usize = 1_024;

/// Most parameters of one scheduler.
pub const PARAMETERS_MAX: usize = 16;

/// Smallest, default and largest `io.weight`: those of cgroup v2 (CGROUP_WEIGHT_*).
pub const GROUP_WEIGHT_MIN: u32 = 1;
/// See [`GROUP_WEIGHT_MIN`].
pub const GROUP_WEIGHT_DEFAULT: u32 = 100;
/// See [`GROUP_WEIGHT_MIN`].
pub const GROUP_WEIGHT_MAX: u32 = 10_000;

/// Most arrivals that a shadow keeps until it is known how they went, some 250 bytes each: 4 MB. At
/// 10 000 requests a second that is a live request of more than a second.
pub const SHADOW_LINE_MAX: usize = 16_384;

/// Most requests that are recorded to be replayed, some 200 bytes each: 3 MB while somebody looks.
pub const RECORDED_MAX: usize = 16_384;

/// Least, default and largest pause that `rate` aims at, in ms. Below 1 ms pauses cost more
/// processor time than the writes between them; above 100 ms a pause with one page more is longer
/// than the longest one (200 ms). The default lets ten writers have pauses below 10 ms.
pub const PAUSE_TARGET_MIN: u64 = 1;
/// See [`PAUSE_TARGET_MIN`].
pub const PAUSE_TARGET_DEFAULT: u64 = 8;
/// See [`PAUSE_TARGET_MIN`].
pub const PAUSE_TARGET_MAX: u64 = 100;

/// Lowest cap of a task in bytes per second: with less, one page would keep its program waiting for
/// more than a second, and it would look hung.
pub const TASK_CAP_MIN: u64 = 4_096;

/// Most tasks of a device that have a cap, some 100 bytes each. Caps are set by hand or by a
/// program that looks after a few others.
pub const TASK_CAPS_MAX: usize = 1_024;

/// Most requests of open clients in a shadow, some 400 bytes each: 7 MB.
pub const SHADOW_OPEN_MAX: usize = 16_384;

/// Flushes that wait in a shadow: each is looked at in every turn while write-back goes on.
pub const SHADOW_FLUSHES_MAX: usize = 64;

/// Most things that happen in a shadow before the live engine goes on: some 100 us of work after a
/// long stall, three or four per request otherwise.
pub const SHADOW_EVENTS_MAX: usize = 256;

/// Groups that a shadow is told of before the live engine goes on, when it begins: some 100 us.
/// With more of them it follows nothing until it knows all.
pub const SHADOW_GROUPS_STEP: u32 = 64;

/// Most groups that a shadow tells apart, some 5 KiB each.
pub const SHADOW_GROUPS_MAX: usize = 1_024;

// A full set of slots must fit into the device's table, with waiting room beside it.
const _: () = assert!((NR_REQUESTS_MAX as usize) < DEVICE_REQUESTS_MAX);
const _: () = assert!(NR_REQUESTS_MIN <= NR_REQUESTS_DEFAULT);
const _: () = assert!(TASK_ACCOUNTS_MAX.is_power_of_two());
