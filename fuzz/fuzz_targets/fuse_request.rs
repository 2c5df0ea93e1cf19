//! Any bytes as a request of the kernel: a mount's daemon is asked by
//! whoever has its files open, by way of the kernel.
#![no_main]

use iopace_fuse::parse::{Layout, Operation, forgotten, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&layout, bytes)) = input.split_first() else {
        return;
    };
    let layout = Layout { setxattr_ext: layout & 1 == 1 };
    // A length that is wrong is refused before anything else: nearly all inputs would end there.
    let mut bytes = bytes.to_vec();
    if has_true_length(input) && bytes.len() >= 4 {
        let len = (bytes.len() as u32).to_ne_bytes();
        bytes[..4].copy_from_slice(&len);
    }
    let Ok(parsed) = parse(&bytes, layout) else {
        return;
    };
    let whole = format!("{:?}", parsed.operation);
    assert!(!whole.is_empty());
    if let Operation::BatchForget { files } = parsed.operation {
        assert!(forgotten(files).count() * 16 <= bytes.len());
    }
    if let Operation::Write(write) = parsed.operation {
        assert!(write.data.len() < bytes.len());
    }
});

/// Seven of eight inputs have their true length.
fn has_true_length(input: &[u8]) -> bool {
    input[0] & 0b1110 != 0
}
