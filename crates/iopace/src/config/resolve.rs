//! From the tables of the file to the daemon's own configuration, with every value checked.

use super::{
    DeviceTable, ExportTable, File, Mistake, PortWord, Settings, groups, mounts, policies,
};
use crate::cli::LogFormat;
use crate::output::nearest;
use crate::units::parse_size;
use iopace_core::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN, WINDOW_DEPTH_MAX};
use iopace_core::sched::{self, AUTO, REGISTRY};
use iopace_core::units::Bytes;
use iopace_daemon::config::{Backend, DeviceConfig, ExportConfig, IoEngineChoice};
use iopace_disk::presets::{self, PRESETS};
use iopace_groups::tree::Tree;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Most clients that can be asked for: each costs a thread and two descriptors.
const CONNECTIONS_MAX: usize = 65_536;

/// Least memory for clients: less than two of the largest requests would serve one at a time.
const MEMORY_MIN: Bytes = Bytes::from_mib(64);

pub(super) fn resolve(file: File, base: &Path, end: usize) -> Result<Settings, Mistake> {
    if file.device.is_empty() && file.mount.is_empty() {
        let message = "there is nothing to serve: add a [[device]] table with a `file`, or with a \
                       model as `emulate`, or a [[mount]] table with a `dir`";
        return Err((end..end, message.into()));
    }
    let mut devices: Vec<DeviceConfig> = Vec::new();
    for table in file.device {
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
    let (mut mounts, payers) = mounts::resolve(file.mount, &devices, base)?;
    let all = devices.iter().chain(mounts.iter().map(|mount| &mount.device));
    let (groups, tree) = groups::resolve(file.group, &all.cloned().collect::<Vec<_>>())?;
    mounts::resolve_payers(&mut mounts, payers, &tree)?;
    let exports = file.export.into_iter();
    let exports = exports.map(|table| resolve_export(table.into_inner(), &devices, &tree));
    let exports = exports.collect::<Result<Vec<_>, Mistake>>()?;
    if let (Some(control), true) = (&file.control, file.no_control) {
        return Err((control.span(), "`control` and `no-control` exclude each other".into()));
    }
    let listen = file.listen.iter().map(|address| {
        let message = "an address and a port are needed, as \"127.0.0.1:10809\" or \"[::1]:10809\"";
        address.get_ref().parse().map_err(|_| (address.span(), message.into()))
    });
    let http = file.http.map(resolve_port).transpose()?;
    if let (None, Some(token_file)) = (http, &file.http_token_file) {
        let message = "`http-token-file` is of no use without a port: add `http = 8080`";
        return Err((token_file.span(), message.into()));
    }
    Ok(Settings {
        http,
        http_token_file: file.http_token_file.map(|path| base.join(path.into_inner())),
        devices,
        mounts,
        exports,
        groups,
        fuse: file.fuse.map(|path| base.join(path)),
        socket: file.socket.map(|path| base.join(path)),
        listen: listen.collect::<Result<_, Mistake>>()?,
        allow_remote: file.allow_remote,
        control: file.control.map(|path| base.join(path.into_inner())),
        no_control: file.no_control,
        io_engine: one_of(file.io_engine, &IO_ENGINES)?,
        log_format: one_of(file.log_format, &LOG_FORMATS)?,
        connections_max: bounded(file.connections, 1..=CONNECTIONS_MAX)?,
        memory_max: file.memory.map(resolve_memory).transpose()?,
    })
}

const IO_ENGINES: [(&str, IoEngineChoice); 3] = [
    ("auto", IoEngineChoice::Auto),
    ("uring", IoEngineChoice::Uring),
    ("threads", IoEngineChoice::Threads),
];

const LOG_FORMATS: [(&str, LogFormat); 2] =
    [("human", LogFormat::Human), ("json", LogFormat::Json)];

pub(super) fn resolve_device(
    table: DeviceTable,
    span: Range<usize>,
    base: &Path,
) -> Result<DeviceConfig, Mistake> {
    let file = table.file.as_ref().map(|path| base.join(path));
    let name = match (&table.name, &file, &table.emulate) {
        (Some(name), ..) => checked_name(name)?,
        (None, Some(file), _) => default_name(file),
        (None, None, Some(model)) => model.get_ref().clone(),
        (None, None, None) => {
            let message = "the device has nothing behind it: add a `file`, or a model as `emulate`";
            return Err((span, message.into()));
        }
    };
    let mut device = DeviceConfig::new(name, Backend::Path(PathBuf::new()));
    policies::resolve(&table, &mut device)?;
    let backend = match table.emulate {
        Some(model) => Backend::Emulated {
            model: checked_model(model)?,
            store: file,
            size: table.size.as_ref().map(checked_size).transpose()?,
            cache: table.cache.as_ref().map(checked_size).transpose()?,
        },
        None => {
            if let Some(only) = table.size.or(table.cache) {
                let message = "`size` and `cache` are for emulated disks: add a model as \
                               `emulate`, or leave this out";
                return Err((only.span(), message.into()));
            }
            let message = "the device has nothing behind it: add a `file`, or a model as `emulate`";
            Backend::Path(file.ok_or((span, message.into()))?)
        }
    };
    Ok(DeviceConfig {
        backend,
        read_only: table.read_only,
        direct: table.direct,
        scheduler: resolve_scheduler(table.sched, table.set)?,
        nr_requests: bounded(table.nr_requests, NR_REQUESTS_MIN..=NR_REQUESTS_MAX)?,
        nr_group_requests: bounded(table.nr_group_requests, 1..=NR_REQUESTS_MAX)?,
        window_depth: bounded(table.window, 1..=WINDOW_DEPTH_MAX)?,
        ..device
    })
}

/// A scheduler with its settings by name.
pub type NamedScheduler = (String, Vec<(String, u64)>);

/// Refused of a scheduler that is not named.
pub const AUTO_HAS_NO_SETTINGS: &str = "scheduler 'auto' has no settings: name the one that they \
    are for, see 'iopace sched list'";

fn resolve_scheduler(
    sched: Option<Spanned<String>>,
    set: std::collections::BTreeMap<Spanned<String>, Spanned<u64>>,
) -> Result<Option<NamedScheduler>, Mistake> {
    let Some(name) = sched else {
        return match set.first_key_value() {
            Some((name, _)) => {
                Err((name.span(), "`set` needs a scheduler: name one as `sched`".into()))
            }
            None => Ok(None),
        };
    };
    if name.get_ref() == AUTO {
        return match set.first_key_value() {
            Some((name, _)) => Err((name.span(), AUTO_HAS_NO_SETTINGS.into())),
            None => Ok(None),
        };
    }
    let Some(algorithm) = sched::find(name.get_ref()) else {
        let known = [AUTO].into_iter().chain(REGISTRY.iter().map(|algorithm| algorithm.name));
        return Err((name.span(), unknown("scheduler", name.get_ref(), known)));
    };
    let (mut params, mut settings) = (algorithm.defaults(), Vec::new());
    for (key, value) in set {
        let span = if algorithm.params.iter().any(|spec| spec.name == key.get_ref()) {
            value.span()
        } else {
            key.span()
        };
        params.set(key.get_ref(), *value.get_ref()).map_err(|error| (span, error.to_string()))?;
        settings.push((key.into_inner(), value.into_inner()));
    }
    Ok(Some((name.into_inner(), settings)))
}

fn resolve_export(
    table: ExportTable,
    devices: &[DeviceConfig],
    tree: &Tree,
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
        description: table.description,
        group: group.unwrap_or(defaults.group),
        ..defaults
    })
}

