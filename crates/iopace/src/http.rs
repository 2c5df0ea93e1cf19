//! The loopback port: where it is bound, and the address for browsers.

use crate::cli::DaemonArgs;
use crate::output::{Failure, Format, print, print_json};
use crate::running::{Sought, daemon};
use iopace_daemon::control::port::url;
use iopace_daemon::control::{Port, Token};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Ending of the token's file where none is named.
const TOKEN_ENDING: &str = ".token";

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
