//! Requests as bytes.

use super::*;
use crate::wire::{input, opcode};
use proptest::prelude::*;
use zerocopy::{Immutable, IntoBytes};

/// A request of this operation.
fn request(opcode: u32, arguments: &[&[u8]]) -> Vec<u8> {
    let body = arguments.concat();
    let header = InHeader {
        len: (size_of::<InHeader>() + body.len()) as u32,
        opcode,
        unique: 12,
        nodeid: 7,
        uid: 1001,
        gid: 100,
        pid: 4711,
        total_extlen: 0,
        padding: 0,
    };
    [header.as_bytes(), &body].concat()
}

fn with<T: IntoBytes + Immutable>(opcode: u32, value: &T) -> Vec<u8> {
    request(opcode, &[value.as_bytes()])
}

fn read(bytes: &[u8]) -> Operation<'_> {
    parse(bytes, Layout::default()).expect("a request").operation
}

#[test]
fn locks_keep_owner_range_kind_process_and_flags() {
    let asked = input::LkIn {
        fh: 3,
        owner: 0xdead_beef,
        start: 10,
        end: u64::MAX,
        kind: libc::F_WRLCK as u32,
        pid: 99,
        lk_flags: input::LK_FLOCK,
        padding: 0,
    };
    let lock = FileLock {
        owner: LockOwner(0xdead_beef),
        start: 10,
        end: u64::MAX,
        kind: libc::F_WRLCK,
        pid: 99,
        is_flock: true,
    };
    for (opcode, wanted) in [(opcode::SETLK, false), (opcode::SETLKW, true)] {
        let bytes = with(opcode, &asked);
        let Operation::SetLk { handle, lock: read, waits } = read(&bytes) else { panic!() };
        assert_eq!((handle, read, waits), (FileHandle(3), lock, wanted));
    }
    let posix = with(opcode::GETLK, &input::LkIn { lk_flags: 0, ..asked });
    let Operation::GetLk { lock: read, .. } = read(&posix) else { panic!() };
    assert!(!read.is_flock);
}

#[test]
fn a_release_keeps_owner_and_flags() {
    let last = input::ReleaseIn { fh: 1, flags: 2, release_flags: 2, lock_owner: 5 };
    let bytes = with(opcode::RELEASE, &last);
    let Operation::Release { owner, how, .. } = read(&bytes) else { panic!() };
    assert_eq!((owner, how), (LockOwner(5), ReleaseFlags::FUSE_RELEASE_FLOCK_UNLOCK));
}

#[test]
fn names_and_data_are_what_was_sent() {
    let to = input::Rename2In { newdir: 9, flags: libc::RENAME_EXCHANGE, padding: 0 };
    let bytes = request(opcode::RENAME2, &[to.as_bytes(), b"from\0to\xff\0"]);
    let Operation::Rename { name, to, new_name, flags } = read(&bytes) else { panic!() };
    assert_eq!((name.as_encoded_bytes(), to), (&b"from"[..], INodeNo(9)));
    assert_eq!(
        (new_name.as_encoded_bytes(), flags),
        (&b"to\xff"[..], RenameFlags::RENAME_EXCHANGE)
    );
    let write = input::WriteIn { fh: 1, offset: 5, size: 3, ..input::WriteIn::default() };
    let bytes = request(opcode::WRITE, &[write.as_bytes(), b"abc"]);
    let Operation::Write(write) = read(&bytes) else { panic!() };
    assert_eq!((write.data, write.offset), (&b"abc"[..], 5));
}

