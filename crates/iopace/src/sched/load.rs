//! `iopace sched load` and `unload`: policies, sent to a daemon as the bytes of their files.

use crate::cli::{DaemonArgs, LoadArgs, UnloadArgs};
use crate::configuration::Saver;
use crate::output::{Failure, Format, print, print_json};
use crate::paths::controls;
use crate::running::{Sought, ask_all, daemon};
use iopace_daemon::api::{DeviceReport, FailedReport, LoadedPolicy, SchedulerSpec};
use iopace_daemon::control::{Client, ClientError};
use iopace_daemon::loadable;
use serde::Serialize;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// So often is looked whether a new build has failed: in all for 0.2 s, in which a busy device has
/// had some requests of any disk, and nobody minds the wait.
const LOOKS_COUNT: u32 = 10;

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The file of a policy, read with the rights of whoever asks.
#[derive(Debug)]
pub struct PolicyModule {
    path: String,
    bytes: Vec<u8>,
}

impl PolicyModule {
    /// The file that stands where a scheduler is named; none if that is a name.
    pub fn named(word: &str) -> Option<Result<PolicyModule, Failure>> {
        loadable::is_file(word).then(|| PolicyModule::read(Path::new(word)))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no plain file, or too large for a policy.
    pub fn read(path: &Path) -> Result<PolicyModule, Failure> {
        let bytes = loadable::read(path).map_err(Failure::new)?;
        let absolute = std::path::absolute(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let path = absolute.into_os_string().into_string().map_err(|path| {
            Failure::new(format!("{}: the path is no UTF-8", path.to_string_lossy()))
        })?;
        Ok(PolicyModule { path, bytes })
    }

    /// Has a daemon load it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn load(self, client: &Client) -> Result<LoadedPolicy, ClientError> {
        client.load_policy(&self.path, self.bytes)
    }

    /// Has a daemon load it in the place of the policy of its name.
    ///
    /// # Errors
    /// See [`ClientError`].
    fn replace(self, client: &Client) -> Result<LoadedPolicy, ClientError> {
        client.replace_policy(&self.path, self.bytes)
    }
}

/// Carries out `iopace sched load`.
///
/// # Errors
/// A file that cannot be read, no daemon, or a refusal, with what would be right; or the policy is
/// loaded and has failed on a device.
pub fn load(args: &LoadArgs) -> Result<(), Failure> {
    let LoadArgs { file, replace, daemon: of, keep } = args;
    let module = PolicyModule::read(file)?;
    let client = daemon(of.control.as_deref(), Sought::default())?;
    let saver = Saver::open(&client, keep.save)?;
    let loaded = if *replace { module.replace(&client) } else { module.load(&client) };
    let loaded = loaded.map_err(Failure::new)?;
    if let Some(saver) = saver {
        saver.save(|document| match replace {
            true => document.replace_policy(&loaded),
            false => document.add_policy(&loaded),
        })?;
    }
    let devices = match replace {
        true => devices_after(&client, &loaded.name),
        false => client.devices().unwrap_or_default(),
    };
    done(of, &loaded, || {
        let LoadedPolicy { name, summary, .. } = &loaded;
        let next = next(&devices, name);
        format!("{name}: {summary}\n  loaded: {}\n{next}", loaded.words())
    })?;
    match failures(&devices, &loaded.name).next().filter(|_| *replace) {
        None => Ok(()),
        Some((device, failed)) => Err(Failure::new(format!(
            "policy '{}' is loaded and failed on device '{}', where fifo stands in for it: {}; \
             mend it and load it again with --replace, or take it out ('iopace sched destroy {}')",
            loaded.name, device.name, failed.text, device.name
        ))),
    }
}

/// The devices a moment after a new build came to them: time for the first requests of busy ones.
fn devices_after(client: &Client, policy: &str) -> Vec<DeviceReport> {
    for _ in 0..LOOKS_COUNT {
        let devices = client.devices().unwrap_or_default();
        let has_it = |device: &DeviceReport| device.scheduler.algorithm == policy;
        if failures(&devices, policy).next().is_some() || !devices.iter().any(has_it) {
            return devices;
        }
        // SLEEP: no answer tells when the first request has come.
        thread::sleep(LOOK_EVERY);
    }
    client.devices().unwrap_or_default()
}

/// The devices where fifo stands in for a policy that failed.
fn failures<'a>(
    devices: &'a [DeviceReport],
    policy: &str,
) -> impl Iterator<Item = (&'a DeviceReport, &'a FailedReport)> {
    devices.iter().filter_map(move |device| {
        let failed = device.scheduler.failed.as_ref();
        failed.filter(|failed| failed.name == policy).map(|failed| (device, failed))
    })
}

/// The devices that have a policy, or where it failed, or how one gets it.
fn next(devices: &[DeviceReport], policy: &str) -> String {
    let failed: Vec<&str> = failures(devices, policy).map(|(device, _)| &*device.name).collect();
    let concerned = devices
        .iter()
        .filter(|device| device.scheduler.algorithm == policy || failed.contains(&&*device.name));
    let lines: String = concerned.map(super::show::in_force).collect();
    match lines.is_empty() {
        true => format!("next: iopace sched insert -a {policy}\n"),
        false => lines,
    }
}

/// Carries out `iopace sched unload`.
///
/// # Errors
/// No daemon, no such policy, or a device that has it.
pub fn unload(args: &UnloadArgs) -> Result<(), Failure> {
    let UnloadArgs { name, daemon: of, keep } = args;
    let client = daemon(of.control.as_deref(), Sought::default())?;
    let saver = Saver::open(&client, keep.save)?;
    if let Some(saver) = &saver {
        // A device of the file may name it.
        saver.check(|document| document.remove_policy(name))?;
    }
    let unloaded = client.unload_policy(name).map_err(Failure::new)?;
    if let Some(saver) = saver {
        saver.save(|document| document.remove_policy(name))?;
    }
    done(of, &unloaded, || format!("{name}: unloaded\n"))
}

/// The schedulers of running daemons that are not among these: policies that were loaded there. A
/// daemon that does not answer has none.
pub fn elsewhere(known: &[SchedulerSpec]) -> Vec<SchedulerSpec> {
    let mut found: Vec<SchedulerSpec> = Vec::new();
    let asked = ask_all(&controls(None), |path| Client::new(path).schedulers());
    for spec in asked.into_iter().flatten().flatten() {
        let is_new = |other: &SchedulerSpec| other.name != spec.name;
        if spec.loaded.is_some() && known.iter().chain(&found).all(is_new) {
            found.push(spec);
        }
    }
    found
}

fn done(
    daemon: &DaemonArgs,
    result: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match daemon.format.format {
        Format::Json => print_json(result),
        Format::Table => print(&text()),
    }
}
