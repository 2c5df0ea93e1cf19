//! A changed configuration, applied while the daemon runs: all of it, or nothing.

mod exports;
mod policies;

use crate::api::{Action, Change, PaceChange, WindowChange};
use crate::change::{self, Refusal};
use crate::config::{DaemonConfig, DeviceConfig, ExportConfig, MountConfig};
use crate::daemon::Daemon;
use crate::device::Device;
use crate::exporting::{ExportError, Undo};
use crate::exports::Renewal;
use crate::groups::{GroupError, OtherGroups};
use crate::opening::name_exports;
use crate::rules::Rule;
use crate::start_error::StartError;
use exports::Comings;
use iopace_core::engine::Control;
use iopace_core::limits::PAUSE_TARGET_DEFAULT;
use iopace_core::sched::{self, AUTO, Algorithm, Params};
use iopace_core::time::Nanos;
use iopace_core::{pace, window};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a changed configuration was not applied; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It says what only a new daemon can do.
    #[error("a restart is needed for: {}", .0.join(", "))]
    Fixed(Vec<String>),
    /// A scheduler, or a policy of stage pace or window.
    #[error("device '{device}': {refusal}")]
    Device {
        /// The device.
        device: String,
        /// Why it was refused.
        refusal: Refusal,
    },
    /// A group or its settings.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Certificates that were renewed and cannot be used.
    #[error(transparent)]
    Certificates(StartError),
    /// An export that cannot be added or removed, or a device that cannot be opened or closed.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A device that is to be closed has an export that was added by command.
    #[error(
        "device '{device}' is to be closed, and export '{export}' is of it, which is not in the \
         file: remove that first ('iopace export remove')"
    )]
    Exported {
        /// The device.
        device: String,
        /// The export.
        export: String,
    },
}

impl Daemon {
    /// Has what `new` says hold, where `old` was configured before: groups, rules of mounts,
    /// exports and their devices, and what devices are told. Says what has changed. Policies that
    /// `new` names are loaded already; those that it names no more go when no device has them.
    ///
    /// # Errors
    /// See [`ReloadError`].
    pub fn reload(
        &self,
        old: &DaemonConfig,
        new: &DaemonConfig,
    ) -> Result<Vec<String>, ReloadError> {
        let (old, new) = (&with_exports(old), &with_exports(new));
        let fixed = fixed(old, new);
        if !fixed.is_empty() {
            return Err(ReloadError::Fixed(fixed));
        }
        let renewals = self.renewals().map_err(ReloadError::Certificates)?;
        let _alone = self.alone();
        let comings = Comings::of(self, old, new)?;
        let mut undo = Undo::new(self);
        let closed = comings.prepare(self, &mut undo)?;
        let mut changed = Vec::new();
        let mut before = Vec::new();
        for (old, new) in both_devices(old, new) {
            let Some(device) = self.device(&new.name).filter(|_| is_told_other(old, new)) else {
                continue;
            };
            before.push((Arc::clone(&device), Standing::of(&*device)));
            if let Err(refusal) = tell(&device, old, new) {
                take_back(&before);
                return Err(ReloadError::Device { device: new.name.clone(), refusal });
            }
            changed.push(format!("device '{}'", new.name));
        }
        let mounts = old.mounts.iter().zip(&new.mounts);
        let ruled = mounts.filter(|(old, new)| old.rules != new.rules).map(|(_, new)| new);
        let ruled: Vec<&MountConfig> = ruled.collect();
        let mut moved: Vec<(&str, &str)> = moved(old, new).collect();
        // One that was removed by command stays so.
        moved.retain(|(name, _)| self.export_table().find(name).is_some());
        let mut other = OtherGroups { exports: moved.clone(), ..other_groups(old, new, &ruled) };
        other.ruled.extend(comings.groups());
        if let Err(error) = self.groups().reload(&other) {
            take_back(&before);
            return Err(error.into());
        }
        undo.keep();
        changed.extend(comings.finish(self, closed, &new.exports));
        changed.extend(groups_changed(old, new));
        changed.extend(moved.iter().map(|(name, _)| format!("group of export '{name}'")));
        for mount in ruled {
            let device = &*mount.device.name;
            // Its groups are there: only if all of them are removed just now it may be refused.
            match self.mounts().rule(device, mount.rules.clone()) {
                Ok(()) => changed.push(format!("rules of mount '{device}'")),
                Err(error) => {
                    tracing::error!(%error, "rules of mount '{device}' stay as they were");
                }
            }
        }
        changed.extend(renewals.into_iter().map(renewed));
        changed.extend(self.retire(old, new));
        // Who paid as one of them may pay as another by now.
        self.groups().remove_gone(&old.groups, &new.groups);
        Ok(changed)
    }
}

/// A configuration with the exports that it has where it names none.
fn with_exports(config: &DaemonConfig) -> DaemonConfig {
    let mut config = config.clone();
    name_exports(&mut config);
    config
}

