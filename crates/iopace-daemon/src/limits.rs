//! Every bound of the daemon in one place, each with its reason.

use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::time::Duration;

mod cgroups;
mod remote;

pub use cgroups::{
    CGROUP_FILE_BYTES_MAX, CGROUP_LOOK_AGE, CGROUPS_LOOKED, MADE_GROUPS_MAX,
    MADE_GROUPS_OF_USER_MAX, MADE_UNUSED,
};
pub(crate) use remote::*;

/// Default for the most NBD connections at once. Each costs a thread and 128 KiB of buffers.
pub const CONNECTIONS_DEFAULT: usize = 1_024;

/// Descriptors for all but clients: devices, sockets, the control socket and its streams.
pub const DESCRIPTORS_OWN: u64 = 256;

/// Stack of a connection's thread: the deepest path needs under 64 KiB.
pub const CONNECTION_STACK_BYTES: usize = 256 * 1024;

/// Default for the bytes of requests and replies of all clients, and of the process itself.
pub const MEMORY_DEFAULT: Bytes = Bytes::from_mib(256);

/// Bytes of requests and replies that every connection may hold whatever the others do: so small
/// requests of a good client flow. What all share is less by this for each connection.
pub const CONNECTION_OWN_BYTES: u64 = 64 << 10;

/// The block of requests past the page cache: no disk has a larger logical one, and the kernel
/// wants memory and places in multiples of that.
pub const DIRECT_BLOCK_BYTES: u64 = 4096;

/// How long an image that is locked is waited for: a process that was killed is gone by then, also
/// on a busy machine; one that serves it keeps it.
pub const LOCK_PATIENCE: Nanos = Nanos(2_000_000_000);

/// The pause between two looks at such a lock.
pub const LOCK_STEP: Duration = Duration::from_millis(5);

/// The memory that a connection takes without any request: 64 KiB of input and 32 KiB for small
/// replies. Its stack is not counted, some 20 KiB.
pub const CONNECTION_FIXED_BYTES: u64 = 96 << 10;

/// The memory that a connection takes away from the shared part.
pub const CONNECTION_RESERVED_BYTES: u64 = CONNECTION_OWN_BYTES + CONNECTION_FIXED_BYTES;

/// The memory of a request beside its data: in the engine, on its way to it, and its reply.
pub const REQUEST_BYTES: u64 = 1 << 10;

/// Most bytes of requests and replies of one connection: one request of the largest size (64 MiB)
/// and its like in unread replies.
pub const CONNECTION_BYTES_MAX: u64 = 128 << 20;

/// One connection may hold as much as [`CONNECTION_OWN_BYTES`] and one part in so many of the
/// shared memory that is free, and one request whatever is free: a client that takes no replies
/// gets a third of it, and however many of them there are, something is left.
pub const FREE_PART: u64 = 2;

/// Announced data of a write comes so quickly at least, after [`STUCK_CLIENT`], if memory is short.
pub const PAYLOAD_BYTES_S_MIN: u64 = 1 << 20;

/// Buffered writes of one connection that stage pace holds up may hold as much as
/// [`CONNECTION_OWN_BYTES`] and one part in so many of the shared memory that is free: one such
/// client gets a fifth of it, ten of them leave more than a quarter to the others. More for each
/// would not make any of them quicker, as its rate is what holds it up.
pub const PACED_PART: u64 = 4;

/// Most requests of one connection that are not yet answered; then its socket is not read.
/// Four times the depth that fio or a guest kernel (128) commonly uses.
pub const CONNECTION_REQUESTS_MAX: usize = 512;

/// Replies gathered for a connection before they are sent: as much as a Unix socket takes at once.
pub const REPLY_BATCH_BYTES: usize = 192 * 1024;

/// A handshake that is not finished by then is closed.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks of a sending thread whether its client is stuck (see [`STUCK_CLIENT`]).
pub const SEND_LOOK: Duration = Duration::from_millis(500);

