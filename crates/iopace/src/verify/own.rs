//! iopace itself: a daemon of our own in this process, with a promise of each kind, which is asked
//! and driven over its sockets like any other.

use super::outcome::Outcome;
use super::target::{Target, Way, failed};
use super::{Options, Verify};
use crate::cli::VerifyArgs;
use crate::output::Failure;
use iopace_core::units::Bytes;
use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig, GroupConfig, Listen};
use iopace_daemon::control::{Client, Server};
use iopace_daemon::daemon::Daemon;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;

/// The disk whose time is shared: slow enough that any machine keeps it busy.
const SHARED_MODEL: &str = "hdd-sata-250g-ncq";

/// Size of the disks: more than what is read twice in the time, less than memory.
const SIZE: Bytes = Bytes::from_mib(256);

/// A group: path, file, line behind the device, and the block for it.
type Promise = (&'static str, &'static str, &'static str, Option<u32>);

/// Limits, each driven with its block. So many requests a second that windows of 100 ms have some,
/// and not so many that a processor is what is measured.
const LIMITS: &[Promise] = &[
    ("/limits/512", "io.max", "rbps=1M wbps=1M", Some(512)),
    ("/limits/4k", "io.max", "rbps=8M wbps=8M", Some(4 << 10)),
    ("/limits/64k", "io.max", "rbps=16M wbps=16M", Some(64 << 10)),
    ("/limits/1m", "io.max", "rbps=64M wbps=64M", Some(1 << 20)),
    ("/limits/requests", "io.max", "riops=1000 wiops=1000", Some(4 << 10)),
    ("/limits/bps", "io.max", "bps=8M", Some(16 << 10)),
    ("/limits/iops", "io.max", "iops=1000", Some(4 << 10)),
];

/// Limits of reads and writes together once more, around the page cache: there they are met at one
/// place, and with it at two.
const TOTALS: &[Promise] = &[
    ("/direct/bps", "io.max", "bps=8M", Some(16 << 10)),
    ("/direct/iops", "io.max", "iops=1000", Some(4 << 10)),
];

/// What counts beside others.
const SHARES: &[Promise] = &[
    ("/shares/weight", "io.weight", "300", None),
    ("/shares/guarantee", "io.min", "riops=40", None),
    ("/shares/first", "io.ioprio_class", "RT", None),
    ("/shares/last", "io.ioprio_class", "IDLE", None),
    ("/shares/latency", "io.latency", "target=60ms", None),
];

/// The devices with the limits, with those of both directions, and with the shares.
const NAMES: [&str; 3] = ["disk", "memory", "slow"];

/// A model that takes no time, in memory.
const TOTALS_MODEL: &str = "null";

/// Tests iopace on this machine.
///
/// # Errors
/// The daemon cannot be started, a request failed, or a signal came.
pub fn run(verify: &Verify<'_>, args: &VerifyArgs) -> Result<Vec<Outcome>, Failure> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("iopace-verify-");
    let folder = match &args.dir {
        Some(dir) => folder.tempdir_in(dir),
        None => folder.tempdir(),
    };
    let folder =
        folder.map_err(|error| failed(format!("a directory for it cannot be made: {error}")))?;
    let devices = devices(folder.path(), args.emulate.as_deref())?;
    // With --emulate there is one for all.
    let names = NAMES.map(|name| if args.emulate.is_some() { NAMES[0] } else { name });
    let mut all = Vec::new();
    for (promises, device) in [LIMITS, TOTALS, SHARES].into_iter().zip(names) {
        all.extend(promises.iter().map(|promise| (*promise, device)));
    }
    let group = |((path, file, line, _), device): &(Promise, &str)| GroupConfig {
        path: (*path).to_owned(),
        files: vec![((*file).to_owned(), format!("{device} {line}"))],
    };
    let socket = folder.path().join("nbd");
    let config = DaemonConfig {
        devices,
        groups: all.iter().map(group).collect(),
        listen: vec![Listen::Unix(socket.clone())],
        ..DaemonConfig::default()
    };
    let running = Running::start(config, &folder.path().join("ctl"))?;
    let mut outcomes = Vec::new();
    for ((path, _, _, block), device) in &all {
        let report = running.client.device(device).map_err(failed)?;
        let way = Way::Nbd {
            socket: socket.clone(),
            export: (*device).to_owned(),
            scratch: Some((*device).to_owned()),
        };
        let (client, group) = (running.client.clone(), (*path).to_owned());
        let target = Target { client, group, device: report, way };
        let blocks = match (&*verify.options.blocks, block) {
            ([], block) => block.iter().copied().collect(),
            (asked, _) => asked.to_vec(),
        };
        let options = Options { blocks, ..verify.options.clone() };
        outcomes.extend(Verify { options: &options, stop: verify.stop }.group(&target)?);
    }
    Ok(outcomes)
}

/// A scratch file and two emulated disks, or one emulated disk for all.
fn devices(folder: &Path, emulate: Option<&str>) -> Result<Vec<DeviceConfig>, Failure> {
    let fair = Some(("fair".to_owned(), Vec::new()));
    let emulated = |name: &str, model: &str| {
        let backend = Backend::Emulated {
            model: model.to_owned(),
            store: None,
            size: Some(SIZE),
            cache: None,
        };
        DeviceConfig { direct: true, scheduler: fair.clone(), ..DeviceConfig::new(name, backend) }
    };
    if let Some(model) = emulate {
        return Ok(vec![emulated(NAMES[0], model)]);
    }
    let path = folder.join("disk.img");
    let made = File::create(&path).and_then(|file| file.set_len(SIZE.get()));
    made.map_err(|error| {
        failed(format!("the scratch file {} cannot be made: {error}", path.display()))
    })?;
    let file = DeviceConfig::new(NAMES[0], Backend::Path(path));
    Ok(vec![file, emulated(NAMES[1], TOTALS_MODEL), emulated(NAMES[2], SHARED_MODEL)])
}

/// A daemon with its control socket; both end when this goes.
struct Running {
    daemon: Arc<Daemon>,
    client: Client,
    stop: Option<oneshot::Sender<()>>,
    control: Option<JoinHandle<()>>,
}

impl Running {
    fn start(config: DaemonConfig, control: &Path) -> Result<Running, Failure> {
        let server = Server::bind(control).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(format!("no event loop: {error}")))?;
        let daemon = Daemon::start(config).map_err(failed)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let subject = Arc::clone(&daemon);
        let serve = move || {
            let end = async { drop(stopped.await) };
            // Whoever asks hears that nobody answers.
            let _ = runtime.block_on(server.run(subject, end));
        };
        let control_thread = thread::Builder::new().name("control".into()).spawn(serve);
        let control_thread = control_thread.map_err(|error| {
            daemon.shutdown();
            failed(format!("no thread for the control socket: {error}"))
        })?;
        let (client, stop) = (Client::new(control), Some(stop));
        Ok(Running { daemon, client, stop, control: Some(control_thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
        self.daemon.shutdown();
    }
}
