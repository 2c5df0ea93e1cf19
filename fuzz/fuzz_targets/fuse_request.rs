//! Any bytes as a request of the kernel: a mount's daemon is asked by
//! whoever has its files open, by way of the kernel.
#![no_main]

use iopace_fuse::parse::{Layout, Operation, forgotten, parse};
use libfuzzer_sys::fuzz_target;
use std::ffi::OsStr;

/// Names end at their first 0, which is not part of them.
fn check_names(names: &[&OsStr]) {
    for name in names {
        assert!(!name.as_encoded_bytes().contains(&0), "{name:?}");
    }
}

fn check(operation: &Operation<'_>, len: usize) {
    match operation {
        Operation::BatchForget { files } => assert!(forgotten(files).count() * 16 <= len),
        Operation::Write(write) => assert!(write.data.len() < len),
        Operation::SetXattr { name, value, .. } => {
            check_names(&[name]);
            assert!(value.len() < len);
        }
        Operation::Ioctl { input, .. } => assert!(input.len() < len),
        Operation::Lookup { name }
        | Operation::Unlink { name }
        | Operation::RmDir { name }
        | Operation::MkNod { name, .. }
        | Operation::MkDir { name, .. }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. }
        | Operation::GetXattr { name, .. }
        | Operation::RemoveXattr { name } => check_names(&[name]),
        Operation::Symlink { name, target } => check_names(&[name, target]),
        Operation::Rename { name, new_name, .. } => check_names(&[name, new_name]),
        _ => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&how, bytes)) = input.split_first() else {
        return;
    };
    let layout = Layout { setxattr_ext: how & 1 == 1 };
    // A length that is wrong is refused before anything else: nearly all inputs would end there.
    let mut copied = [0; 4096];
    let Some(copied) = copied.get_mut(..bytes.len()) else { return };
    copied.copy_from_slice(bytes);
    if has_true_length(how) && bytes.len() >= 4 {
        copied[..4].copy_from_slice(&(bytes.len() as u32).to_ne_bytes());
    }
    if let Ok(parsed) = parse(copied, layout) {
        check(&parsed.operation, bytes.len());
    }
});

/// Seven of eight inputs have their true length.
fn has_true_length(how: u8) -> bool {
    how & 0b1110 != 0
}