/// A client that takes none of its replies for this long, while others wait for memory, is closed.
pub const STUCK_CLIENT: Duration = Duration::from_secs(5);

/// The same for a client that takes less than [`REPLIES_BYTES_MIN`] in so long a time: one that
/// takes a few bytes now and then would keep its replies for ever.
pub const SLOW_CLIENT: Duration = Duration::from_secs(30);

/// A line of 17 kbit/s brings as much in [`SLOW_CLIENT`].
pub const REPLIES_BYTES_MIN: usize = 64 << 10;

/// A connection's thread looks this long for the next request before it sleeps, if the last sleep
/// was short. A client at depth 1 on the same machine is back within 10 to 30 µs; the kernel's halt
/// polling allows itself 200.
pub const SPIN_MAX: Nanos = Nanos::from_micros(50);

/// A sleep is short up to here: [`SPIN_MAX`] and what waking two processors adds to it.
pub const SPIN_PAYS: Nanos = Nanos::from_micros(100);

/// Requests in flight are waited for this long at shutdown before connections are cut.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Threads for disk operations that may block and that io_uring does not speed up: flush, trim,
/// write-zeroes, cache. Flushes of one file are serialised by the kernel anyway.
pub const SLOW_THREADS: usize = 4;

/// Threads that wait for write-back: as many requests of it are at the disk at most. Two keep a
/// disk busy while one is reported; the rest is for disks that profit from depth.
pub const FLUSH_THREADS: usize = 4;

/// Threads for buffered writes that had to wait for stage pace. Writing a part of a page that is
/// not cached waits for the disk; a few of them do not hold up the others.
pub const WRITE_THREADS: usize = 4;

/// What may be dirty where the kernel does not say what it allows: a quarter of the default memory
/// for clients, little on any machine of today.
pub const DIRTY_FALLBACK: Bytes = Bytes::from_mib(64);

/// Least `dirty-limit` of a device: eight write-back requests of 128 KiB, so that a disk is never
/// without one.
pub const DIRTY_LIMIT_MIN: Bytes = Bytes::from_mib(1);

/// Threads for reads and writes where io_uring is refused: the window's default depth.
pub const POOL_THREADS: usize = 32;

/// Default window of a file or block device: what SATA NCQ disks hold (32) and about where SSDs
/// reach their throughput.
pub const FILE_WINDOW_DEFAULT: u32 = 32;

/// Below this mean service time a single request is read or written by the thread that received
/// it, as a hop to another thread would cost more than it brings; above it, the thread goes on
/// reading its socket meanwhile.
pub const INLINE_SERVICE: Duration = Duration::from_micros(100);

/// The same for a mount, whose threads are several: a hop costs two of them being woken, and the
/// kernel has work of io_uring done by the thread that asked, which it wakes for that too.
pub const INLINE_SERVICE_MOUNT: Duration = Duration::from_millis(1);

/// Most threads of a mount that wait for the disk at the same time in this way: the others go on,
/// also when the disk suddenly does not.
pub const INLINE_THREADS: usize = FUSE_THREADS / 2;

/// Events kept for `sched status`; older ones are in the log.
pub const EVENTS_KEPT: usize = 64;

/// A failed request of a device is logged so often at most, with the number of others since: a disk
/// that has gone fails tens of thousands a second.
pub const FAILURES_EVERY: Nanos = Nanos::from_secs(10);

/// Default size of an emulated disk's page cache.
pub const EMULATED_CACHE_DEFAULT: Bytes = Bytes::from_mib(256);

/// Bytes of one write through a mount: what the kernel sends at most (256 pages), and large enough
/// that a disk is sequential.
pub const FUSE_WRITE_BYTES_MAX: u32 = 1 << 20;

/// Read-ahead and asynchronous direct requests that wait for an answer of a mount. What is beyond
/// it waits in the kernel, in order of arrival and before any scheduler: so many, that users who
/// block theirs leave some (`iopace_fuse::limits`). An eighth of a device's table.
pub const FUSE_BACKGROUND_MAX: u16 = 8192;

