//! The state of devices, groups and mounts at one moment, or nearly: no lock is held for more than
//! a few groups of one device, and nothing is put into words under one.

use super::super::Controlled;
use crate::api::{MountReport, VolumeState};
use crate::clock;
use crate::device::{Device, DeviceInfo, DeviceStatus};
use crate::groups::Named;
use crate::limits::{
    LIVE_GROUPS_LOOK, LOOK_PAUSE, METRICS_GROUPS_EVERYWHERE_MAX, METRICS_GROUPS_MAX,
    METRICS_STAGE_GROUPS_MAX,
};
use iopace_core::engine::{Engine, GroupWaits, WaitingNow};
use iopace_core::request::GroupId;
use iopace_core::stats::{Histogram, OpCounts, StageHistograms};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use std::collections::BTreeMap;
use std::thread;

/// What is told.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) uptime_s: u64,
    pub(super) connections_count: u64,
    pub(super) memory_bytes: u64,
    pub(super) groups_count: u64,
    pub(super) left_out_count: u64,
    pub(super) devices: Vec<SeenDevice>,
    /// Groups with metrics of their own.
    pub(super) names: Vec<Named>,
    pub(super) groups: Vec<SeenGroup>,
    /// How many events there were, by device and kind.
    pub(super) events: BTreeMap<(String, String), u64>,
    /// Volumes that this host shares with others.
    pub(super) volumes: Vec<VolumeState>,
    /// Mounts, with where they are as text.
    pub(super) mounts: Vec<(String, MountReport)>,
}

/// A device.
#[derive(Debug)]
pub(super) struct SeenDevice {
    pub(super) info: DeviceInfo,
    pub(super) status: DeviceStatus,
    /// What its requests wait for.
    pub(super) waiting: GroupWaits,
}

/// A group on a device.
#[derive(Debug)]
pub(super) struct SeenGroup {
    /// Its place among the names.
    pub(super) name: usize,
    /// The device's place.
    pub(super) device: usize,
    pub(super) counts: OpCounts,
    pub(super) latency: Option<Box<Histogram>>,
    /// None if there are too many groups for that.
    pub(super) by_stage: Option<StageHistograms<4>>,
    pub(super) now_count: u32,
    pub(super) dirty: Bytes,
}

/// Everything, as of now.
pub(super) fn all(subject: &dyn Controlled) -> Gathered {
    let mut names = subject.groups().named();
    let groups_count = names.len();
    let devices = subject.devices();
    names.truncate(METRICS_GROUPS_MAX.min(METRICS_GROUPS_EVERYWHERE_MAX / devices.len().max(1)));
    let mut waiting = WaitingNow::default();
    let mut seen = Vec::with_capacity(devices.len());
    let mut groups = Vec::with_capacity(devices.len() * names.len());
    for (place, on) in devices.iter().enumerate() {
        on.waiting_now(&mut waiting);
        let (info, status) = (on.info().clone(), on.status());
        seen.push(SeenDevice { info, status, waiting: waiting.all() });
        groups_on(&**on, place, &names, &mut groups);
    }
    let mounts = subject.mounts().into_iter();
    Gathered {
        uptime_s: clock::now().since(Instant::ZERO).as_nanos() / 1_000_000_000,
        connections_count: subject.connections_count() as u64,
        memory_bytes: subject.memory_used_bytes(),
        groups_count: groups_count as u64,
        left_out_count: (groups_count - names.len()) as u64,
        devices: seen,
        names,
        groups,
        events: subject.live().events_count(),
        volumes: subject.cluster().map_or_else(Vec::new, |cluster| cluster.state().volumes),
        mounts: mounts
            .map(|report| (report.mountpoint.to_string_lossy().into_owned(), report))
            .collect(),
    }
}

/// The groups that the device knows, in the order of `names`.
fn groups_on(on: &dyn Device, device: usize, names: &[Named], into: &mut Vec<SeenGroup>) {
    for (piece, chunk) in names.chunks(LIVE_GROUPS_LOOK).enumerate() {
        if piece > 0 {
            thread::sleep(LOOK_PAUSE);
        }
        on.look(&mut |engine, _| {
            let places = (piece * LIVE_GROUPS_LOOK..).zip(chunk);
            into.extend(places.filter_map(|(name, named)| see(engine, name, device, named.id)));
        });
    }
}

fn see(engine: &Engine, name: usize, device: usize, id: GroupId) -> Option<SeenGroup> {
    let account = engine.account(id)?;
    let is_shown = id != GroupId::ROOT && name <= METRICS_STAGE_GROUPS_MAX;
    Some(SeenGroup {
        name,
        device,
        counts: account.counts.clone(),
        latency: account.latency.clone(),
        by_stage: is_shown.then(|| account.by_stage.clone()),
        now_count: account.below_count(),
        dirty: engine.dirty(id).group,
    })
}
