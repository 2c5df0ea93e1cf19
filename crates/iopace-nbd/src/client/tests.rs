//! The client against our own server in memory, and against servers that misbehave.

use super::*;
use crate::testing::{Shelf, answer, info_data, meta_data, option};
use crate::{BlockStatus, Command, Event, Replies, Server, ServerConfig};
use proptest::prelude::*;

/// A stream whose other end is our server over a small disk. Nothing blocks: what a write makes the
/// server say is there to be read.
struct Peer {
    server: Server,
    replies: Replies,
    disk: Vec<u8>,
    said: Vec<u8>,
    /// A write, and how much of its payload came.
    writing: Option<(crate::Request, usize)>,
    /// Most bytes per read.
    piece: usize,
}

impl Peer {
    fn new() -> Peer {
        let server = Server::new(ServerConfig::default());
        let disk = (0..1 << 20).map(|at: u32| (at / 3) as u8).collect();
        let (replies, said, writing) = (Replies::default(), Vec::new(), None);
        let mut peer = Peer { server, replies, disk, said, writing, piece: 7 };
        peer.serve();
        peer
    }

    fn serve(&mut self) {
        loop {
            if let Some((request, have)) = &mut self.writing {
                let data = &mut self.disk[request.offset as usize..][..request.len as usize];
                *have += self.server.payload_buffered(&mut data[*have..]);
                if *have < data.len() {
                    return;
                }
                self.replies.done(&mut self.said, request.cookie);
                self.writing = None;
            }
            match self.server.poll(&Shelf) {
                Event::NeedInput => return,
                Event::Send => self.said.extend(self.server.take_output()),
                Event::Opened(opened) => {
                    self.replies = opened.replies;
                    self.said.extend(self.server.take_output());
                }
                Event::Write(request) => self.writing = Some((request, 0)),
                Event::Request(request) => self.answer(&request),
                Event::Reject { cookie, error } => {
                    self.replies.error(&mut self.said, cookie, error);
                }
                Event::Close(_) | Event::StartTls => return,
            }
        }
    }

