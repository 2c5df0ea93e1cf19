//! The exports and devices of a changed configuration: which come, which go.
//!
//! What was added or removed by command may be what the file says by now: then there is nothing to
//! do. What was added by command and is in neither file stays.

use super::ReloadError;
use crate::config::{Backend, DaemonConfig, DeviceConfig, ExportConfig};
use crate::daemon::Daemon;
use crate::device::Device;
use crate::exporting::{ExportError, Undo};

/// What is to come and to go.
#[derive(Default)]
pub(super) struct Comings<'a> {
    /// Devices to be opened.
    pub(super) devices: Vec<&'a DeviceConfig>,
    /// Exports to be added.
    exports: Vec<&'a ExportConfig>,
    /// Exports to be removed, by name.
    gone_exports: Vec<&'a str>,
    /// Devices to be closed, by name.
    gone_devices: Vec<&'a str>,
}

/// The exports that are closed for newcomers, by number.
pub(super) struct ClosedExports(Vec<usize>);

impl<'a> Comings<'a> {
    /// What differs, and is not so already.
    ///
    /// # Errors
    /// A name is taken by something else.
    pub(super) fn of(
        daemon: &Daemon,
        old: &'a DaemonConfig,
        new: &'a DaemonConfig,
    ) -> Result<Comings<'a>, ExportError> {
        let mut all = Comings::default();
        for export in &new.exports {
            let was = old.exports.iter().find(|known| known.name == export.name);
            let is_other = was.is_some_and(|was| !is_same(was, export));
            match daemon.export_table().find(&export.name) {
                Some(live) if is_same(&live.config, export) => {}
                Some(_) if is_other => {
                    all.gone_exports.push(&export.name);
                    all.exports.push(export);
                }
                // Set by hand otherwise, and the file says what it said.
                _ if was.is_some() && !is_other => {}
                Some(_) => return Err(ExportError::Exists(export.name.clone())),
                None => all.exports.push(export),
            }
        }
        for export in &old.exports {
            let stays = new.exports.iter().any(|one| one.name == export.name);
            if !stays && daemon.export_table().find(&export.name).is_some() {
                all.gone_exports.push(&export.name);
            }
        }
        for device in &new.devices {
            let was = old.devices.iter().any(|known| known.name == device.name);
            let is_needed = || all.exports.iter().any(|export| export.device == device.name);
            match daemon.device(&device.name) {
                // Closed by command, and it stays so as long as nothing of the file needs it.
                None if was && !is_needed() => {}
                None => all.devices.push(device),
                Some(open) if was || is_of(&*open, device) => {}
                Some(_) => return Err(ExportError::DeviceExists(device.name.clone())),
            }
        }
        for device in &old.devices {
            let stays = new.devices.iter().any(|one| one.name == device.name);
            if !stays && daemon.device(&device.name).is_some() {
                all.gone_devices.push(&device.name);
            }
        }
        Ok(all)
    }

    /// Groups that pay for exports which come.
    pub(super) fn groups(&self) -> impl Iterator<Item = &'a str> {
        self.exports.iter().map(|export| &*export.group)
    }

    /// All that can fail: opens what comes, closes what goes for newcomers, and makes it durable.
    pub(super) fn prepare(
        &self,
        daemon: &Daemon,
        undo: &mut Undo<'_>,
    ) -> Result<ClosedExports, ReloadError> {
        let mut closed = Vec::new();
        for name in &self.gone_exports {
            closed.push(undo.close(name, false)?.number);
        }
        for export in &self.exports {
            if !self.gone_exports.contains(&&*export.name) {
                daemon.check_new(export)?;
            }
            if export.vhost_user.is_some() {
                let what = format!("export '{}', the disk of a virtual machine", export.name);
                return Err(ReloadError::Fixed(vec![what]));
            }
        }
        for name in &self.gone_devices {
            let all = daemon.export_table().all();
            let mut others = all.iter().filter(|one| !closed.contains(&one.number));
            if let Some(other) = others.find(|one| one.config.device == *name) {
                let (device, export) = ((*name).to_owned(), other.config.name.clone());
                return Err(ReloadError::Exported { device, export });
            }
            if let Some(device) = daemon.device(name) {
                daemon.make_durable(&*device)?;
            }
        }
        for device in &self.devices {
            undo.open(device)?;
        }
        Ok(ClosedExports(closed))
    }

    /// Does what can fail no more, and has the exports in the order of `all`, as clients that name
    /// none get the first. Says what has changed.
    pub(super) fn finish(
        &self,
        daemon: &Daemon,
        ClosedExports(closed): ClosedExports,
        all: &[ExportConfig],
    ) -> Vec<String> {
        let mut changed = Vec::new();
        closed.into_iter().for_each(|number| daemon.withdraw(number));
        changed.extend(self.devices.iter().map(|one| format!("device '{}' (new)", one.name)));
        for export in &self.exports {
            let name = &export.name;
            match daemon.publish((*export).clone()) {
                Ok(_) => changed.push(format!("export '{name}' (new)")),
                // Its group and its device are there: only if they are removed just now.
                Err(error) => tracing::error!(%error, "export '{name}' is not added"),
            }
        }
        daemon.export_table().arrange(all.iter().map(|export| &*export.name));
        let is_new = |name: &&&str| self.exports.iter().any(|one| one.name == ***name);
        let gone = self.gone_exports.iter().filter(|name| !is_new(name));
        changed.extend(gone.map(|name| format!("export '{name}' (removed)")));
        for name in &self.gone_devices {
            daemon.let_go(name);
            changed.push(format!("device '{name}' (closed)"));
        }
        changed
    }
}

/// Whether two exports are the same to clients; the group of one may be another.
fn is_same(one: &ExportConfig, other: &ExportConfig) -> bool {
    *one == ExportConfig { group: one.group.clone(), ..other.clone() }
}

/// Whether a device is open that a file describes, as far as can be seen.
fn is_of(device: &dyn Device, config: &DeviceConfig) -> bool {
    let info = device.info();
    let is_path =
        matches!(&config.backend, Backend::Path(path) if info.path.as_ref() == Some(path));
    is_path && info.model.is_none() && info.read_only == config.read_only
}
