//! From the tables of the file to the daemon's own configuration, with every value checked.

use super::device::resolve_device;
use super::values::{bounded, checked_name, checked_size, one_of, unknown};
use super::{
    DeviceTable, ExportTable, File, Mistake, PortWord, Settings, TlsWords, cluster, groups,
    loadable, mounts, rules,
};
use crate::cli::{LogFormat, PortArgs};
use crate::units;
use iopace_core::units::Bytes;
use iopace_daemon::config::{DeviceConfig, ExportConfig, IoEngineChoice};
use iopace_daemon::tls::TlsMode;
use iopace_groups::tree::Tree;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Most clients that can be asked for: each costs a thread and two descriptors.
const CONNECTIONS_MAX: usize = 65_536;

/// Least memory for clients: less than two of the largest requests would serve one at a time.
const MEMORY_MIN: Bytes = Bytes::from_mib(64);

pub(super) fn resolve(mut file: File, base: &Path, end: usize) -> Result<Settings, Mistake> {
    if file.device.is_empty() && file.mount.is_empty() {
        let message = "there is nothing to serve: add a [[device]] table with a `file`, or with a \
                       model as `emulate`, or a [[mount]] table with a `dir`";
        return Err((end..end, message.into()));
    }
    let policies = loadable::resolve(&mut file, base)?;
    let first_volume = first_volume(&file);
    let devices = resolve_devices(file.device, base)?;
    let (mut mounts, payers) = mounts::resolve(file.mount, &devices, base)?;
    let all = devices.iter().chain(mounts.iter().map(|mount| &mount.device));
    let (groups, tree) = groups::resolve(file.group, &all.cloned().collect::<Vec<_>>())?;
    mounts::resolve_payers(&mut mounts, payers, &tree)?;
    let all = devices.iter().chain(mounts.iter().map(|mount| &mount.device));
    let volumes: Vec<&str> = all.filter_map(|device| device.volume.as_deref()).collect();
    let cluster = cluster::resolve(file.cluster, base, &volumes, first_volume)?;
    let exports = resolve_exports(file.export, &devices, (base, &tree))?;
    if let (Some(control), true) = (&file.control, file.no_control) {
        return Err((control.span(), "`control` and `no-control` exclude each other".into()));
    }
    let listen = file.listen.iter().map(|address| {
        let message = "an address and a port are needed, as \"127.0.0.1:10809\" or \"[::1]:10809\"";
        address.get_ref().parse().map_err(|_| (address.span(), message.into()))
    });
    let metrics = (file.metrics, file.metrics_token_file);
    let ports = resolve_ports((file.http, file.http_token_file), metrics, base)?;
    Ok(Settings {
        policies,
        ports,
        devices,
        mounts,
        exports,
        groups,
        fuse: file.fuse.map(|path| base.join(path)),
        socket: file.socket.map(|path| base.join(path)),
        socket_mode: parsed(file.socket_mode, units::parse_mode)?,
        socket_group: parsed(file.socket_group, units::parse_users)?,
        listen: listen.collect::<Result<_, Mistake>>()?,
        tls: TlsWords {
            mode: one_of(file.tls, &TLS_MODES)?,
            certificates: file.tls_certificates.map(|path| base.join(path)),
            verify_peer: file.tls_verify_peer,
            rules: rules::resolve_clients(file.rule, &tree)?,
            tcp_without_tls: file.tcp_without_tls,
        },
        control: file.control.map(|path| base.join(path.into_inner())),
        no_control: file.no_control,
        cluster,
        io_engine: one_of(file.io_engine, &IO_ENGINES)?,
        log_format: one_of(file.log_format, &LOG_FORMATS)?,
        connections_max: bounded(file.connections, 1..=CONNECTIONS_MAX)?,
        memory_max: file.memory.map(resolve_memory).transpose()?,
    })
}

/// Where the first volume of several hosts is named.
fn first_volume(file: &File) -> Option<Range<usize>> {
    let of_devices = file.device.iter().filter_map(|table| table.get_ref().volume.as_ref());
    let of_mounts = file.mount.iter().filter_map(|table| table.get_ref().volume());
    of_devices.chain(of_mounts).map(Spanned::span).next()
}

/// The devices, each with a name of its own.
fn resolve_devices(
    tables: Vec<Spanned<DeviceTable>>,
    base: &Path,
) -> Result<Vec<DeviceConfig>, Mistake> {
    let mut devices: Vec<DeviceConfig> = Vec::new();
    for table in tables {
        let span = table.span();
        let device = resolve_device(table.into_inner(), span.clone(), base)?;
        if devices.iter().any(|known| known.name == device.name) {
            let name = &device.name;
            return Err((
                span,
                format!("two devices are named '{name}': give one of them another `name`"),
            ));
        }
        devices.push(device);
    }
    Ok(devices)
}