/// Reads of a mount of so many bytes or more, of which nothing is cached below, bypass the page
/// cache there. Half of what the kernel reads ahead by default (128 KiB): who reads in order comes
/// this far at once, and who reads here and there does not.
pub const FUSE_DIRECT_READ_MIN: u32 = 64 << 10;

/// Files that are open a second time to be read so; each is a descriptor more. Others are read
/// through the cache.
pub const PAST_CACHE_FILES_MAX: usize = 256;

/// Most read-ahead of a mount, and what it begins with: two of its largest requests, so that the
/// disk has one while the other is copied. Below the mount nothing is read ahead, so that all of it
/// is asked for at the device.
pub const FUSE_READ_AHEAD_KB: u32 = 2048;

/// Least read-ahead of a mount, however slow the disk is: the kernel's default for a disk.
pub const FUSE_READ_AHEAD_MIN_KB: u32 = 128;

/// The same for exports that are shown as files: what the queue of a loop device holds. Each holds
/// at most 1 MiB of memory, so a loop device no more than 128 MiB.
pub const IMAGE_BACKGROUND_MAX: u16 = 128;

/// Open files and mappings looked at of one process, to say who keeps a mount or a directory busy:
/// the usual `fs.nr_open`. A database may have thousands.
pub const BUSY_FILES_MAX: usize = 1_048_576;

/// Time for one process: a hundred thousand open files take some tenths of a second, more on a busy
/// machine.
pub const BUSY_PROCESS_PATIENCE: Duration = Duration::from_secs(5);

/// Time for all processes: ten thousand of them take some seconds. Nobody waits but who asked.
pub const BUSY_LOOK_PATIENCE: Duration = Duration::from_secs(30);

/// The same while the mount is attached and not served yet: whoever comes to it waits meanwhile.
pub const BUSY_LOOK_ATTACHED_PATIENCE: Duration = Duration::from_secs(10);

/// A look that has not ended so long after its time is held up by the kernel.
pub const LOOK_GRACE: Duration = Duration::from_secs(1);

/// Bytes read of what the kernel says of one descriptor: some thousand locks.
pub const BUSY_INFO_BYTES_MAX: u64 = 65_536;

/// Processes named as those that keep a mount busy; who ends ten may ask again.
pub const BUSY_SHOWN_MAX: usize = 10;

/// A mount is asked this long whether it is alive. Attributes come from memory or one read of a
/// disk; a disk under load answers within a second or two.
pub const PROBE_PATIENCE: Duration = Duration::from_secs(3);

/// At the end of a mount its requests, and those who still use its files, are waited for this long
/// before the connection is cut.
pub const MOUNT_PATIENCE: Duration = Duration::from_secs(10);

/// A mount is in use if it is at each of so many looks: whoever lists all mounts or open files
/// holds each for some microseconds.
pub const BUSY_LOOKS: u32 = 10;

/// Between two looks: some time slices of whoever was interrupted in the midst of it.
pub const BUSY_STEP: Duration = Duration::from_millis(50);

/// A connection that was cut has failed all that it held within this time.
pub const CUT_PATIENCE: Duration = Duration::from_secs(2);

/// Requests of one user that wait for locks of a mount: each is a thread of a program that waits in
/// a call, and takes some 300 bytes here. Beyond it there is `ENOLCK`.
pub const LOCK_WAITERS_USER_MAX: usize = 4096;

/// The same of root, for services that act for many.
pub const LOCK_WAITERS_ROOT_MAX: usize = 65_536;

/// Ranges of files that one user has locked through a mount: some 40 bytes each here, and some 200
/// in the kernel below, which counts them as the daemon's.
pub const LOCK_RANGES_USER_MAX: usize = 65_536;

/// The same of root.
pub const LOCK_RANGES_ROOT_MAX: usize = 1 << 20;

/// The first pause between two looks at a lock past the mount; each further one is twice as long.
pub const LOCK_STEP_MIN: Nanos = Nanos(1_000_000);

