//! The NBD protocol as a declared state machine: bytes in, bytes out. No sockets, no threads, no
//! clock.
//!
//! Fixed newstyle with GO, INFO, LIST and EXPORT_NAME, structured replies, `base:allocation`, and
//! the commands READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS and DISC. STARTTLS is
//! negotiated here, and TLS itself is the caller's. Not: extended (64-bit) headers, oldstyle.
//!
//! # Driving a server
//! 1. Make a [`Server`]; it has its greeting ready.
//! 2. Call [`Server::poll`] and do what the [`Event`] says, until it is [`Event::NeedInput`]:
//!    - `Send`, `Opened`: send [`Server::take_output`];
//!    - `Request`, `Reject`: answer it, now or later, by [`Replies`];
//!    - `Write`: take its payload by [`Server::payload_buffered`], receive the rest of it into your
//!      own memory, tell [`Server::payload_received`], then answer it;
//!    - `StartTls` (if [`ServerConfig::tls`] offers it): carry out the handshake of TLS;
//!    - `Close`: send [`Server::take_output`], answer what is in flight, hang up.
//! 3. While [`Server::in_handshake`], see that it does not last for ever: the caller has the clock.
//! 4. Receive into [`Server::recv_space`], say how much with [`Server::received`], go to 2.
//!
//! [`Replies`] is a small value that any thread may hold; it appends to whatever buffer that thread
//! has, in any order. It is not bound to the [`Server`].
//!
//! ```
//! use iopace_nbd::client::{Client, Wanted};
//! use iopace_nbd::{Command, Error, Event, ExportInfo, Replies, Server, ServerConfig};
//! use std::io::{self, Read, Write};
//! use std::os::unix::net::UnixStream;
//!
//! /// Serves `disk`, which the export describes, to one client.
//! fn serve(mut socket: UnixStream, export: &ExportInfo, disk: &mut [u8]) -> io::Result<()> {
//!     let mut server = Server::new(ServerConfig::default());
//!     let mut replies = Replies::default();
//!     loop {
//!         let mut out = Vec::new();
//!         match server.poll(export) {
//!             Event::NeedInput => {
//!                 let count = socket.read(server.recv_space())?;
//!                 if count == 0 {
//!                     return Ok(()); // Gone without a word.
//!                 }
//!                 server.received(count);
//!             }
//!             Event::Send => out = server.take_output(),
//!             Event::Opened(opened) => {
//!                 replies = opened.replies;
//!                 out = server.take_output();
//!             }
//!             Event::Write(request) => {
//!                 let data = &mut disk[request.offset as usize..][..request.len as usize];
//!                 let have = server.payload_buffered(data);
//!                 socket.read_exact(&mut data[have..])?;
//!                 server.payload_received(data.len() - have);
//!                 replies.done(&mut out, request.cookie);
//!             }
//!             Event::Request(request) if request.command == Command::Read => {
//!                 let data = &disk[request.offset as usize..][..request.len as usize];
//!                 replies.read(&mut out, request.cookie, request.offset, request.len);
//!                 out.extend_from_slice(data);
//!             }
//!             Event::Request(request) => {
//!                 replies.error(&mut out, request.cookie, Error::NotSupported);
//!             }
//!             Event::Reject { cookie, error } => replies.error(&mut out, cookie, error),
//!             Event::StartTls => unreachable!("not offered"),
//!             Event::Close(_) => return socket.write_all(&server.take_output()),
//!         }
//!         socket.write_all(&out)?;
//!     }
//! }
//!
//! let export = ExportInfo::new(0, "disk", 1 << 20);
//! let (ours, theirs) = UnixStream::pair()?;
//! std::thread::scope(|scope| {
//!     let server = scope.spawn(|| serve(theirs, &export, &mut vec![0; 1 << 20]));
//!     let mut client = Client::connect(ours, "disk", Wanted::default())?;
//!     let mut data = [0; 5];
//!     client.write(4096, b"hello", false)?;
//!     client.read(4096, &mut data)?;
//!     assert_eq!(&data, b"hello");
//!     client.disconnect()?;
//!     server.join().unwrap()?;
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Properties
//! 1. Whatever bytes come, in whatever pieces, nothing panics, and the events are the same, unless
//!    bytes come behind STARTTLS before it is answered: those end the connection.
//! 2. A connection holds 64 KiB of input, and in the handshake one option and the answer to it.
//!    Payloads are never held; those of refused writes are skipped, those over 64 MiB end it.
//! 3. A request that is handed out lies within the export and asks only for what was offered.
//! 4. Every request is handed out or rejected once, in the order of arrival; DISC ends the rest.
//!
//! # Sources
//! `doc/proto.md` of the NBD project, sections "Protocol phases", "Block size constraints",
//! "Metadata querying" and "Values".
#![forbid(unsafe_code)]

pub mod client;
mod close;
mod error;
mod event;
mod export;
mod options;
mod replies;
mod request;
mod server;
#[cfg(test)]
mod testing;
mod tls_mode;
pub mod wire;

pub use close::CloseReason;
pub use error::Error;
pub use event::{Event, Opened};
pub use export::{ExportInfo, Exports, NoExports};
pub use replies::{BLOCK_STATUS_PIECES_MAX, BlockStatus, Replies};
pub use request::{Command, Request};
pub use server::{Server, ServerConfig};
pub use tls_mode::TlsMode;

/// Largest read or write in bytes. All clients may expect 32 MiB without asking (the protocol's
/// section "Block size constraints"); nbdkit serves 64 MiB, and clients count on that.
pub const MAX_REQUEST_LEN: u32 = 64 << 20;
