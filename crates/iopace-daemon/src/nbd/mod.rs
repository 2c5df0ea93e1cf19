//! The NBD frontend: one thread per connection, replies by whoever finishes a request.

mod clients;
pub mod connection;
pub mod drainer;
pub mod frontend;
mod outbox;
mod receive;
pub mod reply;
mod session;
mod view;
