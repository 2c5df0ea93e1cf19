//! How clients encrypt: the words of the command line and of the file, taken together.

use crate::cli::TlsArgs;
use crate::config::TlsWords;
use crate::output::Failure;
use iopace_daemon::Rules;
use iopace_daemon::config::ExportConfig;
use iopace_daemon::tls::{TlsMode, TlsSettings};
use std::net::SocketAddr;

/// How clients encrypt, and who pays for those that show a certificate.
pub(super) fn tls_of(
    args: &TlsArgs,
    file: TlsWords,
    tcp: &[SocketAddr],
    exports: &[ExportConfig],
) -> Result<(TlsSettings, Rules), Failure> {
    let certificates = args.tls_certificates.clone().or(file.certificates);
    let by_default = if certificates.is_some() { TlsMode::Require } else { TlsMode::Off };
    let mode = args.tls.map(TlsMode::from).or(file.mode).unwrap_or(by_default);
    let verify_peer = args.tls_verify_peer || file.verify_peer;
    let rules = if args.rule.is_empty() { file.rules } else { args.rule.clone() };
    if mode == TlsMode::Off {
        if verify_peer {
            return Err(Failure::usage(
                "--tls-verify-peer is of no use without TLS: add --tls require \
                 --tls-certificates DIR",
            ));
        }
        if let Some(export) = exports.iter().find(|export| export.needs_tls) {
            return Err(Failure::usage(format!(
                "export '{}' has `require-tls`, and there is no TLS: add `tls-certificates`, or \
                 take `require-tls` out",
                export.name
            )));
        }
    } else if certificates.is_none() {
        return Err(Failure::usage(
            "--tls needs certificates: add --tls-certificates DIR, a directory with \
             server-cert.pem and server-key.pem (docs/serving.md, \"TLS\", says how to make them)",
        ));
    }
    if !rules.is_empty() && !verify_peer {
        return Err(Failure::usage(
            "--rule ([[rule]]) is about certificates of clients, and none has to show one: add \
             --tls-verify-peer",
        ));
    }
    let rules = Rules::for_clients(rules)
        .map_err(|error| Failure::usage(format!("--rule ([[rule]]): {error}")))?;
    let certificates = certificates.unwrap_or_default();
    let tcp_without_tls = args.tcp_without_tls || file.tcp_without_tls;
    let settings = TlsSettings { mode, certificates, verify_peer, tcp_without_tls };
    for address in tcp {
        check_remote(*address, "--listen", &settings)?;
    }
    Ok((settings, rules))
}

/// Other machines are served if clients must encrypt, or if the user has said that they need not.
/// `asked` says where the address comes from.
///
/// # Errors
/// Neither is so, with both ways.
pub fn check_remote(address: SocketAddr, asked: &str, tls: &TlsSettings) -> Result<(), Failure> {
    let is_allowed = tls.mode == TlsMode::Require || tls.tcp_without_tls;
    if address.ip().to_canonical().is_loopback() || is_allowed {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{asked} {address}: other machines would reach it, and clients need not encrypt: everybody \
         there could read and write the disk. Have them encrypt (--tls require --tls-certificates \
         DIR, and --tls-verify-peer to let in only those that have a certificate), or say \
         --tcp-without-tls if the network is trusted"
    )))
}