/// Certificates that were read hold from now on.
fn renewed(renew: Renewal) -> String {
    renew();
    "certificates are read again".into()
}

/// Exports that move, each to a group.
fn moved<'a>(
    old: &'a DaemonConfig,
    new: &'a DaemonConfig,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let before = |new: &&ExportConfig| old.exports.iter().find(|old| old.name == new.name);
    let is_moved = move |new: &&ExportConfig| before(new).is_some_and(|old| old.group != new.group);
    new.exports.iter().filter(is_moved).map(|new| (&*new.name, &*new.group))
}

fn other_groups<'a>(
    old: &'a DaemonConfig,
    new: &'a DaemonConfig,
    ruled: &[&'a MountConfig],
) -> OtherGroups<'a> {
    let rules = ruled.iter().map(|mount| &mount.rules);
    let ruled = rules
        .flat_map(|rules| rules.all().iter().map(Rule::group).chain([rules.default_group()]))
        .collect();
    // What was set by hand for a group that the file names stays if the file says the same of all.
    let (was, is): (&[_], &[_]) = match old.groups == new.groups {
        true => (&[], &[]),
        false => (&old.groups, &new.groups),
    };
    OtherGroups { old: was, new: is, exports: Vec::new(), ruled }
}

/// How a device stands, as far as a configuration changes it.
struct Standing {
    /// The scheduler, if one is inserted.
    scheduler: Option<(&'static Algorithm, BTreeMap<String, u64>)>,
    pace: &'static pace::PacePolicy,
    pause_target: Option<Nanos>,
    window: &'static window::WindowPolicy,
    depth: u32,
}

impl Standing {
    fn of(device: &dyn Device) -> Standing {
        let status = device.status().engine;
        let params = status.params.iter();
        let params = params.map(|(spec, value)| (spec.name.to_owned(), value)).collect();
        Standing {
            scheduler: status.inserted.then_some((status.algorithm, params)),
            pace: status.pace,
            pause_target: status.pause_target,
            window: status.window,
            depth: status.window_depth_set,
        }
    }

