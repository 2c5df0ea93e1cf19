//! The part of a host in a cluster, as it is configured.

use crate::tls::ClientFiles;
use iopace_core::time::Nanos;
use std::fmt;
use std::path::PathBuf;

/// Hosts of a volume that have a static part of each limit, unless the first one says otherwise.
pub const HOSTS_DEFAULT: u32 = 32;

/// Most of them: each publishes to all others.
pub const HOSTS_MAX: u32 = 256;

/// Longest name of a host or volume: that of a host in the DNS.
pub const NAME_LEN_MAX: usize = 63;

/// A host's part in a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The members of etcd, as `http://10.0.0.1:2379`; at least one.
    pub etcd: Vec<String>,
    /// The host's own name, unlike that of any other.
    pub host: String,
    /// All keys are below it; volumes of one name below two of them are two volumes.
    pub prefix: String,
    /// So many hosts have a static part, if this host is the first one.
    pub hosts_max: u32,
    /// The latency at which the queue of each volume is long enough, if this host is the first one;
    /// none: it is learnt.
    pub target: Option<Nanos>,
    /// Certificates, if etcd is asked by TLS.
    pub tls: Option<ClientFiles>,
    /// The user of etcd, if it wants one.
    pub user: Option<EtcdUser>,
    /// The directory that keeps what holds while the store cannot be reached.
    pub state: PathBuf,
}

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdUser {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for ClusterConfig {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig")
            .field("etcd", &self.etcd)
            .field("host", &self.host)
            .field("prefix", &self.prefix)
            .field("hosts_max", &self.hosts_max)
            .finish_non_exhaustive()
    }
}

/// What is wrong with the name of a host or volume, if anything is: it is a part of keys.
pub fn wrong_name(name: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match () {
        () if name.is_empty() => Some("it is empty"),
        () if name.len() > NAME_LEN_MAX => Some("it is longer than 63 characters"),
        () if !name.chars().all(is_plain) => Some("it may have letters, digits, '-', '_' and '.'"),
        () if name.starts_with('.') => Some("it begins with a dot"),
        () => None,
    }
}
