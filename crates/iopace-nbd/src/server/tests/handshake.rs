use super::*;
use crate::testing::answer;
use crate::{MAX_REQUEST_LEN, NoExports};

/// A connection past the client's flags.
fn haggling() -> Talk {
    let mut talk = Talk::new();
    talk.seen.clear();
    assert_eq!(talk.say(&FLAGS), []);
    talk
}

/// The one refusal that an option got: its kind.
fn refusal(seen: &[Seen], option: u32) -> u32 {
    let [Seen::Sent(bytes)] = seen else { panic!("not one reply: {seen:?}") };
    let kind = u32::from_be_bytes(bytes[12..16].try_into().expect("four bytes"));
    assert_eq!(*bytes, answer(option, kind, &bytes[20..]), "one reply to the option");
    assert_ne!(kind & wire::REP_ERR, 0, "an error");
    kind
}

fn ack(option: u32) -> Vec<u8> {
    answer(option, wire::REP_ACK, &[])
}

/// INFO_EXPORT of an export.
fn basics(export: &ExportInfo, structured: bool) -> Vec<u8> {
    let size = export.size_bytes.to_be_bytes();
    [&[0, 0], size.as_slice(), &export.flags(structured).to_be_bytes()].concat()
}

fn opened(export: u64, structured: bool, block_status: bool) -> Opened {
    let size_bytes = disk().size_bytes;
    Opened { export, size_bytes, replies: Replies { structured }, block_status }
}

#[test]
fn the_greeting_is_fixed_newstyle() {
    let talk = Talk::new();
    assert_eq!(talk.seen, [Seen::Sent(b"NBDMAGICIHAVEOPT\0\x03".to_vec())]);
    assert!(talk.server.in_handshake());
}

#[test]
fn known_client_flags_are_served_and_unknown_ones_are_not() {
    for flags in 0..4u32 {
        let mut talk = Talk::new();
        talk.seen.clear();
        assert_eq!(talk.say(&flags.to_be_bytes()), [], "{flags}");
        let seen = talk.say(&option(wire::OPT_STRUCTURED_REPLY, &[]));
        assert_eq!(seen, [Seen::Sent(ack(wire::OPT_STRUCTURED_REPLY))], "{flags}");
    }
    for flags in [4, 7, 0x8000_0003, u32::MAX] {
        let mut talk = Talk::new();
        talk.seen.clear();
        let seen = talk.say(&flags.to_be_bytes());
        assert_eq!(seen, [Seen::Close(CloseReason::UnknownClientFlags(flags), vec![])]);
    }
}

#[test]
fn export_name_opens_with_zeroes_unless_agreed_otherwise() {
    for (flags, zeroes) in [([0, 0, 0, 3], 0), ([0, 0, 0, 1], 124), ([0, 0, 0, 0], 124)] {
        for name in ["disk", ""] {
            let mut talk = Talk::new();
            talk.say(&flags);
            let mut sent = (1u64 << 20).to_be_bytes().to_vec();
            sent.extend(disk().flags(false).to_be_bytes());
            sent.extend(vec![0; zeroes]);
            let seen = talk.say(&option(wire::OPT_EXPORT_NAME, name.as_bytes()));
            assert_eq!(seen, [Seen::Opened(opened(7, false, false), sent)]);
            assert!(!talk.server.in_handshake());
        }
    }
}

#[test]
fn export_name_of_nothing_ends_the_connection() {
    let (long, longest) = (vec![b'x'; 4097], vec![b'x'; 65_536]);
    for name in [b"disc".as_slice(), b"\xff\xfe", b"disk\0", &long, &longest] {
        let seen = haggling().say(&option(wire::OPT_EXPORT_NAME, name));
        assert_eq!(seen, [Seen::Close(CloseReason::UnknownExport, vec![])]);
    }
}

#[test]
fn abort_is_acknowledged_whatever_it_carries() {
    for data in [vec![], vec![1; 10], vec![1; 100_000]] {
        let seen = haggling().say(&option(wire::OPT_ABORT, &data));
        assert_eq!(seen, [Seen::Close(CloseReason::Aborted, ack(wire::OPT_ABORT))]);
    }
}

#[test]
fn list_names_all_exports() {
    let entries = [
        answer(wire::OPT_LIST, wire::REP_SERVER, b"\0\0\0\x04diska disk"),
        answer(wire::OPT_LIST, wire::REP_SERVER, b"\0\0\0\x03rom"),
        ack(wire::OPT_LIST),
    ];
    assert_eq!(haggling().say(&option(wire::OPT_LIST, &[])), [Seen::Sent(entries.concat())]);
}

