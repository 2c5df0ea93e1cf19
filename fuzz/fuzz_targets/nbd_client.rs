//! Any bytes from a server to the client's machine.
#![no_main]

use iopace_nbd::client::{
    HEADER_LEN_MAX, Handshake, Parsed, Room, Step, Wanted, What, parse_extents, parse_reply,
    receive,
};
use libfuzzer_sys::fuzz_target;

/// Goes through the handshake; what is left for the transmission.
fn handshake(mut bytes: &[u8], wanted: Wanted) -> Option<&[u8]> {
    let mut handshake = Handshake::new("disk", wanted);
    loop {
        let needed = handshake.needs();
        assert!((1..=16 * 1024).contains(&needed));
        let (fed, rest) = bytes.split_at_checked(needed)?;
        bytes = rest;
        let step = handshake.feed(fed);
        assert!(handshake.take_output().len() < 256);
        match step {
            Ok(Step::GoOn) => {}
            Ok(Step::Opened(_)) => return Some(bytes),
            Err(_) => {
                assert_eq!(handshake.needs(), 0);
                return None;
            }
        }
    }
}

/// Takes replies as a pipelining client does, each into the same room.
fn replies(mut bytes: &[u8]) {
    let mut data = [0; 4096];
    loop {
        let before = bytes.len();
        match receive(&mut bytes, |_| Some(Room { offset: 512, data: &mut data })) {
            Ok(received) => assert!(received.len <= 4096 && bytes.len() < before),
            Err(_) => return,
        }
    }
}

/// Takes replies as they stand in memory.
fn headers(mut bytes: &[u8]) {
    let mut end = 0;
    loop {
        match parse_reply(&bytes[..end]) {
            Ok(Parsed::Needs(needed)) => {
                assert!(needed > end && needed <= HEADER_LEN_MAX);
                if needed > bytes.len() {
                    return;
                }
                end = needed;
            }
            Ok(Parsed::Reply(reply)) => {
                assert_eq!(reply.header_len, end);
                bytes = &bytes[end..];
                end = 0;
                let follows = match reply.what {
                    What::Data { len, .. } | What::BlockStatus { len, .. } => len as usize,
                    _ => 0,
                };
                let Some((data, rest)) = bytes.split_at_checked(follows) else {
                    return;
                };
                assert!(parse_extents(data).len() <= data.len() / 8);
                bytes = rest;
            }
            Err(_) => return,
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&how, bytes)) = input.split_first() else {
        return;
    };
    let wanted = Wanted { structured: how & 1 != 0, block_status: how & 2 != 0 };
    let rest = if how & 4 != 0 { Some(bytes) } else { handshake(bytes, wanted) };
    if let Some(rest) = rest {
        replies(rest);
        headers(rest);
    }
});