    /// Has the device stand so again, by no more changes than that takes.
    fn restore(&self, device: &dyn Device) -> Result<(), String> {
        let now = Standing::of(device);
        let named = |one: &Standing| {
            one.scheduler.as_ref().map(|(algorithm, set)| (algorithm.name, set.clone()))
        };
        if named(self) != named(&now) {
            let (action, algorithm, set) = match (named(self), now.scheduler) {
                (None, _) => (Action::Destroy, None, BTreeMap::new()),
                (Some((name, set)), Some(_)) => (Action::Configure, Some(name.into()), set),
                (Some((name, set)), None) => (Action::Insert, Some(name.into()), set),
            };
            let change = Change { action, algorithm, set };
            change::apply(device, &change).map_err(|refusal| refusal.to_string())?;
        }
        let mut controls = Vec::new();
        if self.pace.name != now.pace.name {
            controls.push(Control::Pace(self.pace));
        }
        if let Some(pause) = self.pause_target.filter(|_| self.pause_target != now.pause_target) {
            controls.push(Control::PauseTarget(pause));
        }
        if self.window.name != now.window.name {
            controls.push(Control::WindowPolicy(self.window));
        }
        if self.depth != now.depth {
            controls.push(Control::Window(self.depth));
        }
        controls
            .into_iter()
            .try_for_each(|control| device.control(control))
            .map_err(|error| error.to_string())
    }
}

/// Devices stand as they stood before, whoever had them do so.
fn take_back(before: &[(Arc<dyn Device>, Standing)]) {
    for (device, standing) in before.iter().rev() {
        if let Err(error) = standing.restore(&**device) {
            tracing::error!(error, "device '{}' is not as it was before", device.info().name);
        }
    }
}

/// Groups of which something else is configured.
fn groups_changed(old: &DaemonConfig, new: &DaemonConfig) -> Vec<String> {
    let is_in = |all: &DaemonConfig, path: &str| all.groups.iter().any(|one| one.path == path);
    let of_new = new.groups.iter().filter(|group| !old.groups.contains(group));
    let told = of_new.map(|group| match is_in(old, &group.path) {
        true => format!("group {}", group.path),
        false => format!("group {} (new)", group.path),
    });
    let gone = old.groups.iter().filter(|group| !is_in(new, &group.path));
    told.chain(gone.map(|group| format!("group {} (configured no more)", group.path))).collect()
}

/// Whether a device is to be told something.
fn is_told_other(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    scheduler(old) != scheduler(new)
        || old.pace.name != new.pace.name
        || old.pause_target != new.pause_target
        || old.window.name != new.window.name
        || old.window_depth != new.window_depth
}

/// The scheduler that is named, if it is not the device's own.
fn scheduler(config: &DeviceConfig) -> Option<&(String, Vec<(String, u64)>)> {
    config.scheduler.as_ref().filter(|(name, _)| name != AUTO)
}

/// Tells a device what is configured otherwise than before.
fn tell(device: &Arc<dyn Device>, old: &DeviceConfig, new: &DeviceConfig) -> Result<(), Refusal> {
    if scheduler(old) != scheduler(new) {
        let (algorithm, set) = scheduler(new).cloned().unwrap_or_else(|| (AUTO.into(), Vec::new()));
        // A parameter that is named no more has its default.
        let defaults = sched::find(&algorithm).map(|known| known.defaults());
        let defaults = defaults.iter().flat_map(Params::iter);
        let defaults = defaults.map(|(spec, value)| (spec.name.to_owned(), value));
        let set = defaults.chain(set).collect();
        let inserted = device.status().engine.inserted;
        let action = if inserted { Action::Configure } else { Action::Insert };
        change::apply(&**device, &Change { action, algorithm: Some(algorithm), set })?;
    }
    let policy = (old.pace.name != new.pace.name).then(|| new.pace.name.into());
    let pause = new.pause_target.unwrap_or(Nanos::from_millis(PAUSE_TARGET_DEFAULT));
    let aims_at_it = pace::check_pause_target(new.pace, pause).is_ok();
    let pause_target_ns =
        (old.pause_target != new.pause_target && aims_at_it).then_some(pause.as_nanos());
    if policy.is_some() || pause_target_ns.is_some() {
        change::apply_pace(&**device, &PaceChange { policy, pause_target_ns })?;
    }
    let policy = (old.window.name != new.window.name).then(|| new.window.name.into());
    let depth = new.window_depth.filter(|_| old.window_depth != new.window_depth);
    if policy.is_some() || depth.is_some() {
        change::apply_window(&**device, &WindowChange { policy, depth })?;
    }
    Ok(())
}

/// The differences that take a restart.
fn fixed(old: &DaemonConfig, new: &DaemonConfig) -> Vec<String> {
    let mut fixed = Vec::new();
    let mut differs = |is_other: bool, what: String| {
        if is_other {
            fixed.push(what);
        }
    };
    let mounts = |config: &DaemonConfig| -> Vec<String> {
        config.mounts.iter().map(|mount| mount.device.name.clone()).collect()
    };
    let are_others = mounts(old) != mounts(new);
    differs(are_others, "other mounts".into());
    if !are_others {
        for (old, new) in both_devices(old, new) {
            differs(is_other_device(old, new), format!("what device '{}' is", new.name));
        }
        for (old, new) in old.mounts.iter().zip(&new.mounts) {
            let what = format!("where or how '{}' is mounted", new.device.name);
            differs(is_other_mount(old, new), what);
        }
    }
    let machines = |config: &DaemonConfig| -> Vec<(String, PathBuf)> {
        let all = config.exports.iter();
        all.filter_map(|export| Some((export.name.clone(), export.vhost_user.clone()?))).collect()
    };
    differs(machines(old) != machines(new), "disks of virtual machines (`vhost-user`)".into());
    differs(old.fuse != new.fuse, "`fuse`".into());
    differs(
        old.listen != new.listen || old.socket_access != new.socket_access,
        "sockets (`socket`, `socket-mode`, `socket-group`, `listen`)".into(),
    );
    differs(old.tls != new.tls, "`tls`, `tls-...` and `tcp-without-tls`".into());
    differs(old.client_rules != new.client_rules, "rules for NBD clients ([[rule]])".into());
    differs(old.cluster != new.cluster, "the part in a cluster ([cluster])".into());
    differs(old.io_engine != new.io_engine, "`io-engine`".into());
    differs(old.connections_max != new.connections_max, "`connections`".into());
    differs(old.memory_max != new.memory_max, "`memory`".into());
    fixed
}

/// The devices that both have, by name.
fn both_devices<'a>(
    old: &'a DaemonConfig,
    new: &'a DaemonConfig,
) -> impl Iterator<Item = (&'a DeviceConfig, &'a DeviceConfig)> {
    let same = |new: &&DeviceConfig| old.all_devices().find(|old| old.name == new.name);
    new.all_devices().filter_map(move |new| Some((same(&new)?, new)))
}

fn is_other_device(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    old.backend != new.backend
        || (old.read_only, old.raw, old.direct) != (new.read_only, new.raw, new.direct)
        || old.nr_requests != new.nr_requests
        || old.nr_group_requests != new.nr_group_requests
        || old.dirty_limit != new.dirty_limit
        || old.dirty_background != new.dirty_background
        || old.recommend != new.recommend
        || old.volume != new.volume
        // The depth that it had by itself is not known any more.
        || (old.window_depth.is_some() && new.window_depth.is_none())
}

fn is_other_mount(old: &MountConfig, new: &MountConfig) -> bool {
    old.directory != new.directory
        || old.mountpoint != new.mountpoint
        || old.allow_other != new.allow_other
        || old.flags != new.flags
        || old.in_use != new.in_use
}