    fn answer(&mut self, request: &crate::Request) {
        let (cookie, offset, len) = (request.cookie, request.offset, request.len);
        match request.command {
            Command::Read => {
                self.replies.read(&mut self.said, cookie, offset, len);
                self.said.extend(&self.disk[offset as usize..][..len as usize]);
            }
            Command::BlockStatus => {
                let pieces = [(512, true), (len - 512, false)]
                    .map(|(len, is_hole)| BlockStatus { len, is_hole });
                self.replies.block_status(&mut self.said, cookie, &pieces);
            }
            _ => self.replies.done(&mut self.said, cookie),
        }
    }
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.min(into.len()).min(self.said.len());
        into[..count].copy_from_slice(&self.said[..count]);
        self.said.drain(..count);
        Ok(count)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let space = self.server.recv_space();
        let count = space.len().min(bytes.len());
        space[..count].copy_from_slice(&bytes[..count]);
        self.server.received(count);
        self.serve();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PLAIN: Wanted = Wanted { structured: false, block_status: false };
const STRUCTURED: Wanted = Wanted { structured: true, block_status: false };
const ALL: Wanted = Wanted { structured: true, block_status: true };

#[test]
fn what_is_wanted_is_agreed_on() {
    for (wanted, structured, context) in
        [(PLAIN, false, None), (STRUCTURED, true, None), (ALL, true, Some(1))]
    {
        let client = Client::connect(Peer::new(), "", wanted).expect("opens");
        let session = client.session();
        assert_eq!(session.size_bytes, 1 << 20);
        assert_eq!(session.structured, structured);
        assert_eq!(session.allocation_context, context);
        assert_eq!(session.block_sizes, Some([1, 4096, MAX_REQUEST_LEN]));
        assert_eq!(session.flags & wire::SEND_DF != 0, structured);
    }
}

#[test]
fn requests_do_what_they_say() {
    for wanted in [PLAIN, STRUCTURED, ALL] {
        let mut client = Client::connect(Peer::new(), "disk", wanted).expect("opens");
        let mut data = [0; 6];
        client.read(9, &mut data).expect("reads");
        assert_eq!(data, [3, 3, 3, 4, 4, 4]);
        client.write(10, b"iopace", true).expect("writes");
        client.flush().expect("flushes");
        client.read(9, &mut data).expect("reads");
        assert_eq!(&data, b"\x03iopac");
        client.command(wire::CMD_TRIM, 0, 0, 4096).expect("trims");
        client.disconnect().expect("leaves");
    }
}

#[test]
fn refusals_leave_the_connection_usable() {
    for wanted in [PLAIN, STRUCTURED] {
        let mut client = Client::connect(Peer::new(), "rom", wanted).expect("opens");
        let mut data = [0; 512];
        let why = |result: Result<(), Failure>| match result {
            Err(Failure::Refused(error)) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(client.write(0, &data, false)), Error::NotPermitted);
        assert_eq!(why(client.read(1, &mut data)), Error::Invalid);
        assert_eq!(why(client.command(99, 0, 0, 0)), Error::Invalid);
        client.read(512, &mut data).expect("reads");
        assert_eq!(data[0], 170);
    }
}

#[test]
fn block_status_is_read() {
    let mut client = Client::connect(Peer::new(), "disk", ALL).expect("opens");
    let extents = client.block_status(4096, 8192).expect("answers");
    let hole = wire::STATE_HOLE | wire::STATE_ZERO;
    assert_eq!(extents, [Extent { len: 512, flags: hole }, Extent { len: 7680, flags: 0 }]);
    let mut client = Client::connect(Peer::new(), "disk", STRUCTURED).expect("opens");
    let failure = client.block_status(4096, 8192).expect_err("was not negotiated");
    assert!(matches!(failure, Failure::Refused(Error::Invalid)), "{failure}");
}

#[test]
fn an_unknown_export_is_not_found() {
    let error = Client::connect(Peer::new(), "disc", ALL).map(drop).expect_err("there is none");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("there is no such export"), "{error}");
}

#[test]
fn the_handshake_writes_what_the_protocol_says() {
    let mut handshake = Handshake::new("disk", ALL);
    assert_eq!(handshake.needs(), 18);
    assert_eq!(handshake.feed(b"NBDMAGICIHAVEOPT\0\x03"), Ok(Step::GoOn));
    let structured = option(wire::OPT_STRUCTURED_REPLY, &[]);
    assert_eq!(handshake.take_output(), [&[0, 0, 0, 3], structured.as_slice()].concat());
    // A server that knows no structured replies is asked no more.
    let unsupported = answer(wire::OPT_STRUCTURED_REPLY, wire::REP_ERR_UNSUP, &[]);
    assert_eq!(handshake.feed(&unsupported), Ok(Step::GoOn));
    let go = option(wire::OPT_GO, &info_data(b"disk", &[wire::INFO_BLOCK_SIZE]));
    assert_eq!(handshake.take_output(), go);

    let mut handshake = Handshake::new("disk", ALL);
    assert_eq!(handshake.feed(b"NBDMAGICIHAVEOPT\0\x01"), Ok(Step::GoOn));
    assert_eq!(handshake.take_output()[..4], [0, 0, 0, 1], "only what was offered");
    let known = answer(wire::OPT_STRUCTURED_REPLY, wire::REP_ACK, &[]);
    assert_eq!(handshake.feed(&known), Ok(Step::GoOn));
    let set = option(wire::OPT_SET_META_CONTEXT, &meta_data(b"disk", &["base:allocation"]));
    assert_eq!(handshake.take_output(), set);
}

#[test]
fn a_refused_client_says_good_bye() {
    let mut handshake = Handshake::new("disk", PLAIN);
    assert_eq!(handshake.feed(b"NBDMAGICIHAVEOPT\0\x03"), Ok(Step::GoOn));
    handshake.take_output();
    let refused = answer(wire::OPT_GO, wire::REP_ERR_UNKNOWN, &[]);
    let error = HandshakeError::Refused { kind: wire::REP_ERR_UNKNOWN, message: String::new() };
    assert_eq!(handshake.feed(&refused), Err(error));
    assert_eq!(handshake.take_output(), option(wire::OPT_ABORT, &[]));
    assert_eq!(handshake.needs(), 0);
}

