//! What a hostile system tells: attributes, numbers and extents of files, as a file system says
//! them that a user serves or has damaged, and the kernel's tables of mounts and processes, into
//! which users write names. For tests and for fuzzing (`fuzz/`, target `fuse_below`).

use crate::fuse::extents::hostile::extents;
use crate::fuse::tree::hostile::{attributes, known, names, numbers};
use crate::hostile::Bytes;
use crate::mount_table::{self, Entry};
use crate::process::hostile::processes;
use std::path::Path;

/// Takes an input apart: its first byte says for which part it is. Panics if anything comes out
/// that should not.
pub fn check(input: &[u8]) {
    let mut bytes = Bytes(input);
    match bytes.byte() % 7 {
        0 => attributes(&mut bytes),
        1 => extents(&mut bytes),
        2 => numbers(&mut bytes),
        3 => known(&mut bytes),
        4 => names(&mut bytes),
        5 => mounts(bytes.rest()),
        _ => processes(bytes.rest()),
    }
}

/// `/proc/self/mountinfo`, in which users name sources, options and mount points.
fn mounts(text: &[u8]) {
    let all = mount_table::parse(text);
    assert!(all.len() <= text.split(|byte| *byte == b'\n').count());
    for entry in &all {
        let Entry { mountpoint, root, source, .. } = entry;
        for path in [mountpoint, root, source] {
            assert!(path.as_os_str().len() <= text.len());
        }
        let _ = (entry.is_ours(), entry.connection(), entry.uid());
        assert!(
            mount_table::at(&all, mountpoint).is_some_and(|found| found.mountpoint == *mountpoint)
        );
        let above = mount_table::covering(&all, mountpoint);
        assert!(above.is_some_and(|found| mountpoint.starts_with(&found.mountpoint)));
    }
    let _ = mount_table::covering(&all, Path::new("/srv/x"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One input of each part, each of which says something.
    const SEEDS: [&[u8]; 9] = [
        b"\0\x03\x01\x05\x01\x07\x02\x61\xff\x02\x08\x01\x01\x01\x01",
        b"\x01\x01\0\x03\x02\x10\0\x0f\x01\x02\x20\0\0\x02\x30\0\x02\x40\0\x0f\0\x0f",
        b"\x02\x01\x01\x01\x01\x01\x03\x01\x02\x06\x00\x01\x01\x03",
        b"\x03\x10\0\x01\x01\x02\x08\x01\0\x01\x01\x02\x02\x02\x05\x01\x01\x02\x08",
        b"\x04user.a\0security.capability\0security.capabilityx\0",
        b"\x0540 27 8:17 / /srv rw shared:7 - fuse.iopace a\\040b rw,user_id=1000\n",
        b"\x0641 31 0:38 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        b"\x0612 (a) R 9 (b) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3\n",
        b"\x06Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n 0 1001 1\n",
    ];

    #[test]
    fn seeds_of_each_part_pass() {
        SEEDS.into_iter().for_each(check);
        let mut bytes = Bytes(b"\x02\x12\x34\x0f\x09\x07");
        assert_eq!([0; 3].map(|_| bytes.number()), [0x1234, u64::MAX << 56 | 0x09_07 << 40, 0]);
    }

    proptest! {
        #[test]
        fn nothing_that_a_system_says_is_too_odd(
            part in 0..7_u8,
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            check(&[&[part], &bytes[..]].concat());
        }

        #[test]
        fn nor_are_tables_with_odd_words(
            part in 5..7_u8,
            lines in proptest::collection::vec("[ -~]{0,8}( [0-9:/a-z\\\\-]{0,6}){3,12}", 0..4),
        ) {
            check(&[&[part], lines.join("\n").as_bytes()].concat());
        }
    }
}
