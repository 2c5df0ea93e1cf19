//! A volume that a daemon is put in front of, as something to be served.

use super::{Plan, device, scheduler};
use crate::cli::{DeviceArgs, InsertVolumeArgs, SocketArgs};
use crate::config::{self, Settings};
use crate::output::Failure;
use iopace_daemon::config::Backend;
use iopace_daemon::insertion::{BelowVolume, Inserted};
use std::path::PathBuf;

impl Plan {
    /// The volume below one that is in use, for a ublk device.
    ///
    /// # Errors
    /// What was asked, what is wrong and what would be right.
    pub fn insert(
        args: &InsertVolumeArgs,
        inserted: &Inserted,
        below: &BelowVolume,
    ) -> Result<Plan, Failure> {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or(path.clone());
        let words = DeviceArgs {
            sched: args.sched.clone(),
            set: args.set.clone(),
            nr_requests: args.nr_requests,
            window: args.window,
            window_policy: args.window_policy.clone(),
            // The file system is mounted: whatever it is, it is the disk.
            raw: true,
            // Pages of the volume are in memory once, above.
            direct: true,
            read_only: below.read_only,
            ..DeviceArgs::default()
        };
        let sockets = SocketArgs {
            control: args.control.as_ref().map(absolute),
            no_control: args.no_control,
            ..SocketArgs::default()
        };
        let backend = Backend::Path(below.path.clone());
        let device = device(Plan::volume_name(inserted), backend, &words, scheduler(&words)?)?;
        let settings = Settings { devices: vec![device], ..Settings::default() };
        let plan = Plan::of(settings, &sockets, args.io_engine, args.log_format)?;
        Ok(Plan { has_default_socket: false, keeps_records: true, ..plan })
    }

    /// The same with nothing beside it, to carry out what waits.
    ///
    /// # Errors
    /// The name is none.
    pub fn rescue(inserted: &Inserted, below: &BelowVolume) -> Result<Plan, Failure> {
        let read_only = below.read_only;
        let words = DeviceArgs { direct: true, raw: true, read_only, ..DeviceArgs::default() };
        let backend = Backend::Path(below.path.clone());
        let device = device(Plan::volume_name(inserted), backend, &words, None)?;
        let settings = Settings { devices: vec![device], no_control: true, ..Settings::default() };
        let plan = Plan::of(settings, &SocketArgs::default(), None, None)?;
        Ok(Plan { has_default_socket: false, keeps_records: true, ..plan })
    }

    /// What a volume is called as a device: its own name, unless that is none for a device.
    pub fn volume_name(inserted: &Inserted) -> String {
        let name = &inserted.volume;
        config::valid_name(name).map_or_else(|_| "volume".into(), |()| name.clone())
    }
}
