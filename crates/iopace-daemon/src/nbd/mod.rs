//! The NBD frontend: one thread per connection, replies by whoever finishes a request.

mod client_rules;
mod clients;
pub mod connection;
pub mod drainer;
mod encryption;
pub mod frontend;
mod outbox;
mod receive;
pub mod reply;
mod session;
mod start_tls;
mod view;
