use super::*;
use iopace_core::units::Bytes;

fn extent(offset: u64, len: u64) -> Extent {
    Extent::new(Bytes(offset), Bytes(len)).expect("small")
}

/// Linux 6.5 or later.
fn knows_cachestat() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("procfs");
    let mut parts = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(6), Some(5))
}

fn scratch(size_bytes: u64) -> (tempfile::NamedTempFile, File) {
    let named = tempfile::NamedTempFile::new().expect("a temporary file");
    named.as_file().set_len(size_bytes).expect("sparse");
    let file = File::open(named.path(), false, false).expect("opens");
    (named, file)
}

#[test]
fn what_was_written_is_read_and_zeroes_are_zero() {
    let (_named, file) = scratch(1 << 20);
    file.write(&[7; 8192], 4096, true).expect("write");
    file.perform(Op::WriteZeroes, extent(8192, 4096), true, &mut []).expect("zeroes");
    let mut back = [1; 12288];
    file.read(&mut back, 0).expect("read");
    assert!(back[..4096].iter().all(|&byte| byte == 0));
    assert!(back[4096..8192].iter().all(|&byte| byte == 7));
    assert!(back[8192..].iter().all(|&byte| byte == 0));
    file.read_cached(&mut back, 0).expect("it was just read");
    assert!(file.is_cached(100, 12_000) || !knows_cachestat());
    assert!(!file.is_cached(0, 1 << 20), "most of it is a hole that nobody read");
}

#[test]
fn holes_and_data_are_told_apart_and_cover_the_extent() {
    let (_named, file) = scratch(1 << 20);
    file.write(&[7; 65536], 131_072, false).expect("write");
    let pieces = file.allocation(extent(0, 1 << 20), 64).expect("allocation");
    assert_eq!(pieces.iter().map(|piece| piece.len_bytes).sum::<u64>(), 1 << 20);
    assert!(pieces[0].is_hole, "{pieces:?}");
    assert!(pieces.iter().any(|piece| !piece.is_hole), "{pieces:?}");
    assert_eq!(file.allocation(extent(0, 1 << 20), 1).expect("one").len(), 1);
}

#[test]
fn a_second_writer_is_kept_away() {
    let (named, _file) = scratch(4096);
    let error = File::open(named.path(), false, false).expect_err("locked");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_file_that_shrank_is_an_error_not_zeroes() {
    let (named, file) = scratch(8192);
    named.as_file().set_len(4096).expect("shrinks");
    let error = file.read(&mut [0; 8192], 0).expect_err("too short");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_directory_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(File::open(folder.path(), true, false).is_err());
}

#[test]
fn a_fifo_is_refused_and_waited_for_by_nobody() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("made");
    for read_only in [true, false] {
        let refused = File::open(&path, read_only, false).expect_err("no disk");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{refused}");
    }
    let (_named, file) = scratch(4096);
    let flags = rustix::fs::fcntl_getfl(&file).expect("there");
    assert!(!flags.contains(OFlags::NONBLOCK), "requests of a file wait: {flags:?}");
}
