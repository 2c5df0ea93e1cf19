//! A device of the file.

use super::cluster::resolve_volume;
use super::values::{
    bounded, checked_model, checked_name, checked_size, default_name, remote_name, unknown,
};
use super::{DeviceTable, Mistake, policies};
use crate::units;
use iopace_core::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN, WINDOW_DEPTH_MAX};
use iopace_core::sched::{self, AUTO};
use iopace_core::time::Nanos;
use iopace_daemon::config::{Backend, DeviceConfig};
use iopace_daemon::nbd_uri::NbdUri;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

const NOTHING: &str = "the device has nothing behind it: add a `file`, a model as `emulate`, or an \
    export of another server as `nbd`";

pub(super) fn resolve_device(
    table: DeviceTable,
    span: Range<usize>,
    base: &Path,
) -> Result<DeviceConfig, Mistake> {
    let file = table.file.as_ref().map(|path| base.join(path));
    let remote = resolve_remote(&table)?;
    let name = match (&table.name, &remote, &file, &table.emulate) {
        (Some(name), ..) => checked_name(name)?,
        (None, Some((uri, _)), ..) => remote_name(uri),
        (None, None, Some(file), _) => default_name(file),
        (None, None, None, Some(model)) => model.get_ref().clone(),
        (None, None, None, None) => return Err((span, NOTHING.into())),
    };
    let mut device = DeviceConfig::new(name, Backend::Path(PathBuf::new()));
    // Weights hold for all hosts of a volume by a window that knows of the others.
    let shared = iopace_core::window::find("latency").filter(|_| table.volume.is_some());
    device.window = shared.unwrap_or(device.window);
    policies::resolve(&table, &mut device)?;
    let is_remote = remote.is_some();
    let backend = match table.emulate {
        _ if is_remote => {
            let (uri, patience) = remote.expect("it was looked at");
            Backend::Remote { uri, patience }
        }
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
            Backend::Path(file.ok_or((span, NOTHING.into()))?)
        }
    };
    Ok(DeviceConfig {
        backend,
        read_only: table.read_only,
        raw: table.raw,
        // Another server's disk is in no page cache of ours.
        direct: table.direct || is_remote,
        scheduler: resolve_scheduler(table.sched, table.set)?,
        nr_requests: bounded(table.nr_requests, NR_REQUESTS_MIN..=NR_REQUESTS_MAX)?,
        nr_group_requests: bounded(table.nr_group_requests, 1..=NR_REQUESTS_MAX)?,
        volume: resolve_volume(table.volume.as_ref())?,
        window_depth: bounded(table.window, 1..=WINDOW_DEPTH_MAX)?,
        ..device
    })
}

/// The export of another server, and how long requests wait for it.
fn resolve_remote(table: &DeviceTable) -> Result<Option<(NbdUri, Option<Nanos>)>, Mistake> {
    let Some(nbd) = &table.nbd else {
        return match &table.reconnect_patience {
            Some(patience) => {
                let message = "`reconnect-patience` is for exports of other servers: add one as \
                               `nbd`, or leave this out";
                Err((patience.span(), message.into()))
            }
            None => Ok(None),
        };
    };
    let others = table.file.is_some() || table.emulate.is_some();
    if others || table.size.is_some() || table.cache.is_some() || table.raw {
        let message = "`nbd` is the whole disk: leave out `file`, `raw`, `emulate`, `size` and \
                       `cache`, or this";
        return Err((nbd.span(), message.into()));
    }
    let uri = nbd.get_ref().parse().map_err(|message| (nbd.span(), message))?;
    let patience = table.reconnect_patience.as_ref().map(|patience| {
        units::parse_time(patience.get_ref()).map_err(|message| (patience.span(), message))
    });
    Ok(Some((uri, patience.transpose()?)))
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
        let all = sched::all().into_iter().map(|algorithm| algorithm.name);
        let known = [AUTO].into_iter().chain(all);
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
