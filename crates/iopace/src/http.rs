//! The ports beside the control socket: where they are bound, and the address for browsers.

use crate::cli::{DaemonArgs, PortArgs};
use crate::output::{Failure, Format, print, print_json};
use crate::running::{Sought, daemon};
use iopace_daemon::control::port::url;
use iopace_daemon::control::{Port, Ports, Token};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Ending of the token's file where none is named.
const TOKEN_ENDING: &str = ".token";

/// The ports that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedPorts {
    /// The whole API and the dashboard, for this machine.
    pub api: Option<Wanted>,
    /// The metrics alone: where, and the file of their token.
    pub metrics: Option<(SocketAddr, PathBuf)>,
}

impl WantedPorts {
    /// As the command line says, else the file.
    ///
    /// # Errors
    /// A port without its token file, or the other way round.
    pub fn of(args: &PortArgs, file: PortArgs) -> Result<WantedPorts, Failure> {
        let token_file = args.http_token_file.clone().or(file.http_token_file);
        let api = match (args.http.or(file.http), token_file) {
            (Some(address), token_file) => Some(Wanted { address, token_file }),
            (None, None) => None,
            (None, Some(_)) => {
                let message = "--http-token-file is of no use without a port: add --http 8080";
                return Err(Failure::usage(message));
            }
        };
        let token_file = args.metrics_token_file.clone().or(file.metrics_token_file);
        let metrics = match (args.metrics.or(file.metrics), token_file) {
            (Some(address), Some(token_file)) => Some((address, token_file)),
            (None, None) => None,
            (Some(address), None) => {
                return Err(Failure::usage(format!(
                    "--metrics {address}: the token needs a file, which whatever scrapes reads: \
                     add --metrics-token-file FILE; it is made if it is missing"
                )));
            }
            (None, Some(_)) => {
                return Err(Failure::usage(
                    "--metrics-token-file is of no use without an address: add --metrics \
                     0.0.0.0:9100",
                ));
            }
        };
        Ok(WantedPorts { api, metrics })
    }

    /// Binds them; `beside` is where the file of the API's token is made if none is named.
    ///
    /// # Errors
    /// An address is taken, or what is wrong with a file.
    pub fn bind(&self, beside: &Path) -> Result<Ports, Failure> {
        let api = self.api.as_ref().map(|wanted| wanted.bind(beside)).transpose()?;
        let bind = |(address, file): &(SocketAddr, PathBuf)| {
            let file = std::path::absolute(file).unwrap_or(file.clone());
            Port::bind_metrics(*address, &file).map_err(Failure::new)
        };
        let metrics = self.metrics.as_ref().map(bind).transpose()?;
        match (&api, &metrics) {
            (Some(api), Some(metrics)) if api.has_token_of(metrics) => Err(Failure::usage(
                "the token of --metrics goes over the network and must not be that of --http: \
                 name another file with --metrics-token-file",
            )),
            _ => Ok(Ports { api, metrics }),
        }
    }
}

/// The loopback port that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where.
    pub address: SocketAddr,
    /// The file of the token; none: beside the control socket.
    pub token_file: Option<PathBuf>,
}

impl Wanted {
    /// Binds; `beside` is where the file of the token is made if none is named.
    ///
    /// # Errors
    /// The address is taken, or what is wrong with the file.
    pub fn bind(&self, beside: &Path) -> Result<Port, Failure> {
        // Behind the whole name: two sockets may differ in their endings only.
        let mut own = beside.as_os_str().to_owned();
        own.push(TOKEN_ENDING);
        let own = PathBuf::from(own);
        let file = self.token_file.as_deref().unwrap_or(&own);
        // Whoever asks for it may be elsewhere.
        let file = std::path::absolute(file).unwrap_or(file.to_owned());
        Port::bind(self.address, &file, self.token_file.is_some()).map_err(Failure::new)
    }
}

/// What `iopace dashboard` prints as JSON.
#[derive(Serialize)]
struct Dashboard {
    url: String,
    address: String,
    token_file: String,
}

/// Prints the address of a daemon's dashboard, with the token.
///
/// # Errors
/// No daemon, or none with a port, or a token that is not ours to read.
pub fn dashboard(args: &DaemonArgs) -> Result<(), Failure> {
    let client = daemon(args.control.as_deref(), Sought { port: true, ..Sought::default() })?;
    let status = client.status().map_err(Failure::new)?;
    let Some(http) = status.http else {
        let control = client.path().display();
        return Err(Failure::new(format!(
            "the daemon at {control} has no loopback port: start it with --http 8080 (or `http = \
             8080` in its configuration)"
        )));
    };
    let token = Token::find(Path::new(&http.token_file)).map_err(Failure::new)?;
    let url = url(&http.address, Some(&token));
    match args.format.format {
        Format::Table => print(&format!("{url}\n")),
        Format::Json => {
            print_json(&Dashboard { url, address: http.address, token_file: http.token_file })
        }
    }
}
