//! The server's machine against clients, good and bad.

mod handshake;
mod random;
mod starttls;
mod transmission;

use super::*;
use crate::testing::{Shelf, disk, info_data, meta_data, option, request};
use crate::{ExportInfo, Request};

/// What a connection showed, in order.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// Bytes to be sent, at [`Event::Send`].
    Sent(Vec<u8>),
    /// The handshake of TLS is the caller's.
    StartTls,
    Opened(Opened, Vec<u8>),
    Request(Request),
    Write(Request, Vec<u8>),
    Reject(u64, Error),
    Close(CloseReason, Vec<u8>),
}

/// A connection that is driven as the crate's documentation says.
struct Talk {
    server: Server,
    seen: Vec<Seen>,
    /// A write whose payload is still coming.
    writing: Option<(Request, Vec<u8>)>,
}

impl Talk {
    fn new() -> Talk {
        Talk::with(ServerConfig::default())
    }

    fn with(config: ServerConfig) -> Talk {
        let mut talk = Talk { server: Server::new(config), seen: Vec::new(), writing: None };
        talk.poll();
        talk
    }

    /// A connection whose handshake brought it to that export, and nothing to be seen yet.
    fn open(name: &str, structured: bool) -> Talk {
        let mut talk = Talk::new();
        talk.say(&FLAGS);
        if structured {
            talk.say(&option(wire::OPT_STRUCTURED_REPLY, &[]));
            let contexts = meta_data(name.as_bytes(), &["base:allocation"]);
            talk.say(&option(wire::OPT_SET_META_CONTEXT, &contexts));
        }
        let seen = talk.say(&option(wire::OPT_GO, &info_data(name.as_bytes(), &[])));
        assert!(matches!(seen[..], [Seen::Opened(..)]), "{seen:?}");
        talk
    }

    /// The client says that; what was to be seen then.
    fn say(&mut self, bytes: &[u8]) -> Vec<Seen> {
        self.feed(bytes, bytes.len().max(1));
        std::mem::take(&mut self.seen)
    }

    /// Receives `bytes` in pieces of at most `piece`.
    fn feed(&mut self, mut bytes: &[u8], piece: usize) {
        while !bytes.is_empty() && !self.is_closed() {
            let space = self.server.recv_space();
            assert!(!space.is_empty(), "no room to receive into");
            let count = space.len().min(piece).min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.server.received(count);
            self.poll();
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.server.state, ServerState::Closed(_))
    }

    fn poll(&mut self) {
        loop {
            self.take_payload();
            if self.writing.is_some() {
                return;
            }
            match self.server.poll(&Shelf) {
                Event::NeedInput => return,
                Event::Send => {
                    let sent = self.server.take_output();
                    assert!(!sent.is_empty(), "nothing to send");
                    self.seen.push(Seen::Sent(sent));
                }
                Event::StartTls => {
                    self.seen.push(Seen::StartTls);
                    return;
                }
                Event::Opened(opened) => {
                    let sent = self.server.take_output();
                    self.seen.push(Seen::Opened(opened, sent));
                }
                Event::Request(request) => self.seen.push(Seen::Request(request)),
                Event::Write(request) => self.writing = Some((request, Vec::new())),
                Event::Reject { cookie, error } => self.seen.push(Seen::Reject(cookie, error)),
                Event::Close(reason) => {
                    let sent = self.server.take_output();
                    self.seen.push(Seen::Close(reason, sent));
                    return;
                }
            }
        }
    }

    fn take_payload(&mut self) {
        let Some((request, payload)) = &mut self.writing else {
            return;
        };
        let mut into = vec![0; request.len as usize - payload.len()];
        let count = self.server.payload_buffered(&mut into);
        payload.extend_from_slice(&into[..count]);
        assert_eq!(self.server.payload_left() as usize, into.len() - count);
        if count == into.len() {
            let (request, payload) = self.writing.take().expect("just seen");
            self.seen.push(Seen::Write(request, payload));
        }
    }
}

/// What a modern client answers to the greeting.
const FLAGS: [u8; 4] = [0, 0, 0, 3];
