//! The NBD frontend: one thread per connection, replies by whoever finishes a request.

pub mod connection;
pub mod drainer;
pub mod held;
pub mod listener;
mod outbox;
pub mod payer;
pub(crate) mod pieces;
mod receive;
pub mod reply;
mod session;
mod spin;
mod view;

pub(crate) use session::SEND_FILE_BYTES;