#[test]
fn a_setxattr_has_one_of_two_layouts() {
    let set = input::SetxattrIn { size: 2, flags: 1 };
    let ext = input::SetxattrExt { setxattr_flags: 1, padding: 0 };
    let short = request(opcode::SETXATTR, &[set.as_bytes(), b"user.a\0xy"]);
    let long = request(opcode::SETXATTR, &[set.as_bytes(), ext.as_bytes(), b"user.a\0xy"]);
    for (bytes, setxattr_ext) in [(short, false), (long, true)] {
        let parsed = parse(&bytes, Layout { setxattr_ext }).expect("a request");
        let Operation::SetXattr { name, value, flags, how } = parsed.operation else { panic!() };
        assert_eq!((name.to_str(), value, flags), (Some("user.a"), &b"xy"[..], 1));
        assert_eq!(how.bits(), u32::from(setxattr_ext));
    }
}

#[test]
fn the_high_flags_of_init_count_only_if_extended() {
    let init = |flags| {
        let first = input::InitIn { major: 7, minor: 45, max_readahead: 1, flags };
        let bytes = request(opcode::INIT, &[first.as_bytes(), &16u32.to_ne_bytes()]);
        match read(&bytes) {
            Operation::Init(init) => init.flags,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(init(1), 1);
    assert_eq!(init(1 << 30), 1 << 30 | 16 << 32);
    let first = input::InitIn { major: 7, minor: 31, max_readahead: 1, flags: 1 };
    let old = with(opcode::INIT, &first);
    assert!(matches!(read(&old), Operation::Init(Init { version: Version(7, 31), .. })));
}

#[test]
fn what_is_not_understood_can_be_answered() {
    let unknown = Malformed::Unknown { unique: 12, opcode: 9_999 };
    let bytes = request(9_999, &[b"whatever"]);
    assert_eq!(parse(&bytes, Layout::default()).err(), Some(unknown));
    let broken = |opcode| Some(Malformed::Arguments { unique: 12, opcode });
    let name = request(opcode::LOOKUP, &[b"no end"]);
    assert_eq!(parse(&name, Layout::default()).err(), broken(opcode::LOOKUP));
    let long = input::WriteIn { size: u32::MAX, ..input::WriteIn::default() };
    let write = request(opcode::WRITE, &[long.as_bytes(), b"few"]);
    assert_eq!(parse(&write, Layout::default()).err(), broken(opcode::WRITE));
    let many = input::BatchForgetIn { count: u32::MAX, dummy: 0 };
    let batch = with(opcode::BATCH_FORGET, &many);
    assert_eq!(parse(&batch, Layout::default()).err(), broken(opcode::BATCH_FORGET));
    let mut longer = request(opcode::STATFS, &[]);
    longer.push(0);
    assert_eq!(parse(&longer, Layout::default()).err(), Some(Malformed::Header));
    let mut extended = request(opcode::STATFS, &[]);
    extended[36] = 1;
    assert_eq!(parse(&extended, Layout::default()).err(), broken(opcode::STATFS));
}

#[test]
fn forgotten_files_are_all_listed() {
    let ones = [(2, 1), (3, u64::MAX)].map(|(nodeid, nlookup)| ForgetOne { nodeid, nlookup });
    let count = input::BatchForgetIn { count: 2, dummy: 0 };
    let bytes = request(opcode::BATCH_FORGET, &[count.as_bytes(), ones.as_bytes()]);
    let Operation::BatchForget { files } = read(&bytes) else { panic!() };
    let all: Vec<_> = forgotten(files).collect();
    assert_eq!(all, [(INodeNo(2), 1), (INodeNo(3), u64::MAX)]);
}

proptest! {
    /// No bytes make it panic, whatever operation they claim to be; each part of a request, too.
    #[test]
    fn no_bytes_make_it_panic(
        opcode in 0u32..64,
        body in proptest::collection::vec(any::<u8>(), 0..300),
        extensions in 0u8..3,
        setxattr_ext: bool,
    ) {
        let mut bytes = request(opcode, &[&body]);
        bytes[36] = extensions;
        if let Ok(Parsed { operation: Operation::BatchForget { files }, .. }) =
            parse(&bytes, Layout { setxattr_ext })
        {
            let _ = forgotten(files).count();
        }
        let _ = parse(&body, Layout { setxattr_ext });
    }
}
