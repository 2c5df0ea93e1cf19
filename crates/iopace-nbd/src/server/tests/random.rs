//! Whatever comes, in whatever pieces.

use super::*;
use proptest::prelude::*;

/// A session with a bit of everything, good and bad.
fn everything() -> Vec<u8> {
    let mut refused = request(wire::CMD_WRITE, 0, 9, 1 << 20, 300);
    refused.extend([0x25; 300]);
    let mut write = request(wire::CMD_WRITE, wire::CMD_FLAG_FUA, 10, 512, 200);
    write.extend((0..200).map(|at| at as u8));
    [
        FLAGS.to_vec(),
        option(wire::OPT_STARTTLS, &[]),
        option(wire::OPT_LIST, &[]),
        option(wire::OPT_LIST, b"data"),
        option(wire::OPT_STRUCTURED_REPLY, &[]),
        option(wire::OPT_SET_META_CONTEXT, &meta_data(b"disk", &["base:allocation"])),
        option(wire::OPT_INFO, &info_data(b"rom", &[1, 2, 3])),
        option(wire::OPT_GO, &info_data(b"disk", &[3])),
        request(wire::CMD_READ, wire::CMD_FLAG_DF, 1, 0, 512),
        refused,
        write,
        request(wire::CMD_BLOCK_STATUS, wire::CMD_FLAG_REQ_ONE, 11, 0, 1 << 20),
        request(wire::CMD_FLUSH, 0, 12, 0, 0),
        request(99, 0, 13, 0, 0),
        request(wire::CMD_DISC, 0, 0, 0, 0),
    ]
    .concat()
}

fn seen_in_pieces(bytes: &[u8], first: usize, piece: usize) -> Vec<Seen> {
    let mut talk = Talk::new();
    talk.feed(&bytes[..first], first.max(1));
    talk.feed(&bytes[first..], piece);
    talk.seen
}

#[test]
fn p1_pieces_make_no_difference() {
    let bytes = everything();
    let whole = seen_in_pieces(&bytes, 0, bytes.len());
    assert_eq!(whole.len(), 15, "{whole:?}");
    assert_eq!(whole[14], Seen::Close(CloseReason::Disconnected, vec![]));
    for piece in 1..=32 {
        assert_eq!(seen_in_pieces(&bytes, 0, piece), whole, "in pieces of {piece}");
    }
    for first in 0..bytes.len() {
        assert_eq!(seen_in_pieces(&bytes, first, bytes.len()), whole, "split at {first}");
    }
}

#[test]
fn p1_a_client_may_stop_anywhere() {
    let bytes = everything();
    let whole = seen_in_pieces(&bytes, 0, bytes.len());
    for end in 0..bytes.len() {
        let part = seen_in_pieces(&bytes[..end], 0, end.max(1));
        assert_eq!(part, whole[..part.len()], "cut at {end}");
    }
}

/// Bytes that get further than noise does.
fn nearly_valid() -> impl Strategy<Value = Vec<u8>> {
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        (prop_oneof!["disk", "rom", "[a-z]{0,3}"], prop::collection::vec(0..5u16, 0..4))
            .prop_map(|(name, kinds)| info_data(name.as_bytes(), &kinds)),
        Just(meta_data(b"disk", &["base:allocation"])),
        Just(Vec::new()),
    ];
    let kind = prop_oneof![0..12u32, any::<u32>()];
    let an_option = (kind, data).prop_map(|(kind, data)| option(kind, &data));
    let offset = prop_oneof![0..1u64 << 20, any::<u64>()];
    let len = prop_oneof![0..2000u32, any::<u32>()];
    let flags = prop_oneof![Just(0u16), 0..32u16, any::<u16>()];
    let kind = prop_oneof![9 => 0..8u16, 1 => any::<u16>()];
    let a_request = (kind, flags, any::<u64>(), offset, len, 0..600usize).prop_map(
        |(kind, flags, cookie, offset, len, payload)| {
            let mut bytes = request(kind, flags, cookie, offset, len);
            let is_write = kind == wire::CMD_WRITE;
            bytes.extend(vec![9; if is_write { payload.min(len as usize) } else { 0 }]);
            bytes
        },
    );
    let go = option(wire::OPT_GO, &info_data(b"disk", &[]));
    let structured = option(wire::OPT_STRUCTURED_REPLY, &[]);
    let part = prop_oneof![
        2 => an_option,
        4 => a_request,
        1 => Just(go),
        1 => Just(structured),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    (prop::collection::vec(part, 0..20), any::<bool>()).prop_map(|(parts, good_start)| {
        let start = if good_start { FLAGS.to_vec() } else { Vec::new() };
        [start, parts.concat()].concat()
    })
}

/// What an export of the shelf makes of a request that was handed out.
fn lies_within(request: &Request, export: &ExportInfo) -> bool {
    let end = request.offset.checked_add(u64::from(request.len));
    end.is_some_and(|end| end <= export.size_bytes)
        && (request.len > 0) != (request.command == Command::Flush)
        && request.offset.is_multiple_of(u64::from(export.block_min))
        && request.len.is_multiple_of(export.block_min)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p1_p2_p3_hold_for_any_bytes(
        bytes in prop_oneof![nearly_valid(), prop::collection::vec(any::<u8>(), 0..500)],
        piece in 1..100usize,
    ) {
        let mut talk = Talk::new();
        talk.feed(&bytes, piece);
        prop_assert_eq!(talk.server.input.len(), INPUT_BYTES);
        prop_assert!(talk.server.filled.len() < INPUT_BYTES);
        let mut export = None;
        for seen in &talk.seen {
            match seen {
                Seen::Sent(sent) => prop_assert!(sent.len() < 64 * 1024),
                Seen::Opened(opened, _) => {
                    export = Shelf.list().into_iter().find(|export| export.id == opened.export);
                }
                Seen::Request(request) | Seen::Write(request, _) => {
                    let export = export.as_ref().expect("opened before");
                    prop_assert!(lies_within(request, export), "{:?}", request);
                    prop_assert!(!(export.read_only && matches!(
                        request.command,
                        Command::Write | Command::Trim | Command::WriteZeroes
                    )));
                }
                Seen::StartTls => prop_assert!(false, "not offered"),
                Seen::Reject(..) | Seen::Close(..) => {}
            }
        }
        let whole = seen_in_pieces(&bytes, 0, bytes.len().max(1));
        prop_assert_eq!(talk.seen, whole);
    }
}