/// The longest of these pauses.
pub const LOCK_STEP_MAX: Nanos = Nanos(50_000_000);

/// Between two lines of the log which say that somebody was refused memory that a process past the
/// mount shares. SQLite asks some hundred times within ten seconds.
pub const LOCK_REFUSAL_STEP: Nanos = Nanos(1_000_000_000);

/// Threads that look at such locks, one for each device below; the directory's own always has one.
pub const LOCK_THREADS: usize = 64;
/// Of these, for devices on which one user first waited.
pub const LOCK_USER_THREADS: usize = 4;

/// How long the end of an open file of which a descriptor was closed is waited for by one who asks
/// for a lock that it has, and does not want to wait: nobody waits for that end in the kernel.
pub const LOCK_CLOSING_PATIENCE: Nanos = Nanos(100_000_000);

/// Threads that receive FUSE requests, per mount, when none is held up. They do what is passed
/// through (names, attributes) themselves and wait for the disk meanwhile; there are more as soon
/// as many wait, so many of each user's (`iopace_fuse::limits`). Reads and writes that have to
/// wait are held without a thread.
pub const FUSE_THREADS: usize = iopace_fuse::limits::SPARE_THREADS;

/// Who finds a disk full waits for the space of a file that has just lost its last name at most
/// until this time after it did: usually a millisecond, and more only where processors are short.
pub const LEAVING_PATIENCE: Nanos = Nanos::from_secs(2);

/// Files that have just lost their last name and that are remembered: more than are removed while
/// one waits to be heard of, unless many are still open.
pub const LEAVING_MAX: usize = 1_024;

/// An operation of a limited group that has the kernel keep a directory locked waits for so long,
/// and up to half a second until somebody looks: whoever needs a name in the directory waits with
/// it. A limit of one operation a second is still kept.
pub const OPERATION_PATIENCE: Nanos = Nanos::from_secs(1);

/// Operations of a group on a mount that were carried out after that and still stand in line for
/// what they owe. One more waits for as long but owes nothing: a group that is behind by a quarter
/// of an hour with each of its programs, or by a second with a thousand of them, must not fill the
/// device's table (65,536 requests).
pub const OPERATIONS_OWED_MAX: usize = 1_024;

/// The same of all groups of a mount together: an eighth of what a device's table holds.
pub const OPERATIONS_OWED_TOTAL_MAX: usize = 8_192;

/// Places on an emulated disk that one sync of a file asks for by themselves, each with a flush of
/// its own. A file that grows has one or two; beyond this it is large, and waits with others.
pub const SYNC_PIECES_MAX: usize = 4;

/// A direct write through a mount is cut to this once held writes have taken all their memory: a
/// program gets a short count then, as it may from any direct write. Whole blocks of any disk.
pub const FUSE_SHORT_WRITE_BYTES: usize = 64 << 10;

/// Bytes that the kernel has written from mappings and that stage pace has not yet counted. It
/// bounds by itself what of mappings is dirty (1 % of what may be, `BDI_CAP_STRICTLIMIT`); what
/// comes beyond this is left to it.
pub const FUSE_MAPPED_BYTES_MAX: u64 = 64 << 20;

/// Part of the descriptors that may be taken by files kept open for their write-back, in percent.
/// What is dirty beyond is written back by the kernel when it likes.
pub const FUSE_KEPT_PERCENT: usize = 10;

/// Threads that move the data of files on an emulated disk at the instant that the model is done
/// with it: more than a small real disk is ever asked at once.
pub const MOVE_THREADS: usize = 8;

/// Callers of mounts that are kept, each some 300 bytes: as many as the core keeps tasks
/// (`TASKS_MAX`). The one unused for longest is looked at again when it comes back.
pub const CALLERS_MAX: usize = 16_384;

/// A new caller is looked at again after this: a shell that was forked becomes the program that it
/// runs within a few ms.
pub const RECHECK_FIRST: Nanos = Nanos::from_millis(10);

