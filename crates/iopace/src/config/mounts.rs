//! The `[[mount]]` tables: a directory, where it is mounted, and the words of its device.

use super::device::resolve_device;
use super::rules::{self, RuleTable};
use super::{DeviceTable, Mistake};
use iopace_daemon::CgroupLimits;
use iopace_daemon::config::{Backend, DeviceConfig, InUse, MountConfig};
use iopace_groups::tree::Tree;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MountTable {
    dir: PathBuf,
    mountpoint: Option<PathBuf>,
    allow_other: Option<bool>,
    #[serde(default)]
    rule: Vec<Spanned<RuleTable>>,
    group: Option<Spanned<String>>,
    cgroup_limits: Option<Spanned<String>>,
    name: Option<Spanned<String>>,
    emulate: Option<Spanned<String>>,
    cache: Option<Spanned<String>>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    while_in_use: bool,
    #[serde(default)]
    while_written: bool,
    wait: Option<u64>,
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
    volume: Option<Spanned<String>>,
}

impl MountTable {
    pub(super) fn sched_mut(&mut self) -> &mut Option<Spanned<String>> {
        &mut self.sched
    }

    /// The volume of several hosts that it is a part of.
    pub(super) fn volume(&self) -> Option<&Spanned<String>> {
        self.volume.as_ref()
    }

    fn check_cache(&self) -> Result<(), Mistake> {
        let (Some(cache), None) = (&self.cache, &self.emulate) else { return Ok(()) };
        let message = "`cache` is for modelled disks: add a model as `emulate`, or leave this out";
        Err((cache.span(), message.into()))
    }

    fn in_use(&self) -> InUse {
        let wait = self.wait.map(Duration::from_secs);
        InUse { while_in_use: self.while_in_use, while_written: self.while_written, wait }
    }
}

/// The rules of a mount and its default group, as they are written, and whether limits of cgroups
/// count.
pub(super) type Payers = (Vec<Spanned<RuleTable>>, Option<Spanned<String>>, CgroupLimits);

fn cgroup_limits(word: Option<Spanned<String>>) -> Result<CgroupLimits, Mistake> {
    let Some(word) = word else { return Ok(CgroupLimits::default()) };
    let known = CgroupLimits::ALL.iter().find(|(known, _)| known == word.get_ref());
    let message = || "`cgroup-limits` is \"follow\" (the default) or \"ignore\"".into();
    known.map(|(_, limits)| *limits).ok_or_else(|| (word.span(), message()))
}

pub(super) fn resolve(
    tables: Vec<Spanned<MountTable>>,
    devices: &[DeviceConfig],
    base: &Path,
) -> Result<(Vec<MountConfig>, Vec<Payers>), Mistake> {
    let (mut mounts, mut payers): (Vec<MountConfig>, Vec<Payers>) = (Vec::new(), Vec::new());
    for table in tables {
        let span = table.span();
        let table = table.into_inner();
        table.check_cache()?;
        let directory = base.join(&table.dir);
        let mut mount = MountConfig::new(&directory);
        mount.mountpoint = table.mountpoint.as_ref().map(|path| base.join(path));
        mount.allow_other = table.allow_other;
        mount.in_use = table.in_use();
        payers.push((table.rule, table.group, cgroup_limits(table.cgroup_limits)?));
        // The name is the directory's as it stands: "data.old" is not "data".
        let named = table.name.is_some();
        let default = mount.device.name;
        let device = DeviceTable {
            name: table.name,
            file: Some(directory.clone()),
            emulate: table.emulate,
            cache: table.cache,
            read_only: table.read_only,
            pace: table.pace,
            pause_target: table.pause_target,
            window_policy: table.window_policy,
            dirty_limit: table.dirty_limit,
            dirty_background: table.dirty_background,
            sched: table.sched,
            set: table.set,
            nr_requests: table.nr_requests,
            nr_group_requests: table.nr_group_requests,
            window: table.window,
            volume: table.volume,
            ..DeviceTable::default()
        };
        mount.device = resolve_device(device, span.clone(), base)?;
        if !named {
            mount.device.name = default;
        }
        mount.device.backend = match mount.device.backend {
            Backend::Emulated { model, cache, .. } => {
                Backend::Directory { path: directory, model: Some(model), cache }
            }
            _ => Backend::Directory { path: directory, model: None, cache: None },
        };
        let name = &mount.device.name;
        let others = devices.iter().chain(mounts.iter().map(|mount| &mount.device));
        if others.map(|other| &other.name).any(|other| other == name) {
            let text = format!("two devices are named '{name}': give one of them another `name`");
            return Err((span, text));
        }
        mounts.push(mount);
    }
    Ok((mounts, payers))
}

/// Who pays for each mount, now that the groups are known.
pub(super) fn resolve_payers(
    mounts: &mut [MountConfig],
    payers: Vec<Payers>,
    tree: &Tree,
) -> Result<(), Mistake> {
    for (mount, (table, group, limits)) in mounts.iter_mut().zip(payers) {
        mount.rules = rules::resolve(table, group, tree)?.with_cgroup_limits(limits);
    }
    Ok(())
}
