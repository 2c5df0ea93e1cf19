use super::*;
use crate::MAX_REQUEST_LEN;

/// A checked request with nothing special about it.
fn plain(command: Command, cookie: u64, offset: u64, len: u32) -> Request {
    let (fua, no_hole, fast_zero, req_one) = (false, false, false, false);
    Request { cookie, command, offset, len, fua, no_hole, fast_zero, req_one }
}

fn closed(reason: CloseReason) -> [Seen; 1] {
    [Seen::Close(reason, vec![])]
}

#[test]
fn a_write_hands_over_its_payload_and_nothing_else() {
    let mut talk = Talk::open("disk", false);
    let mut bytes = request(wire::CMD_WRITE, wire::CMD_FLAG_FUA, 5, 4096, 6);
    bytes.extend(b"123456");
    bytes.extend(request(wire::CMD_FLUSH, 0, 6, 0, 0));
    let write = Request { fua: true, ..plain(Command::Write, 5, 4096, 6) };
    let flush = Seen::Request(plain(Command::Flush, 6, 0, 0));
    assert_eq!(talk.say(&bytes), [Seen::Write(write, b"123456".to_vec()), flush]);
}

#[test]
fn a_payload_may_come_past_the_buffer() {
    let mut talk = Talk::open("disk", false);
    let mut bytes = request(wire::CMD_WRITE, 0, 5, 0, 1000);
    bytes.extend([7; 10]);
    talk.server.recv_space()[..bytes.len()].copy_from_slice(&bytes);
    talk.server.received(bytes.len());
    assert_eq!(talk.server.poll(&Shelf), Event::Write(plain(Command::Write, 5, 0, 1000)));
    let mut data = [0; 1000];
    assert_eq!(talk.server.payload_buffered(&mut data), 10);
    assert_eq!(talk.server.poll(&Shelf), Event::NeedInput, "nothing goes on without the payload");
    talk.server.payload_received(900);
    assert_eq!(talk.server.payload_left(), 90);
    talk.server.payload_received(90);
    assert_eq!(talk.server.payload_left(), 0);
    let seen = talk.say(&request(wire::CMD_FLUSH, 0, 6, 0, 0));
    assert_eq!(seen, [Seen::Request(plain(Command::Flush, 6, 0, 0))]);
}

#[test]
#[should_panic(expected = "more than the payload was received")]
fn more_payload_than_there_is_is_a_bug_of_the_caller() {
    Talk::open("disk", false).server.payload_received(1);
}

#[test]
fn the_payload_of_a_refused_write_is_skipped() {
    let cases = [
        ("rom", 0, 0, 100_000, Error::NotPermitted),
        ("disk", 1 << 20, 0, 1, Error::NoSpace),
        ("disk", u64::MAX, 0, 2, Error::NoSpace),
        ("disk", 0, 1 << 15, 70_000, Error::Invalid),
        ("disk", 0, 0, MAX_REQUEST_LEN, Error::NoSpace),
    ];
    for (export, offset, flags, len, error) in cases {
        let mut talk = Talk::open(export, false);
        let header = request(wire::CMD_WRITE, flags, 9, offset, len);
        assert_eq!(talk.say(&header), [], "the answer waits until the payload is gone");
        let payload = vec![0x25; len as usize];
        assert_eq!(talk.say(&payload), [Seen::Reject(9, error)]);
        assert_eq!(talk.server.input.len(), INPUT_BYTES, "nothing was kept");
        let seen = talk.say(&request(wire::CMD_READ, 0, 10, 0, 512));
        assert_eq!(seen, [Seen::Request(plain(Command::Read, 10, 0, 512))]);
    }
}

#[test]
fn a_write_over_the_maximum_ends_the_connection() {
    for len in [MAX_REQUEST_LEN + 1, 1 << 31, u32::MAX] {
        for export in ["disk", "rom"] {
            let mut talk = Talk::open(export, true);
            let seen = talk.say(&request(wire::CMD_WRITE, 0, 1, 0, len));
            assert_eq!(seen, closed(CloseReason::PayloadTooLong(len)));
        }
    }
}

#[test]
fn disc_ends_the_connection_and_what_follows_is_nothing() {
    let mut talk = Talk::open("disk", false);
    let mut bytes = request(wire::CMD_READ, 0, 1, 0, 512);
    bytes.extend(request(wire::CMD_DISC, 0xffff, 2, u64::MAX, u32::MAX));
    bytes.extend(request(wire::CMD_READ, 0, 3, 0, 512));
    let read = Seen::Request(plain(Command::Read, 1, 0, 512));
    let end = Seen::Close(CloseReason::Disconnected, vec![]);
    assert_eq!(talk.say(&bytes), [read, end]);
    assert!(CloseReason::Disconnected.is_orderly());
    assert!(!CloseReason::TooManyOptions.is_orderly());
}

#[test]
fn garbage_where_a_request_must_stand_ends_the_connection() {
    let mut talk = Talk::open("disk", false);
    let mut bytes = request(wire::CMD_READ, 0, 1, 0, 512);
    bytes[3] ^= 1;
    assert_eq!(talk.say(&bytes), closed(CloseReason::BadRequestMagic(0x2560_9512)));
}

#[test]
fn payload_on_a_command_that_has_none_is_garbage() {
    for kind in [wire::CMD_READ, wire::CMD_TRIM, wire::CMD_WRITE_ZEROES, 77] {
        let mut talk = Talk::open("disk", false);
        let mut bytes = request(kind, 0, 1, 0, 512);
        bytes.extend([0xab; 512]);
        let seen = talk.say(&bytes);
        assert_eq!(seen.len(), 2);
        let end = Seen::Close(CloseReason::BadRequestMagic(0xabab_abab), vec![]);
        assert_eq!(seen[1], end, "{kind}");
    }
}

#[test]
fn a_thousand_pipelined_requests_come_out_in_order() {
    let mut talk = Talk::open("disk", false);
    let cookies = (0..1000u64).chain([42; 1000]);
    let bytes: Vec<u8> =
        cookies.clone().flat_map(|cookie| request(wire::CMD_READ, 0, cookie, 0, 512)).collect();
    let expected: Vec<Seen> =
        cookies.map(|cookie| Seen::Request(plain(Command::Read, cookie, 0, 512))).collect();
    assert_eq!(talk.say(&bytes), expected);
}

#[test]
fn the_event_carries_what_the_client_asked_for() {
    let zero = wire::CMD_FLAG_FUA | wire::CMD_FLAG_NO_HOLE;
    let cases = [
        (wire::CMD_TRIM, wire::CMD_FLAG_FUA, Command::Trim),
        (wire::CMD_CACHE, 0, Command::Cache),
        (wire::CMD_WRITE_ZEROES, zero, Command::WriteZeroes),
        (wire::CMD_BLOCK_STATUS, wire::CMD_FLAG_REQ_ONE, Command::BlockStatus),
        (wire::CMD_READ, wire::CMD_FLAG_DF, Command::Read),
    ];
    let mut talk = Talk::open("disk", true);
    for (kind, flags, command) in cases {
        let request_ = Request {
            fua: flags & wire::CMD_FLAG_FUA != 0,
            no_hole: flags & wire::CMD_FLAG_NO_HOLE != 0,
            req_one: flags & wire::CMD_FLAG_REQ_ONE != 0,
            ..plain(command, 3, 512, 1024)
        };
        let seen = talk.say(&request(kind, flags, 3, 512, 1024));
        assert_eq!(seen, [Seen::Request(request_)]);
    }
}
