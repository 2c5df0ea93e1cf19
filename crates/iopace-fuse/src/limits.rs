//! How much the crate takes, with the reasons.

/// Threads that one user's requests may keep inside the file system's methods. A program waits in
/// one call at a time, and the disk is rarely asked for more than this by passed-through calls: as
/// many as a mount had for all users together before threads were elastic. A user who blocks them
/// blocks only his own requests.
pub const USER_THREADS: usize = 8;

/// The same for root: what the kernel does by itself (write-back, forgetting) comes in root's name,
/// and so do services that act for everybody.
pub const ROOT_THREADS: usize = 64;

/// The same for all users but root together: 24 users at their limit. A thread takes about 30 KiB
/// of stack and the part of its buffer that requests have filled.
pub const OTHERS_THREADS: usize = 192;

/// Threads that wait for requests at most: when more are free, one that has just finished ends. So
/// that a load which comes and goes does not start threads all the time.
pub const SPARE_THREADS: usize = 8;

/// Places for threads of a session: all that may be inside a method, the spare ones, and as many
/// that have just received a request and may have to queue it.
pub const SLOTS: usize = ROOT_THREADS + OTHERS_THREADS + 2 * SPARE_THREADS;

/// Bytes of one user's requests that wait for a thread. The kernel bounds their number by the
/// user's own threads; a request that does not fit gets `ENOMEM`. One always fits.
pub const QUEUED_USER_BYTES: usize = 16 << 20;

/// The same of all users but root together; root's queue has its own bound of this size.
pub const QUEUED_BYTES: usize = 128 << 20;

/// Of the requests that the kernel lets nobody wait for (`max_background`), the reads and writes
/// of one user that wait for a thread may be one part in so many of what those of others leave: the
/// kernel holds up everybody's reading ahead when there are no more. With a quarter, eight users
/// who block theirs leave a tenth. A request beyond that gets `EAGAIN`; a page that was
/// to be read ahead is read when it is asked for.
pub const BACKGROUND_PART: usize = 4;

/// As many a user may have in any case: what his threads wait for.
pub const BACKGROUND_USER_MIN: usize = 64;

/// Bytes that a queued request counts besides its own: its place in the queue.
pub const QUEUED_OVERHEAD: usize = 128;

/// Interrupted requests that are remembered until they are answered, 16 bytes each. An interrupt
/// can be received after its request was answered: such a number stays until this many others came.
pub const INTERRUPTED_MAX: usize = 65_536;

/// The largest write that may be asked for in the handshake: Linux takes no more than 256 pages by
/// default (`fs.fuse.max_pages_limit`).
pub const WRITE_BYTES_MAX: u32 = 16 << 20;

/// Bytes of a request besides the data of a write: headers, and names of at most a page.
pub const HEAD_BYTES: usize = 4096;

/// The smallest buffer that the kernel accepts (`FUSE_MIN_READ_BUFFER`), and room for the names of
/// a rename or a symbolic link, which is longer.
pub const BUFFER_BYTES_MIN: usize = 64 << 10;
