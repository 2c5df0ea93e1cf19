//! Every bound of a loaded policy in one place, as `docs/policy-abi.md` has them.

/// The number of the interface that this host speaks.
pub const ABI: i32 = 1;

/// Largest file of a policy: policies are 5 to 300 KiB.
pub const MODULE_BYTES_MAX: usize = 4 << 20;

/// Largest memory of a policy: 32,768 queued requests of some hundred bytes each, several times
/// over.
pub const MEMORY_BYTES_MAX: usize = 32 << 20;

/// Most elements of its table of functions: a large policy has a hundred.
pub const TABLE_ELEMENTS_MAX: usize = 1_024;

/// Its stack: programs without deep recursion need some KiB, and the threads of the daemon that
/// call a policy have 256 KiB, of which the engine needs its part.
pub const STACK_BYTES_MAX: usize = 64 << 10;

/// The stack of the thread that compiles: the compiler is a large program.
pub const COMPILER_STACK_BYTES: usize = 8 << 20;

/// Fuel of one call: one unit per instruction and more for loads and stores, see `cost.rs`. A call
/// of a good policy takes some thousand; that of one that looks at a thousand groups (`fair`, now
/// and then) between one and four million.
pub const FUEL_PER_CALL: u64 = 4_000_000;

/// Fuel of a line of log, which is copied, checked and handed on by the host.
pub const FUEL_PER_LOG_LINE: u64 = 1_000;

/// Longest line of log, in bytes.
pub const LOG_LINE_BYTES_MAX: usize = 1_024;

/// Lines of log of a call; what is beyond is dropped.
pub const LOG_LINES_PER_CALL_MAX: u32 = 16;

/// Longest description, in bytes: all of its texts at their longest take 12 KiB.
pub const DESCRIPTION_BYTES_MAX: usize = 64 << 10;

/// Longest text in a description, in characters: two sentences.
pub const TEXT_CHARS_MAX: usize = 200;

/// Longest name of a policy, a parameter or a counter.
pub const NAME_BYTES_MAX: usize = 32;

/// Most counters of a policy; as many values has the desk.
pub const COUNTERS_MAX: usize = 32;

/// Least and largest room for events.
pub const EVENT_BYTES: core::ops::RangeInclusive<usize> = 4_096..=65_536;

/// Most bytes of events that one call is given, whatever room there is: 32 of the longest, so that
/// each has some 120,000 units of the fuel of a call.
pub const EVENT_BYTES_PER_CALL: usize = 32 * 96;

/// Most answers of a call.
pub const ANSWERS_MAX: usize = 64;

/// Most files of compiled code that are kept, the least recently used go first: each is up to a few
/// MiB.
pub const CACHED_FILES_MAX: usize = 64;

/// Largest file of compiled code: machine code is some five times as long as WebAssembly.
pub const CACHED_BYTES_MAX: usize = 64 << 20;
