//! Ports for browsers, and for what scrapes the metrics.

use crate::{address, units};
use clap::{Args, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Ports beside the control socket.
#[derive(Clone, Debug, Default, Args)]
pub struct PortArgs {
    /// Also serve the control API and the dashboard to browsers of this machine, on this port (0:
    /// any) or address
    #[arg(long, value_name = "PORT", value_parser = address::parse)]
    pub http: Option<SocketAddr>,

    /// File with the token that these need; made if it is missing [default: beside the control
    /// socket, removed at the end]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub http_token_file: Option<PathBuf>,

    /// Also serve the metrics, and nothing else, at this address, as 0.0.0.0:9100; not encrypted
    #[arg(long, value_name = "ADDR", value_parser = units::parse_address)]
    pub metrics: Option<SocketAddr>,

    /// File with the token that these need, which allows nothing else; made if it is missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub metrics_token_file: Option<PathBuf>,
}