/// How a handshake ends with a server that says that, the greeting aside.
fn handshake_with(said: &[u8]) -> Result<Step, HandshakeError> {
    let mut handshake = Handshake::new("disk", PLAIN);
    let mut said = [b"NBDMAGICIHAVEOPT\0\x03", said].concat();
    loop {
        let rest = said.split_off(handshake.needs());
        match handshake.feed(&said)? {
            Step::GoOn => said = rest,
            opened => return Ok(opened),
        }
    }
}

#[test]
fn a_server_that_breaks_the_handshake_is_left() {
    let info = |data: &[u8]| answer(wire::OPT_GO, wire::REP_INFO, data);
    let ack = answer(wire::OPT_GO, wire::REP_ACK, &[]);
    let size = [0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 1];
    let opened = handshake_with(&[info(&size), info(&[0, 9, 1, 2, 3]), ack.clone()].concat());
    let session = Session { size_bytes: 4096, flags: 1, ..Session::default() };
    assert_eq!(opened, Ok(Step::Opened(session)), "what we do not know is ignored");

    let mut endless = answer(wire::OPT_GO, wire::REP_INFO, &[]);
    endless[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut magic = ack.clone();
    magic[0] ^= 1;
    let cases = [
        ack,
        magic,
        endless,
        info(&[]),
        info(&[0]),
        info(&size[..11]),
        info(&[&size, [0].as_slice()].concat()),
        info(&[0, 3, 0, 0]),
        answer(wire::OPT_INFO, wire::REP_ACK, &[]),
        answer(wire::OPT_GO, wire::REP_SERVER, &[]),
    ];
    for said in cases {
        let result = handshake_with(&said);
        assert!(matches!(result, Err(HandshakeError::Broken(_))), "{said:?}: {result:?}");
    }
    for greeting in [b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\x03", b"NBDMAGICIHAVEOPT\0\x02"] {
        let mut handshake = Handshake::new("", PLAIN);
        assert!(matches!(handshake.feed(greeting), Err(HandshakeError::Broken(_))));
        assert_eq!(handshake.needs(), 0, "it is over");
    }
}

/// A chunk of a structured reply to cookie 1.
fn chunk(flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = wire::STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(1u64.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A read of 12 bytes at offset 100 from a server that answers that.
fn read_answered(bytes: &[u8]) -> (Result<(), Failure>, [u8; 12]) {
    let stream = io::Cursor::new(Vec::new());
    let session = Session { size_bytes: 1 << 20, structured: true, ..Session::default() };
    let mut client = Client { stream, session, cookie: 0, out: Vec::new() };
    client.stream.get_mut().extend(vec![0; wire::REQUEST_LEN]);
    client.stream.get_mut().extend(bytes);
    let mut data = [9; 12];
    let result = client.read(100, &mut data);
    (result, data)
}

fn at(offset: u64, rest: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes(), rest].concat()
}

#[test]
fn a_read_may_come_in_pieces_and_holes() {
    let bytes = [
        chunk(0, wire::REPLY_TYPE_OFFSET_DATA, &at(108, b"wxyz")),
        chunk(0, wire::REPLY_TYPE_OFFSET_HOLE, &at(104, &[0, 0, 0, 4])),
        chunk(0, wire::REPLY_TYPE_OFFSET_DATA, &at(100, b"abcd")),
        chunk(1, wire::REPLY_TYPE_NONE, &[]),
    ];
    let (result, data) = read_answered(&bytes.concat());
    result.expect("reads");
    assert_eq!(&data, b"abcd\0\0\0\0wxyz");
}

#[test]
fn an_error_after_data_is_an_error() {
    let error = [0, 0, 0, 5, 0, 2, b'n', b'o', 0, 0, 0, 0, 0, 0, 0, 104];
    let bytes = [
        chunk(0, wire::REPLY_TYPE_OFFSET_DATA, &at(100, b"abcdefghijkl")),
        chunk(1, wire::REPLY_TYPE_ERROR_OFFSET, &error),
    ];
    let (result, _) = read_answered(&bytes.concat());
    assert!(matches!(result, Err(Failure::Refused(Error::Io))), "{result:?}");
    // An error of a kind that will be invented tomorrow is an error too.
    let (result, _) = read_answered(&chunk(1, 0x8fff, &[0, 0, 0, 28, 0, 0]));
    assert!(matches!(result, Err(Failure::Refused(Error::NoSpace))), "{result:?}");
}

#[test]
fn replies_that_break_the_protocol_are_noticed() {
    let mut huge = chunk(1, wire::REPLY_TYPE_OFFSET_DATA, &at(100, b"a"));
    huge[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    let cases = [
        b"rubbish and more of it".to_vec(),
        huge,
        chunk(1, wire::REPLY_TYPE_OFFSET_DATA, &at(99, b"abcd")),
        chunk(1, wire::REPLY_TYPE_OFFSET_DATA, &at(99, b"abcdefghijkl")),
        chunk(1, wire::REPLY_TYPE_OFFSET_DATA, &at(108, b"abcde")),
        chunk(1, wire::REPLY_TYPE_OFFSET_DATA, &at(u64::MAX, b"abcd")),
        chunk(1, wire::REPLY_TYPE_OFFSET_DATA, &at(100, b"")),
        chunk(1, wire::REPLY_TYPE_OFFSET_DATA, &at(100, b"short")),
        chunk(1, wire::REPLY_TYPE_OFFSET_HOLE, &at(100, &[255; 4])),
        chunk(1, wire::REPLY_TYPE_OFFSET_HOLE, &at(100, &[0; 5])),
        chunk(1, wire::REPLY_TYPE_BLOCK_STATUS, &[0; 12]),
        chunk(1, wire::REPLY_TYPE_NONE, &[0]),
        chunk(0, wire::REPLY_TYPE_NONE, &[]),
        chunk(1, 77, &[]),
        chunk(1, wire::REPLY_TYPE_ERROR, &[0, 0, 0, 5, 0, 1]),
        chunk(1, wire::REPLY_TYPE_ERROR, &[0, 0, 0, 5]),
        chunk(1, wire::REPLY_TYPE_ERROR, &[0; 5000]),
    ];
    for bytes in cases {
        let (result, _) = read_answered(&bytes);
        assert!(matches!(result, Err(Failure::Broken(_))), "{bytes:?}: {result:?}");
    }
    let (result, _) = read_answered(&[]);
    assert!(matches!(result, Err(Failure::Io(_))), "{result:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Needs are growing and bounded, and what is parsed depends on no byte behind it.
    #[test]
    fn any_bytes_are_a_reply_or_none(
        magic in prop_oneof![
            1 => Just(wire::SIMPLE_REPLY_MAGIC),
            9 => Just(wire::STRUCTURED_REPLY_MAGIC),
            1 => any::<u32>(),
        ],
        flags in 0..4u16,
        kind in prop_oneof![0..7u16, 0x8000..0x8004u16, any::<u16>()],
        len in prop_oneof![0..40u32, any::<u32>()],
        payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0; 8]);
        bytes.extend(len.to_be_bytes());
        bytes.extend(payload);
        let mut needed = 0;
        for end in 0..=bytes.len() {
            match parse_reply(&bytes[..end]) {
                Ok(Parsed::Needs(more)) => {
                    prop_assert!(more > end && more >= needed && more <= HEADER_LEN_MAX);
                    needed = more;
                }
                Ok(Parsed::Reply(reply)) => {
                    prop_assert_eq!(reply.header_len, end);
                    prop_assert_eq!(parse_reply(&bytes), Ok(Parsed::Reply(reply)));
                    break;
                }
                Err(bad) => {
                    prop_assert_eq!(parse_reply(&bytes), Err(bad));
                    break;
                }
            }
        }
    }
}
