//! Bounds of groups that are made for callers of mounts, and of the cgroups that these stand for.

use iopace_core::time::Nanos;

/// Most groups that were made for classes and cgroups; others pay as the group above. A part of the
/// core's `GROUPS_MAX`, so that users can always make some.
pub const MADE_GROUPS_MAX: usize = 4_096;

/// Most of these that are made for one user who is not root: an eighth, so that one who makes
/// cgroups without end leaves room for others.
pub const MADE_GROUPS_OF_USER_MAX: usize = MADE_GROUPS_MAX / 8;

/// A group that was made for callers is removed when it is unused for so long: a script that runs
/// the same program again and again keeps it.
pub const MADE_UNUSED: Nanos = Nanos::from_millis(10_000);

/// Cgroups whose limits are looked at at once, each second: 46 µs each in a virtual machine, so 2.4
/// % of a processor at most, and 0.5 % for a hundred of them. With more of them a change is seen
/// later: with as many as there may be groups for, after eight seconds.
pub const CGROUPS_LOOKED: usize = 512;

/// The limits of a cgroup are read again when a new process of it comes and they were read longer
/// ago than this. A container that is made anew has others at once; a script that starts a
/// thousand programs a second does not pay for that.
pub const CGROUP_LOOK_AGE: Nanos = Nanos::from_millis(100);

/// Longest file of a cgroup: a line of some 100 bytes for each of more disks than machines have.
pub const CGROUP_FILE_BYTES_MAX: u64 = 64 * 1024;
