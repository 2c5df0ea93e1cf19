use super::*;
use crate::testing::{disk, request};
use wire::*;

/// What becomes of a request to an export, with structured replies and `base:allocation`.
fn ruled(
    export: &ExportInfo,
    kind: u16,
    flags: u16,
    offset: u64,
    len: u32,
) -> Result<Request, Error> {
    let bytes = request(kind, flags, 5, offset, len);
    match rule(bytes.as_slice().try_into().expect("a header"), &Agreed::new(export, true, true)) {
        Ruling::Accept(request) => Ok(request),
        Ruling::Refuse { cookie: 5, error, payload_len } => {
            assert_eq!(payload_len, if kind == CMD_WRITE { len } else { 0 });
            Err(error)
        }
        other => panic!("{other:?}"),
    }
}

/// Why it is refused, if it is.
fn error(export: &ExportInfo, kind: u16, flags: u16, offset: u64, len: u32) -> Option<Error> {
    ruled(export, kind, flags, offset, len).err()
}

const MIB: u64 = 1 << 20;
const RANGED: [u16; 6] =
    [CMD_READ, CMD_WRITE, CMD_TRIM, CMD_CACHE, CMD_WRITE_ZEROES, CMD_BLOCK_STATUS];

#[test]
fn past_the_end_is_enospc_for_what_grows_and_einval_for_the_rest() {
    let places = [(MIB, 1), (MIB - 1, 2), (u64::MAX, 1), (u64::MAX - 1, 4), (1 << 63, 4096)];
    for kind in RANGED {
        let expected = if matches!(kind, CMD_WRITE | CMD_WRITE_ZEROES) {
            Error::NoSpace
        } else {
            Error::Invalid
        };
        for (offset, len) in places {
            assert_eq!(error(&disk(), kind, 0, offset, len), Some(expected), "{kind} {offset}");
        }
        assert_eq!(error(&disk(), kind, 0, MIB - 1, 1), None, "{kind}: the last byte");
        assert_eq!(error(&disk(), kind, 0, 0, MIB as u32), None, "{kind}: all of it");
    }
}

#[test]
fn an_export_may_be_as_large_as_the_protocol_counts() {
    let export = ExportInfo { size_bytes: u64::MAX, ..disk() };
    assert_eq!(error(&export, CMD_READ, 0, u64::MAX - 1, 1), None);
    assert_eq!(error(&export, CMD_READ, 0, u64::MAX - 1, 2), Some(Error::Invalid));
}

#[test]
fn empty_requests_are_einval() {
    for kind in RANGED {
        assert_eq!(error(&disk(), kind, 0, 0, 0), Some(Error::Invalid), "{kind}");
    }
}

#[test]
fn reads_over_the_maximum_are_refused_and_what_moves_no_data_is_not() {
    let export = ExportInfo { size_bytes: 1 << 40, ..disk() };
    assert_eq!(error(&export, CMD_READ, 0, 0, MAX_REQUEST_LEN), None);
    for len in [MAX_REQUEST_LEN + 1, u32::MAX] {
        assert_eq!(error(&export, CMD_READ, 0, 0, len), Some(Error::Invalid));
        assert_eq!(error(&export, CMD_READ, CMD_FLAG_DF, 0, len), Some(Error::Overflow));
    }
    for kind in [CMD_TRIM, CMD_CACHE, CMD_WRITE_ZEROES, CMD_BLOCK_STATUS] {
        assert_eq!(error(&export, kind, 0, 0, u32::MAX), None, "{kind} of 4 GiB - 1");
    }
    let small = ExportInfo { block_max: 8192, ..export };
    assert_eq!(error(&small, CMD_READ, 0, 0, 8193), Some(Error::Invalid));
    assert_eq!(error(&small, CMD_WRITE, 0, 0, 8193), Some(Error::Invalid));
}