/// The time between two looks doubles up to this: a changed `ionice` counts after so long at most.
/// A look costs some 50 µs.
pub const RECHECK_MAX: Nanos = Nanos::from_millis(1_000);

/// Most rules of a mount: all are compared at each new caller, some 50 ns each.
pub const RULES_MAX: usize = 1_024;

/// Most processes that were moved to a group, by themselves or through a parent.
pub const MOVED_MAX: usize = 4_096;

/// Moved processes that are asked about at once whether they are still there: some 2 ms.
pub const MOVED_SWEPT: usize = 256;

/// Parents that are asked about at most to find one that was moved.
pub const PARENTS_MAX: usize = 32;

/// Most processes in one answer of the control socket: some 100 bytes each.
pub const PROCESSES_LISTED_MAX: usize = 4_096;

/// Free loop devices that are tried: each may be taken by somebody else before us.
pub const LOOP_TRIES_MAX: usize = 16;

/// Loop devices that are looked at: more than `max_part` and common setups ever have.
pub const LOOPS_MAX: u32 = 1_024;

/// Part of the descriptors that inodes known to the kernel may take, in percent, in all mounts of
/// the process together: the rest is for files that are open.
pub const FUSE_INODES_PERCENT: usize = 50;

/// Files that the kernel may know of a mount before it is asked to forget some: each takes some 200
/// bytes here, and a KiB of the kernel's memory.
pub const FUSE_KNOWN_MAX: usize = 1 << 20;

/// Groups with metrics of their own, the first by path: each is some 50 lines for every device.
/// More are for `iopace group stat`.
pub const METRICS_GROUPS_MAX: usize = 2_000;

/// The same over all devices: a daemon with many of them has fewer groups in its metrics. 200 000
/// lines are some 20 MB, as much as a server takes at a gulp.
pub const METRICS_GROUPS_EVERYWHERE_MAX: usize = 4_000;

/// Groups, the first by path, with a histogram for each stage: 14 lines for each of the stages that
/// held them up.
pub const METRICS_STAGE_GROUPS_MAX: usize = 200;

/// Intervals of a second that are kept of what everything does: the last two minutes, as much as a
/// chart shows at a glance. Some 2 KiB for each device and half a KiB for each group on it.
pub const LIVE_KEPT: usize = 120;

/// Groups listed for a device in an interval that is not the newest any more: more than a chart can
/// tell apart. 120 such reports are some 4 MiB for each device; with all groups they were 30.
pub const LIVE_GROUPS_KEPT: usize = 64;

/// Events that are kept for listeners that were cut off.
pub const LIVE_EVENTS_KEPT: usize = 256;

/// Groups listed for a device in one interval; others are counted.
pub const LIVE_GROUPS_MAX: usize = 512;

/// Groups are listed up to here also if they did nothing, have nothing and nothing is set for them.
pub const LIVE_GROUPS_IDLE_MAX: usize = 64;

/// Groups that are looked at under one hold of a device's lock: some microseconds.
pub const LIVE_GROUPS_LOOK: usize = 16;

/// Accounts of tasks that are copied under one hold of a device's lock, 1 KiB each: some 10 µs.
pub const LIVE_TASKS_LOOK: usize = 64;

/// Groups whose settings are looked up under one hold of the lock of the groups: some 50 µs.
pub const SETTINGS_LOOK: usize = 64;

/// Groups that are told at once of those in one family of metrics, a histogram or not: some
/// 100 µs and 64 KiB, until others may go on.
pub const METRICS_PIECE: [usize; 2] = [12, 64];

/// Tasks of a device that are listed: some screens full.
pub const LIVE_TASKS_MAX: usize = 64;

/// Long answers that are handed to the thread that makes them and not yet taken note of: more than
/// clients and streams that there may be. Beyond that, the thread that waits makes them.
pub const ASIDE_HANDED_MAX: usize = 512;

/// Between two of these holds: who waits for the lock is awake by then and gets it. Without it the
/// next hold comes first, again and again, until all groups were looked at.
pub const LOOK_PAUSE: Duration = Duration::from_micros(50);
