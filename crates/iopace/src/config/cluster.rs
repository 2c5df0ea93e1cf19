//! The table of the host's part in a cluster.

use super::Mistake;
use super::values::bounded;
use crate::units::parse_time;
use iopace_core::time::Nanos;
use iopace_daemon::config::{ClusterConfig, EtcdUser, HOSTS_DEFAULT, HOSTS_MAX, wrong_name};
use iopace_daemon::tls::{ClientFiles, read_secret};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Keys begin so, unless the table says otherwise.
const PREFIX: &str = "iopace";

const NO_CLUSTER: &str = "`volume` is for devices that several hosts share: add a [cluster] table \
    with the members of etcd, as etcd = [\"http://10.0.0.1:2379\"], or leave this out";

/// What holds in the dark is kept here.
const STATE: &str = "/var/lib/iopace";

/// `[cluster]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClusterTable {
    etcd: Spanned<Vec<Spanned<String>>>,
    host: Option<Spanned<String>>,
    prefix: Option<Spanned<String>>,
    hosts: Option<Spanned<u32>>,
    target: Option<Spanned<String>>,
    ca: Option<PathBuf>,
    cert: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
    user: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    state: Option<PathBuf>,
}

/// The window policy that knows of other hosts.
pub const SHARED_WINDOW: &str = "latency";

/// Whether a window policy knows of other hosts.
pub fn is_shared_window(policy: &str) -> bool {
    policy == SHARED_WINDOW
}

/// What a device of a volume lacks whose window policy knows of no other hosts.
pub fn blind_window(volume: &str) -> String {
    format!(
        "the other hosts of volume {volume} are unknown to this window policy, so weights do not \
         hold for all hosts together"
    )
}

/// With every value checked; files are read. `first` is where the first volume is named.
pub(super) fn resolve(
    table: Option<Spanned<ClusterTable>>,
    base: &Path,
    volumes: &[&str],
    first: Option<Range<usize>>,
) -> Result<Option<ClusterConfig>, Mistake> {
    let Some(table) = table else {
        return match first {
            Some(span) => Err((span, NO_CLUSTER.into())),
            None => Ok(None),
        };
    };
    let (span, table) = (table.span(), table.into_inner());
    check_volumes(volumes, &span)?;
    let ClusterTable { etcd, host, prefix, hosts, state, .. } = &table;
    if etcd.get_ref().is_empty() {
        let message = "a member is needed, as \"http://10.0.0.1:2379\"";
        return Err((etcd.span(), message.into()));
    }
    let is_secure = etcd.get_ref().iter().any(|url| url.get_ref().starts_with("https://"));
    for url in etcd.get_ref() {
        let plain = url.get_ref().starts_with("http://") && !is_secure;
        if !plain && !url.get_ref().starts_with("https://") {
            let message = "a member is http://HOST:PORT or https://HOST:PORT, all of one kind";
            return Err((url.span(), message.into()));
        }
    }
    let name = |name: &Option<Spanned<String>>, or: &dyn Fn() -> String| match name {
        None => Ok(or()),
        Some(name) => match wrong_name(name.get_ref()) {
            Some(wrong) => Err((name.span(), wrong.to_owned())),
            None => Ok(name.get_ref().clone()),
        },
    };
    let host = name(host, &machine_name)?;
    if let Some(wrong) = wrong_name(&host) {
        let message =
            format!("the machine's name '{host}' is none for a host: {wrong}: say `host`");
        return Err((span, message));
    }
    Ok(Some(ClusterConfig {
        etcd: etcd.get_ref().iter().map(|url| url.get_ref().clone()).collect(),
        host,
        prefix: name(prefix, &|| PREFIX.to_owned())?,
        hosts_max: bounded(hosts.clone(), 1..=HOSTS_MAX)?.unwrap_or(HOSTS_DEFAULT),
        target: target(table.target.as_ref())?,
        state: absolute(&base.join(state.as_deref().unwrap_or(Path::new(STATE))), &span)?,
        tls: resolve_tls(&table, base, is_secure, span.clone())?,
        user: resolve_user(&table, base, is_secure)?,
    }))
}

/// There is a volume, and each is there once.
fn check_volumes(volumes: &[&str], span: &Range<usize>) -> Result<(), Mistake> {
    if volumes.is_empty() {
        let message = "no device is a part of a volume: give one the name of it as `volume`";
        return Err((span.clone(), message.into()));
    }
    let is_twice = |volume: &&&str| volumes.iter().filter(|other| other == volume).count() > 1;
    if let Some(volume) = volumes.iter().find(is_twice) {
        return Err((
            span.clone(),
            format!("two devices are the volume '{volume}': one host has one of it"),
        ));
    }
    Ok(())
}

fn target(text: Option<&Spanned<String>>) -> Result<Option<Nanos>, Mistake> {
    let parsed = text.map(|text| parse_time(text.get_ref()).map_err(|error| (text.span(), error)));
    parsed.transpose()
}

fn absolute(path: &Path, span: &Range<usize>) -> Result<PathBuf, Mistake> {
    std::path::absolute(path).map_err(|error| (span.clone(), format!("`state`: {error}")))
}

fn resolve_tls(
    table: &ClusterTable,
    base: &Path,
    is_secure: bool,
    span: Range<usize>,
) -> Result<Option<ClientFiles>, Mistake> {
    let ClusterTable { ca, cert, key, .. } = table;
    let own = match (cert, key) {
        (Some(cert), Some(key)) => Some((base.join(cert.get_ref()), base.join(key.get_ref()))),
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => {
            return Err((only.span(), "`cert` and `key` belong together".into()));
        }
    };
    match (ca, is_secure) {
        (None, false) if own.is_none() => Ok(None),
        (_, false) => Err((span, "certificates are for members that are https://HOST:PORT".into())),
        (None, true) => {
            let message = "whose certificates count is not said: name the file of the authority \
                           that has signed those of etcd as `ca`";
            Err((span, message.into()))
        }
        (Some(ca), true) => {
            let own = own.as_ref().map(|(cert, key)| (&**cert, &**key));
            let files = ClientFiles::load(&base.join(ca), own);
            files.map(Some).map_err(|error| (span, error.to_string()))
        }
    }
}

fn resolve_user(
    table: &ClusterTable,
    base: &Path,
    is_secure: bool,
) -> Result<Option<EtcdUser>, Mistake> {
    match (&table.user, &table.password_file) {
        (None, None) => Ok(None),
        (Some(user), _) if !is_secure => {
            let message = "a password goes to members that are https://HOST:PORT only: others on \
                           the way would read it";
            Err((user.span(), message.into()))
        }
        (Some(user), Some(file)) => {
            let password = read_secret(&base.join(file.get_ref()));
            let password = password.map_err(|error| (file.span(), error.to_string()))?;
            Ok(Some(EtcdUser { name: user.get_ref().clone(), password }))
        }
        (Some(user), None) => Err((user.span(), "`user` needs a `password-file`".into())),
        (None, Some(file)) => Err((file.span(), "`password-file` needs a `user`".into())),
    }
}

/// The name of this machine.
fn machine_name() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname");
    told.map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// The volume that a device is a part of.
pub(super) fn resolve_volume(volume: Option<&Spanned<String>>) -> Result<Option<String>, Mistake> {
    let Some(volume) = volume else { return Ok(None) };
    match wrong_name(volume.get_ref()) {
        Some(wrong) => Err((volume.span(), wrong.to_owned())),
        None => Ok(Some(volume.get_ref().clone())),
    }
}
