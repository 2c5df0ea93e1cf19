//! Extents of a damaged file system, see [`crate::fuzzing`].

use super::{ASKED, Extents, Raw};
use crate::hostile::Bytes;

/// Any answers to some questions: no place is beyond 64 bits, and memory is bounded.
pub(crate) fn extents(bytes: &mut Bytes<'_>) {
    let mut known = Extents::default();
    for _ in 0..4 {
        // No file is longer than the kernel's signed offsets.
        let offset = bytes.number() >> 1;
        let count = usize::from(bytes.byte()) % (ASKED + 1);
        let raw = |bytes: &mut Bytes<'_>| Raw {
            logical: bytes.number(),
            physical: bytes.number(),
            length: bytes.number(),
            flags: bytes.number() as u32,
            ..Raw::default()
        };
        let all: Vec<Raw> = (0..count).map(|_| raw(bytes)).collect();
        known.answered(offset, &all);
        assert!(known.look(offset).is_some(), "it was asked for");
        assert!(known.known.len() <= 4 * (2 * ASKED + 2));
        for one in &all {
            for at in [one.logical, one.logical.saturating_add(one.length / 2), one.physical] {
                let _ = known.look(at);
            }
        }
        for _ in 0..4 {
            let _ = known.look(bytes.number());
        }
    }
}