/// The exports, each under a name of its own.
fn resolve_exports(
    tables: Vec<Spanned<ExportTable>>,
    devices: &[DeviceConfig],
    (base, tree): (&Path, &Tree),
) -> Result<Vec<ExportConfig>, Mistake> {
    let mut exports: Vec<ExportConfig> = Vec::new();
    for table in tables {
        let span = table.span();
        let export = resolve_export(table.into_inner(), devices, (base, tree))?;
        if exports.iter().any(|other| other.name == export.name) {
            let name = export.name;
            let message =
                format!("two exports are named '{name}': give one of them another `name`");
            return Err((span, message));
        }
        exports.push(export);
    }
    Ok(exports)
}

const IO_ENGINES: [(&str, IoEngineChoice); 3] = [
    ("auto", IoEngineChoice::Auto),
    ("uring", IoEngineChoice::Uring),
    ("threads", IoEngineChoice::Threads),
];

const TLS_MODES: [(&str, TlsMode); 3] =
    [("off", TlsMode::Off), ("allow", TlsMode::Allow), ("require", TlsMode::Require)];

const LOG_FORMATS: [(&str, LogFormat); 2] =
    [("human", LogFormat::Human), ("json", LogFormat::Json)];

fn resolve_export(
    table: ExportTable,
    devices: &[DeviceConfig],
    (base, tree): (&Path, &Tree),
) -> Result<ExportConfig, Mistake> {
    let device = table.device.get_ref();
    if !devices.iter().any(|known| known.name == *device) {
        let known = devices.iter().map(|device| &*device.name);
        return Err((table.device.span(), unknown("device", device, known)));
    }
    let defaults = ExportConfig::new(checked_name(&table.name)?, table.device.into_inner());
    let group = table.group.map(|group| groups::checked(group, tree)).transpose()?;
    Ok(ExportConfig {
        read_only: table.read_only,
        needs_tls: table.require_tls,
        description: table.description,
        group: group.unwrap_or(defaults.group),
        vhost_user: table.vhost_user.map(|path| base.join(path)),
        ..defaults
    })
}

fn resolve_ports(
    (http, http_token_file): (Option<Spanned<PortWord>>, Option<Spanned<PathBuf>>),
    (metrics, metrics_token_file): (Option<Spanned<String>>, Option<Spanned<PathBuf>>),
    base: &Path,
) -> Result<PortArgs, Mistake> {
    if let (None, Some(token_file)) = (&http, &http_token_file) {
        let message = "`http-token-file` is of no use without a port: add `http = 8080`";
        return Err((token_file.span(), message.into()));
    }
    if let (None, Some(token_file)) = (&metrics, &metrics_token_file) {
        let message = "`metrics-token-file` is of no use without an address: add `metrics = \
                       \"0.0.0.0:9100\"`";
        return Err((token_file.span(), message.into()));
    }
    if let (Some(metrics), None) = (&metrics, &metrics_token_file) {
        return Err((metrics.span(), "the token needs a file: add `metrics-token-file`".into()));
    }
    let joined = |path: Spanned<PathBuf>| base.join(path.into_inner());
    Ok(PortArgs {
        http: http.map(resolve_port).transpose()?,
        http_token_file: http_token_file.map(joined),
        metrics: parsed(metrics, units::parse_address)?,
        metrics_token_file: metrics_token_file.map(joined),
    })
}

fn resolve_port(word: Spanned<PortWord>) -> Result<SocketAddr, Mistake> {
    let span = word.span();
    let text = match word.into_inner() {
        PortWord::Port(port) => port.to_string(),
        PortWord::Address(address) => address,
    };
    crate::address::parse(&text).map_err(|message| (span, message))
}

/// A word, taken as on the command line.
fn parsed<T>(
    word: Option<Spanned<String>>,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Mistake> {
    let Some(word) = word else { return Ok(None) };
    parse(word.get_ref()).map(Some).map_err(|message| (word.span(), message))
}

fn resolve_memory(memory: Spanned<String>) -> Result<Bytes, Mistake> {
    let span = memory.span();
    let size = checked_size(&memory)?;
    if size < MEMORY_MIN {
        return Err((span, format!("`memory` is at least {MEMORY_MIN}: one request has up to 32")));
    }
    Ok(size)
}