#[test]
fn a_read_only_export_refuses_all_that_writes() {
    let rom = ExportInfo { read_only: true, ..disk() };
    for kind in [CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES] {
        for flags in [0, CMD_FLAG_FUA] {
            assert_eq!(error(&rom, kind, flags, 0, 512), Some(Error::NotPermitted));
        }
        assert_eq!(error(&rom, kind, 0, u64::MAX, 512), Some(Error::NotPermitted));
    }
    for kind in [CMD_READ, CMD_CACHE, CMD_BLOCK_STATUS, CMD_FLUSH] {
        assert_eq!(error(&rom, kind, 0, 0, 512), None, "{kind}");
    }
}

#[test]
fn requests_must_keep_to_the_blocks() {
    let export = ExportInfo { block_min: 512, ..disk() };
    for kind in RANGED {
        assert_eq!(error(&export, kind, 0, 512, 1024), None);
        assert_eq!(error(&export, kind, 0, 1, 512), Some(Error::Invalid));
        assert_eq!(error(&export, kind, 0, 512, 511), Some(Error::Invalid));
    }
}

#[test]
fn commands_must_have_been_offered() {
    let nothing = ExportInfo {
        can_flush: false,
        can_trim: false,
        can_cache: false,
        can_write_zeroes: false,
        ..disk()
    };
    for kind in [CMD_FLUSH, CMD_TRIM, CMD_CACHE, CMD_WRITE_ZEROES] {
        assert_eq!(error(&nothing, kind, 0, 0, 512), Some(Error::Invalid), "{kind}");
    }
    for kind in [8, 9, 77, u16::MAX] {
        assert_eq!(error(&disk(), kind, 0, 0, 512), Some(Error::Invalid), "{kind}");
    }
}

#[test]
fn flags_must_fit_the_command_and_have_been_offered() {
    let known = [
        (CMD_READ, CMD_FLAG_FUA | CMD_FLAG_DF),
        (CMD_WRITE, CMD_FLAG_FUA),
        (CMD_FLUSH, CMD_FLAG_FUA),
        (CMD_TRIM, CMD_FLAG_FUA),
        (CMD_CACHE, CMD_FLAG_FUA),
        (CMD_WRITE_ZEROES, CMD_FLAG_FUA | CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO),
        (CMD_BLOCK_STATUS, CMD_FLAG_FUA | CMD_FLAG_REQ_ONE),
    ];
    let export = ExportInfo { can_fast_zero: true, ..disk() };
    for (kind, flags) in known {
        for bit in (0..16).map(|bit| 1 << bit) {
            let expected = if flags & bit == 0 { Some(Error::Invalid) } else { None };
            assert_eq!(error(&export, kind, bit, 0, 512), expected, "{kind} {bit:#x}");
        }
        assert_eq!(error(&export, kind, flags, 0, 512), None, "{kind}: all together");
    }
    let plain = ExportInfo { can_fua: false, ..disk() };
    assert_eq!(error(&plain, CMD_WRITE, CMD_FLAG_FUA, 0, 512), Some(Error::Invalid));
    let slow = error(&plain, CMD_WRITE_ZEROES, CMD_FLAG_FAST_ZERO, 0, 512);
    assert_eq!(slow, Some(Error::Invalid), "as the protocol asks for");
    let fast = ruled(&export, CMD_WRITE_ZEROES, CMD_FLAG_FAST_ZERO, 0, 512);
    assert!(fast.is_ok_and(|request| request.fast_zero));
}

#[test]
fn without_negotiation_there_is_no_df_and_no_block_status() {
    let agreed = Agreed::new(&disk(), false, false);
    for (kind, flags) in [(CMD_READ, CMD_FLAG_DF), (CMD_BLOCK_STATUS, 0)] {
        let bytes = request(kind, flags, 5, 0, 512);
        let ruling = rule(bytes.as_slice().try_into().expect("a header"), &agreed);
        let refused = Ruling::Refuse { cookie: 5, error: Error::Invalid, payload_len: 0 };
        assert_eq!(ruling, refused);
    }
}

#[test]
fn a_flush_is_a_flush_whatever_its_range() {
    let flush = ruled(&disk(), CMD_FLUSH, 0, u64::MAX, u32::MAX).expect("accepted");
    assert_eq!((flush.command, flush.offset, flush.len), (Command::Flush, 0, 0));
}
