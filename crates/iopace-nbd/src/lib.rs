//! The NBD protocol as a declared state machine: bytes in, bytes out. No sockets, no threads, no
//! clock.
//!
//! # Driving a server
//! 1. Make a [`Server`]; it has its greeting ready.
//! 2. Call [`Server::poll`] and do what the [`Event`] says, until [`Event::NeedInput`].
//! 3. Receive into [`Server::recv_space`], say how much with [`Server::received`], go to 2.
//!
//! Replies of the transmission phase are written by [`Replies`], a small value that any thread may
//! hold, in any order.
//!
//! ```
//! use iopace_nbd::{Event, ExportInfo, Exports, Server, ServerConfig};
//!
//! struct Nothing;
//! impl Exports for Nothing {
//!     fn list(&self) -> Vec<ExportInfo> {
//!         Vec::new()
//!     }
//!     fn find(&self, _: &str) -> Option<ExportInfo> {
//!         None
//!     }
//! }
//!
//! let mut server = Server::new(ServerConfig::default());
//! assert_eq!(server.poll(&Nothing), Event::Send);
//! assert_eq!(&server.take_output()[..8], b"NBDMAGIC");
//! assert_eq!(server.poll(&Nothing), Event::NeedInput);
//! let flags = [0, 0, 0, 3];
//! server.recv_space()[..4].copy_from_slice(&flags);
//! server.received(4);
//! assert_eq!(server.poll(&Nothing), Event::NeedInput);
//! ```
#![forbid(unsafe_code)]

pub mod client;
mod error;
mod export;
mod options;
mod replies;
mod server;
pub mod wire;

pub use error::Error;
pub use export::{ExportInfo, Exports};
pub use replies::{BlockStatus, Replies};
pub use server::{CloseReason, Command, Event, Opened, Request, Server, ServerConfig};

/// Largest read or write in bytes: what all clients may expect without asking (the protocol's
/// default maximum payload).
pub const MAX_REQUEST_LEN: u32 = 32 << 20;