#[test]
fn options_without_data_must_have_none() {
    for kind in [wire::OPT_LIST, wire::OPT_STARTTLS, wire::OPT_STRUCTURED_REPLY] {
        for len in [1, 16_384, 16_385, 1 << 20] {
            let seen = haggling().say(&option(kind, &vec![0; len]));
            assert_eq!(refusal(&seen, kind), wire::REP_ERR_INVALID, "{kind} {len}");
        }
    }
}

#[test]
fn options_that_we_do_not_know_are_refused_and_skipped() {
    let mut talk = haggling();
    for kind in [0, 4, wire::OPT_STARTTLS, wire::OPT_EXTENDED_HEADERS, 12, u32::MAX] {
        let seen = talk.say(&option(kind, &[]));
        assert_eq!(refusal(&seen, kind), wire::REP_ERR_UNSUP, "{kind}");
    }
    for kind in [0, wire::OPT_EXTENDED_HEADERS, u32::MAX] {
        for len in [1, 16_384, 16_385, 1 << 20] {
            let seen = talk.say(&option(kind, &vec![0; len]));
            assert_eq!(refusal(&seen, kind), wire::REP_ERR_UNSUP, "{kind} {len}");
        }
    }
    assert_eq!(talk.say(&option(wire::OPT_LIST, &[])).len(), 1, "still usable");
}

#[test]
fn what_follows_a_refused_starttls_is_read_as_it_stands() {
    let both = [option(wire::OPT_STARTTLS, &[]), option(wire::OPT_STRUCTURED_REPLY, &[])].concat();
    let seen = haggling().say(&both);
    assert_eq!(refusal(&seen[..1], wire::OPT_STARTTLS), wire::REP_ERR_UNSUP);
    assert_eq!(seen[1..], [Seen::Sent(ack(wire::OPT_STRUCTURED_REPLY))]);
    // A TLS client hello is no option.
    let hello = [
        option(wire::OPT_STARTTLS, &[]),
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03aaaaa".to_vec(),
    ];
    let seen = haggling().say(&hello.concat());
    let reason = CloseReason::BadOptionMagic(0x1603_0102_0001_0001);
    assert_eq!(seen[1..], [Seen::Close(reason, vec![])]);
}

#[test]
fn info_tells_what_was_asked_for_once() {
    let kinds = [3, 2, 1, 0, 3, 3, 9, 0xffff];
    let mut talk = haggling();
    let seen = talk.say(&option(wire::OPT_INFO, &info_data(b"", &kinds)));
    let sizes = [1, 4096, MAX_REQUEST_LEN].map(u32::to_be_bytes).concat();
    let pieces = [
        basics(&disk(), false),
        b"\0\x01disk".to_vec(),
        b"\0\x02a disk".to_vec(),
        [b"\0\x03".as_slice(), &sizes].concat(),
    ];
    let mut sent: Vec<u8> =
        pieces.iter().flat_map(|data| answer(wire::OPT_INFO, wire::REP_INFO, data)).collect();
    sent.extend(ack(wire::OPT_INFO));
    assert_eq!(seen, [Seen::Sent(sent)]);
    assert!(talk.server.in_handshake());
}

#[test]
fn go_opens_and_what_follows_are_requests() {
    let mut talk = haggling();
    talk.say(&option(wire::OPT_STRUCTURED_REPLY, &[]));
    let mut bytes = option(wire::OPT_GO, &info_data(b"rom", &[]));
    bytes.extend(request(wire::CMD_READ, 0, 1, 512, 512));
    let rom = Shelf.find("rom").expect("there is one");
    let piece = answer(wire::OPT_GO, wire::REP_INFO, &basics(&rom, true));
    let sent = [piece, ack(wire::OPT_GO)].concat();
    let seen = talk.say(&bytes);
    assert_eq!(seen[0], Seen::Opened(opened(8, true, false), sent));
    assert!(matches!(seen[1], Seen::Request(Request { cookie: 1, .. })));
}

