//! How clients encrypt, and who they are.

use clap::{Args, ValueEnum, ValueHint};
use iopace_daemon::Rule;
use iopace_daemon::tls::TlsMode;
use std::path::PathBuf;

/// Encryption of NBD clients.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Whether NBD clients may, or must, encrypt [default: off; with --tls-certificates require]
    #[arg(long, value_name = "MODE")]
    pub tls: Option<TlsWord>,

    /// Directory with server-cert.pem and server-key.pem, as QEMU and nbdkit have it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub tls_certificates: Option<PathBuf>,

    /// Let in only clients with a certificate that ca-cert.pem in that directory has signed
    #[arg(long)]
    pub tls_verify_peer: bool,

    /// Who pays for them, as certificate=web*:/vms/web or map=certificate:/clients: the first rule
    /// that fits
    #[arg(long, value_name = "RULE")]
    pub rule: Vec<Rule>,

    /// Let --listen take addresses that other machines reach though clients need not encrypt
    #[arg(long)]
    pub tcp_without_tls: bool,
}

/// Whether clients encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsWord {
    /// There is no encryption
    Off,
    /// Clients may encrypt
    Allow,
    /// Clients must encrypt before they are told anything
    Require,
}

impl From<TlsWord> for TlsMode {
    fn from(word: TlsWord) -> TlsMode {
        match word {
            TlsWord::Off => TlsMode::Off,
            TlsWord::Allow => TlsMode::Allow,
            TlsWord::Require => TlsMode::Require,
        }
    }
}
