//! Addresses of the dashboard as they are written.

use iopace_daemon::control::port::check;
use std::net::{Ipv4Addr, SocketAddr};

/// A port of this machine, or an address and a port.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    let address = match text.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => text
            .parse()
            .map_err(|_| "a port is needed, as 8080, 127.0.0.1:8080 or [::1]:8080".to_owned())?,
    };
    check(address).map(|()| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_reaches_it() {
        let parsed = |text: &str| parse(text).map(|address| address.to_string());
        assert_eq!(parsed("8080").as_deref(), Ok("127.0.0.1:8080"));
        assert_eq!(parsed("[::1]:0").as_deref(), Ok("[::1]:0"));
        assert_eq!(parsed("127.0.0.2:80").as_deref(), Ok("127.0.0.2:80"));
        for wrong in ["0.0.0.0:8080", "[::]:8080", "192.168.1.2:80", "[::ffff:10.0.0.1]:80"] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains("ssh -L"), "{error}");
        }
        for wrong in ["", "x", "65536", "-1", "localhost:80", "127.0.0.1", ":80"] {
            assert!(parse(wrong).is_err_and(|error| error.contains("127.0.0.1:8080")), "{wrong}");
        }
    }
}
