//! The address of an export of another NBD server, as a URI (doc/uri.md of the NBD project).
//!
//! ```text
//!  nbd://HOST[:PORT]/EXPORT
//!  nbd+unix:///EXPORT?socket=PATH
//! ```

use crate::percent::{decoded, encoded};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The port of NBD servers where none is named, as registered with IANA.
pub const NBD_PORT: u16 = 10_809;

/// The schemes of the specification; the second half of them encrypts.
const SCHEMES: [&str; 4] = ["nbd", "nbd+unix", "nbds", "nbds+unix"];

/// An export of another NBD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// The address of the server.
    pub place: NbdPlace,
    /// The name of the export; the empty name is the server's default export.
    pub export: String,
}

/// The address of an NBD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdPlace {
    /// A host, by its name or number (without brackets), and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl NbdUri {
    /// Whether a text is meant as such a URI, and not as the path of a file.
    pub fn is_meant(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
    }
}

impl FromStr for NbdUri {
    type Err = String;

    /// Takes a URI.
    ///
    /// # Errors
    /// What is wrong with it and what would be right.
    fn from_str(text: &str) -> Result<NbdUri, String> {
        let forms = "write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH";
        let wrong = |what: &str| format!("'{text}': {what}; {forms}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it is no URI"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decoded(export).ok_or_else(|| wrong("the export is not text"))?;
        match scheme {
            "nbd" if !query.is_empty() => Err(wrong("TCP addresses have no '?'")),
            "nbd" => {
                let (host, port) = host_and_port(host).map_err(wrong)?;
                Ok(NbdUri { place: NbdPlace::Tcp(host, port), export })
            }
            "nbd+unix" if !host.is_empty() => Err(wrong("a Unix socket has no host")),
            "nbd+unix" => {
                let socket = query.strip_prefix("socket=").and_then(decoded);
                let socket = socket.filter(|path| !path.is_empty());
                let socket = socket.ok_or_else(|| wrong("the socket is missing"))?;
                Ok(NbdUri { place: NbdPlace::Unix(socket.into()), export })
            }
            "nbds" | "nbds+unix" => Err(format!(
                "'{text}': encryption to another server (nbds) is not supported: use nbd:// over a \
                 network that nobody else reaches, or a tunnel (WireGuard, stunnel) and its address"
            )),
            _ => Err(wrong("it is no URI of NBD")),
        }
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encoded(&self.export);
        match &self.place {
            NbdPlace::Tcp(host, port) if host.contains(':') => {
                write!(f, "nbd://[{host}]:{port}/{export}")
            }
            NbdPlace::Tcp(host, port) => write!(f, "nbd://{host}:{port}/{export}"),
            NbdPlace::Unix(path) => {
                write!(f, "nbd+unix:///{export}?socket={}", encoded(&path.to_string_lossy()))
            }
        }
    }
}

/// A host without brackets, and the port, or the registered one.
fn host_and_port(text: &str) -> Result<(String, u16), &'static str> {
    if let Some(inner) = text.strip_prefix('[') {
        let (host, rest) = inner.split_once(']').ok_or("a ']' is missing behind the address")?;
        let whole = format!("[{host}]:{}", rest.strip_prefix(':').unwrap_or("0"));
        let address: SocketAddr = whole.parse().map_err(|_| "the IPv6 address is not right")?;
        let port = if rest.is_empty() { NBD_PORT } else { address.port() };
        return Ok((address.ip().to_string(), port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| "the port is no number")?),
        None => (text, NBD_PORT),
    };
    match host.is_empty() || host.contains('@') {
        true => Err("the host is missing, or it is none"),
        false => Ok((host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
        NbdUri { place: NbdPlace::Tcp(host.into(), port), export: export.into() }
    }

    #[test]
    fn uris_are_taken_apart_and_put_together() {
        let unix = NbdUri { place: NbdPlace::Unix("/run/a b.sock".into()), export: "ä/b".into() };
        let cases = [
            ("nbd://array/volume", tcp("array", 10_809, "volume")),
            ("nbd://array", tcp("array", 10_809, "")),
            ("nbd://10.0.0.1:7/a%20b", tcp("10.0.0.1", 7, "a b")),
            ("nbd://[fd00::1]/v", tcp("fd00::1", 10_809, "v")),
            ("nbd://[::1]:99/v", tcp("::1", 99, "v")),
            ("nbd+unix:///%C3%A4/b?socket=/run/a%20b.sock", unix),
        ];
        for (text, uri) in cases {
            assert_eq!(text.parse(), Ok(uri.clone()), "{text}");
            assert_eq!(uri.to_string().parse(), Ok(uri), "{text}");
            assert!(NbdUri::is_meant(text));
        }
        assert!(!NbdUri::is_meant("disk.img") && !NbdUri::is_meant("http://array/volume"));
    }

    #[test]
    fn a_wrong_uri_is_refused_with_the_right_form() {
        for (text, why) in [
            ("array/volume", "no URI"),
            ("http://array/volume", "no URI of NBD"),
            ("nbd:///volume", "host is missing"),
            ("nbd://array:x/volume", "port"),
            ("nbd://[::1/volume", "']' is missing"),
            ("nbd://[::g]/volume", "IPv6"),
            ("nbd://array/volume?socket=/a", "no '?'"),
            ("nbd+unix://host/volume?socket=/a", "no host"),
            ("nbd+unix:///volume", "socket is missing"),
            ("nbd+unix:///volume?socket=", "socket is missing"),
            ("nbd://array/%f", "not text"),
            ("nbds://array/volume", "not supported"),
        ] {
            let error = text.parse::<NbdUri>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