fn resolve_port(word: Spanned<PortWord>) -> Result<SocketAddr, Mistake> {
    let span = word.span();
    let text = match word.into_inner() {
        PortWord::Port(port) => port.to_string(),
        PortWord::Address(address) => address,
    };
    crate::http::parse(&text).map_err(|message| (span, message))
}

fn resolve_memory(memory: Spanned<String>) -> Result<Bytes, Mistake> {
    let span = memory.span();
    let size = checked_size(&memory)?;
    if size < MEMORY_MIN {
        return Err((span, format!("`memory` is at least {MEMORY_MIN}: one request has up to 32")));
    }
    Ok(size)
}

pub(super) fn checked_size(size: &Spanned<String>) -> Result<Bytes, Mistake> {
    parse_size(size.get_ref()).map_err(|message| (size.span(), message))
}

fn checked_model(model: Spanned<String>) -> Result<String, Mistake> {
    if presets::find(model.get_ref()).is_none() && !model.get_ref().ends_with(".toml") {
        let known = PRESETS.iter().map(|preset| preset.name);
        return Err((model.span(), unknown("disk model", model.get_ref(), known)));
    }
    Ok(model.into_inner())
}

fn checked_name(name: &Spanned<String>) -> Result<String, Mistake> {
    valid_name(name.get_ref()).map_err(|message| (name.span(), message))?;
    Ok(name.get_ref().clone())
}

/// Whether a device or export can have this name.
///
/// # Errors
/// What would be right.
pub fn valid_name(name: &str) -> Result<(), String> {
    let legal = |c: char| !c.is_control() && c != '/';
    if name.is_empty() || name.len() > 255 || !name.chars().all(legal) {
        return Err("a name has 1 to 255 bytes, no '/' and no control characters".into());
    }
    Ok(())
}

/// A device's name where none is given: the file's, without its ending.
fn default_name(file: &Path) -> String {
    file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

fn bounded<T: Copy + PartialOrd + std::fmt::Display>(
    value: Option<Spanned<T>>,
    bounds: RangeInclusive<T>,
) -> Result<Option<T>, Mistake> {
    match value {
        Some(value) if !bounds.contains(value.get_ref()) => {
            Err((value.span(), format!("it is {} to {}", bounds.start(), bounds.end())))
        }
        value => Ok(value.map(Spanned::into_inner)),
    }
}

fn one_of<T: Copy>(word: Option<Spanned<String>>, all: &[(&str, T)]) -> Result<Option<T>, Mistake> {
    let Some(word) = word else { return Ok(None) };
    match all.iter().find(|(name, _)| name == word.get_ref()) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            Err((word.span(), format!("it is one of: {}", names.join(", "))))
        }
    }
}

pub(super) fn unknown<'a>(
    what: &str,
    asked: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match nearest(asked, known.clone()) {
        Some(meant) => format!("there is no {what} '{asked}': did you mean '{meant}'?"),
        None => {
            let known: Vec<&str> = known.collect();
            format!("there is no {what} '{asked}'; there are: {}", known.join(", "))
        }
    }
}

/// The devices of `iopace serve FILE...`: names from the files.
pub fn names(files: &[PathBuf]) -> Vec<String> {
    files.iter().map(|file| default_name(file)).collect()
}
