//! The configuration file: TOML with the words of the command line.
//!
//! All of them are shown in `docs/serving.md` and `docs/pace.md`, which a test reads. Relative
//! paths start at the directory of the file.

mod cluster;
mod device;
mod error;
mod groups;
mod loadable;
mod mounts;
mod policies;
mod resolve;
mod rules;
mod values;

pub use cluster::{SHARED_WINDOW, blind_window, is_shared_window};
pub use device::{AUTO_HAS_NO_SETTINGS, NamedScheduler};
pub use error::ConfigError;
pub use values::{names, valid_name};

use crate::cli::{LogFormat, PortArgs};
use groups::GroupTable;
use iopace_core::units::Bytes;
use iopace_daemon::Rule;
use iopace_daemon::api::ClientsWord;
use iopace_daemon::config::{
    ClusterConfig, DeviceConfig, ExportConfig, GroupConfig, IoEngineChoice, MountConfig,
    PolicyConfig,
};
use iopace_daemon::tls::TlsMode;
use iopace_sim::spelling::explain;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// What a configuration file says; `None` where it says nothing.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The policies, which are loaded.
    pub policies: Vec<PolicyConfig>,
    /// The devices.
    pub devices: Vec<DeviceConfig>,
    /// The directories to be mounted.
    pub mounts: Vec<MountConfig>,
    /// The exports; empty: one per device.
    pub exports: Vec<ExportConfig>,
    /// The groups.
    pub groups: Vec<GroupConfig>,
    /// Where the exports are shown as files.
    pub fuse: Option<PathBuf>,
    /// Unix socket for clients.
    pub socket: Option<PathBuf>,
    /// Mode of the sockets of clients and virtual machines.
    pub socket_mode: Option<u32>,
    /// Their group of users.
    pub socket_group: Option<u32>,
    /// TCP addresses for clients.
    pub listen: Vec<SocketAddr>,
    /// How clients encrypt.
    pub tls: TlsWords,
    /// Control socket.
    pub control: Option<PathBuf>,
    /// Whether there is to be none.
    pub no_control: bool,
    /// Ports for browsers and for what scrapes.
    pub ports: PortArgs,
    /// The part in a cluster.
    pub cluster: Option<ClusterConfig>,
    /// How real disks are read and written.
    pub io_engine: Option<IoEngineChoice>,
    /// How the log looks.
    pub log_format: Option<LogFormat>,
    /// Most clients at once.
    pub connections_max: Option<usize>,
    /// Most bytes held for all clients together.
    pub memory_max: Option<Bytes>,
}

/// What it says about encryption.
#[derive(Clone, Debug, Default)]
pub struct TlsWords {
    /// Whether clients may, or must, encrypt.
    pub mode: Option<TlsMode>,
    /// The directory with the certificates.
    pub certificates: Option<PathBuf>,
    /// Whether clients must show one.
    pub verify_peer: bool,
    /// Who pays for those that do.
    pub rules: Vec<Rule>,
    /// Whether TCP addresses may be reached by other machines though clients need not encrypt.
    pub tcp_without_tls: bool,
}

/// A message and the bytes of the file that it is about.
type Mistake = (Range<usize>, String);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    socket: Option<PathBuf>,
    socket_mode: Option<Spanned<String>>,
    socket_group: Option<Spanned<String>>,
    fuse: Option<PathBuf>,
    #[serde(default)]
    listen: Vec<Spanned<String>>,
    #[serde(default)]
    tcp_without_tls: bool,
    tls: Option<Spanned<String>>,
    tls_certificates: Option<PathBuf>,
    #[serde(default)]
    tls_verify_peer: bool,
    #[serde(default)]
    rule: Vec<Spanned<rules::RuleTable>>,
    control: Option<Spanned<PathBuf>>,
    #[serde(default)]
    no_control: bool,
    http: Option<Spanned<PortWord>>,
    http_token_file: Option<Spanned<PathBuf>>,
    metrics: Option<Spanned<String>>,
    metrics_token_file: Option<Spanned<PathBuf>>,
    cluster: Option<Spanned<cluster::ClusterTable>>,
    io_engine: Option<Spanned<String>>,
    log_format: Option<Spanned<String>>,
    connections: Option<Spanned<usize>>,
    memory: Option<Spanned<String>>,
    #[serde(default)]
    policies: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    device: Vec<Spanned<DeviceTable>>,
    #[serde(default)]
    mount: Vec<Spanned<mounts::MountTable>>,
    #[serde(default)]
    export: Vec<Spanned<ExportTable>>,
    #[serde(default)]
    group: BTreeMap<Spanned<String>, GroupTable>,
}

/// `8080` or `"127.0.0.1:8080"`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "it is a port or an address, as 8080 or \"127.0.0.1:8080\"")]
enum PortWord {
    Port(u64),
    Address(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DeviceTable {
    name: Option<Spanned<String>>,
    file: Option<PathBuf>,
    nbd: Option<Spanned<String>>,
    reconnect_patience: Option<Spanned<String>>,
    emulate: Option<Spanned<String>>,
    size: Option<Spanned<String>>,
    cache: Option<Spanned<String>>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    direct: bool,
    pace: Option<Spanned<String>>,
    pause_target: Option<Spanned<String>>,
    window_policy: Option<Spanned<String>>,
    dirty_limit: Option<Spanned<String>>,
    dirty_background: Option<Spanned<String>>,
    sched: Option<Spanned<String>>,
    #[serde(default)]
    set: BTreeMap<Spanned<String>, Spanned<u64>>,
    nr_requests: Option<Spanned<u32>>,
    nr_group_requests: Option<Spanned<u32>>,
    window: Option<Spanned<u32>>,
    recommend: Option<Spanned<RecommendTable>>,
    volume: Option<Spanned<String>>,
}

/// What is tried beside a device, in the words of its table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RecommendTable {
    sched: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, u64>,
    pace: Option<String>,
    window_policy: Option<String>,
    nr_requests: Option<u32>,
    window: Option<u32>,
    #[serde(default)]
    clients: ClientsWord,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ExportTable {
    name: Spanned<String>,
    device: Spanned<String>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    require_tls: bool,
    #[serde(default)]
    description: String,
    group: Option<Spanned<String>>,
    vhost_user: Option<PathBuf>,
}

/// A message of the TOML reader, with an example where it has only a word of its own.
fn hinted(message: &str) -> String {
    let hint = match message.contains("expected a sequence") {
        true => ": a list in brackets is meant, as [\"one\"] or [\"one\", \"another\"]",
        false => "",
    };
    explain(message).trim_end().to_owned() + hint
}

/// Reads the text of a configuration file; `path` is its name in messages, and where relative paths
/// start.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let file = path.display().to_string();
    let fail = |(span, message)| ConfigError::at(&file, text, span, message);
    let parsed: File = toml::from_str(text)
        .map_err(|error| fail((error.span().unwrap_or(0..0), hinted(error.message()))))?;
    let base = path.parent().unwrap_or(Path::new(""));
    resolve::resolve(parsed, base, text.len()).map_err(fail)
}

#[cfg(test)]
mod tests;