#[test]
fn info_and_go_refuse_what_does_not_fit_and_go_on() {
    let mut talk = haggling();
    let mut longer = info_data(b"disk", &[1]);
    longer.push(0);
    let mut inner = info_data(b"disk", &[1]);
    inner[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut count = info_data(b"disk", &[1]);
    count[8..10].copy_from_slice(&u16::MAX.to_be_bytes());
    let cases = [
        (vec![], wire::REP_ERR_INVALID),
        (b"\0\0\0".to_vec(), wire::REP_ERR_INVALID),
        (b"\0\0\0\x04disk".to_vec(), wire::REP_ERR_INVALID),
        (longer, wire::REP_ERR_INVALID),
        (inner, wire::REP_ERR_INVALID),
        (count, wire::REP_ERR_INVALID),
        (info_data(b"\xc3\x28", &[]), wire::REP_ERR_INVALID),
        (info_data(b"di\0k", &[]), wire::REP_ERR_INVALID),
        (info_data(b"disc", &[]), wire::REP_ERR_UNKNOWN),
        (info_data(&[b'x'; 4096], &[]), wire::REP_ERR_UNKNOWN),
        (info_data(&[b'x'; 4097], &[]), wire::REP_ERR_TOO_BIG),
        (info_data(&[b'x'; 65_536], &[]), wire::REP_ERR_TOO_BIG),
    ];
    for (data, kind) in cases {
        for what in [wire::OPT_INFO, wire::OPT_GO] {
            assert_eq!(refusal(&talk.say(&option(what, &data)), what), kind, "{data:?}");
        }
    }
    let seen = talk.say(&option(wire::OPT_GO, &info_data(b"disk", &[])));
    assert!(matches!(seen[..], [Seen::Opened(..)]), "still usable");
}

#[test]
fn a_server_without_exports_lists_and_opens_none() {
    let mut server = Server::new(ServerConfig::default());
    server.take_output();
    let go = option(wire::OPT_GO, &info_data(b"", &[]));
    let bytes = [&FLAGS, go.as_slice()].concat();
    server.recv_space()[..bytes.len()].copy_from_slice(&bytes);
    server.received(bytes.len());
    assert_eq!(server.poll(&NoExports), Event::Send);
    assert_eq!(server.take_output()[12..16], wire::REP_ERR_UNKNOWN.to_be_bytes());
}

#[test]
fn meta_contexts_need_structured_replies() {
    let data = meta_data(b"disk", &["base:allocation"]);
    for kind in [wire::OPT_LIST_META_CONTEXT, wire::OPT_SET_META_CONTEXT] {
        let seen = haggling().say(&option(kind, &data));
        assert_eq!(refusal(&seen, kind), wire::REP_ERR_INVALID);
    }
}

/// A connection with structured replies.
fn structured() -> Talk {
    let mut talk = haggling();
    talk.say(&option(wire::OPT_STRUCTURED_REPLY, &[]));
    talk
}

#[test]
fn queries_find_base_allocation_and_nothing_else() {
    const LIST: u32 = wire::OPT_LIST_META_CONTEXT;
    const SET: u32 = wire::OPT_SET_META_CONTEXT;
    let cases: [(u32, &[&str], bool); 12] = [
        (LIST, &[], true),
        (LIST, &["base:"], true),
        (LIST, &["base:allocation"], true),
        (LIST, &["base:allocation", "base:", "base:allocation"], true),
        (LIST, &["qemu:", "x-foo:bar", "base:nothing", ""], false),
        (LIST, &["base"], false),
        (SET, &[], false),
        (SET, &["base:"], false),
        (SET, &["base:allocation"], true),
        (SET, &["qemu:dirty-bitmap:a", "base:allocation", "base:allocation"], true),
        (SET, &["base:allocatio", "base:allocation2", "Base:allocation", "*"], false),
        (SET, &["base:*"], false),
    ];
    for (kind, queries, found) in cases {
        let id = if kind == LIST { 0 } else { 1u32 };
        let context = [&id.to_be_bytes(), b"base:allocation".as_slice()].concat();
        let mut sent =
            if found { answer(kind, wire::REP_META_CONTEXT, &context) } else { Vec::new() };
        sent.extend(ack(kind));
        let seen = structured().say(&option(kind, &meta_data(b"disk", queries)));
        assert_eq!(seen, [Seen::Sent(sent)], "{kind} {queries:?}");
    }
}

#[test]
fn queries_that_do_not_fit_are_refused() {
    let good = meta_data(b"disk", &["base:allocation"]);
    let with = |at: usize, value: u32| {
        let mut data = good.clone();
        data[at..at + 4].copy_from_slice(&value.to_be_bytes());
        data
    };
    let cases = [
        (vec![], wire::REP_ERR_INVALID),
        (good[..good.len() - 1].to_vec(), wire::REP_ERR_INVALID),
        ([&good, [0].as_slice()].concat(), wire::REP_ERR_INVALID),
        (with(0, u32::MAX), wire::REP_ERR_INVALID),
        (with(8, 0), wire::REP_ERR_INVALID),
        (with(8, 2), wire::REP_ERR_INVALID),
        (with(8, u32::MAX), wire::REP_ERR_INVALID),
        (with(12, 16), wire::REP_ERR_INVALID),
        (with(12, u32::MAX), wire::REP_ERR_INVALID),
        (meta_data(b"disc", &["base:allocation"]), wire::REP_ERR_UNKNOWN),
        (meta_data(&[b'x'; 4097], &[]), wire::REP_ERR_TOO_BIG),
        (meta_data(b"disk", &[""; 5000]), wire::REP_ERR_TOO_BIG),
    ];
    for (data, error) in cases {
        for kind in [wire::OPT_LIST_META_CONTEXT, wire::OPT_SET_META_CONTEXT] {
            assert_eq!(refusal(&structured().say(&option(kind, &data)), kind), error);
        }
    }
}

#[test]
fn a_context_belongs_to_the_export_and_the_last_selection() {
    const SET: u32 = wire::OPT_SET_META_CONTEXT;
    let good = option(SET, &meta_data(b"disk", &["base:allocation"]));
    let cases = [
        (vec![], "disk", false),
        (good.clone(), "disk", true),
        (good.clone(), "", true),
        (good.clone(), "rom", false),
        ([good.clone(), option(SET, &meta_data(b"disk", &[]))].concat(), "disk", false),
        ([good.clone(), option(SET, &meta_data(b"disc", &[]))].concat(), "disk", false),
        ([good.clone(), option(SET, b"rubbish")].concat(), "disk", false),
        ([good.clone(), option(SET, &[0; 20_000])].concat(), "disk", false),
        ([good.clone(), option(wire::OPT_LIST, &[])].concat(), "disk", true),
    ];
    for (before, name, block_status) in cases {
        let mut talk = structured();
        talk.say(&before);
        let seen = talk.say(&option(wire::OPT_GO, &info_data(name.as_bytes(), &[])));
        let [Seen::Opened(opened, _)] = seen[..] else { panic!("{seen:?}") };
        assert_eq!(opened.block_status, block_status, "{name} {before:?}");
    }
}

#[test]
fn an_option_beyond_all_measure_ends_the_connection() {
    for len in [(1 << 20) + 1, 1 << 31, u32::MAX] {
        let mut bytes = option(wire::OPT_GO, &[]);
        bytes[12..16].copy_from_slice(&len.to_be_bytes());
        let seen = haggling().say(&bytes);
        assert_eq!(seen, [Seen::Close(CloseReason::OptionTooLong(len), vec![])]);
    }
}

#[test]
fn a_wrong_option_magic_ends_the_connection() {
    let mut bytes = option(wire::OPT_LIST, &[]);
    bytes[7] ^= 1;
    let reason = CloseReason::BadOptionMagic(wire::IHAVEOPT ^ 1);
    assert_eq!(haggling().say(&bytes), [Seen::Close(reason, vec![])]);
}

#[test]
fn a_request_before_go_ends_the_connection() {
    let seen = haggling().say(&request(wire::CMD_READ, 0, 1, 0, 512));
    let reason = CloseReason::BadOptionMagic(0x2560_9513_0000_0000);
    assert_eq!(seen, [Seen::Close(reason, vec![])]);
}

#[test]
fn options_without_end_end_the_connection() {
    let mut talk = haggling();
    for _ in 0..128 {
        assert_eq!(talk.say(&option(99, &[])).len(), 1);
    }
    let seen = talk.say(&option(99, &[]));
    assert_eq!(seen, [Seen::Close(CloseReason::TooManyOptions, vec![])]);
    assert_eq!(talk.server.poll(&Shelf), Event::Close(CloseReason::TooManyOptions), "for good");
}

#[test]
fn a_generous_configuration_does_not_outgrow_the_input() {
    let config = ServerConfig { option_len_max: u32::MAX, ..ServerConfig::default() };
    let mut talk = Talk::with(config);
    talk.seen.clear();
    talk.say(&FLAGS);
    for len in [INPUT_BYTES, INPUT_BYTES + 1] {
        let seen = talk.say(&option(99, &vec![0; len]));
        assert_eq!(refusal(&seen, 99), wire::REP_ERR_UNSUP, "{len}");
    }
}

#[test]
fn nothing_is_parsed_before_the_last_answer_is_taken() {
    let mut talk = haggling();
    let many = option(wire::OPT_LIST, &[]).repeat(100);
    talk.server.recv_space()[..many.len()].copy_from_slice(&many);
    talk.server.received(many.len());
    for _ in 0..3 {
        assert_eq!(talk.server.poll(&Shelf), Event::Send);
    }
    assert_eq!(talk.server.options_seen, 1);
}
