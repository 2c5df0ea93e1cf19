//! `iopace serve`: from the command line or a configuration file to a running daemon, and to its
//! orderly end.

mod given;
mod plan;
mod reload;
mod signals;

use crate::cli::ServeArgs;
use crate::configuration;
use crate::log;
use crate::output::{Failure, print};
use crate::paths::{CONTROL, CONTROL_ENDING, SocketDir, runtime_dir};
use crate::units;
use iopace_daemon::config::{DaemonConfig, Listen};
use iopace_daemon::control::{self, Controlled, Ports, Server};
use iopace_daemon::daemon::{Daemon, ShutdownReport, StartError};
use iopace_daemon::printable::quoted;
use plan::Control;
pub use plan::Plan;
use reload::Reloader;
use signals::{Received, Signals};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Exit status after a second signal: 128 + SIGINT, as shells have it.
const KILLED: u8 = 130;

/// Where a daemon is controlled and watched.
pub struct Doors {
    control: Option<Server>,
    ports: Ports,
}

impl Doors {
    /// The control socket.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(Server::path)
    }

    /// Where a browser finds the dashboard, and what scrapes the metrics: a line each. The token is
    /// told to a terminal only: what goes anywhere else is kept in journals and logs.
    pub fn ports(&self, is_terminal: bool) -> String {
        let mut text = String::new();
        if let Some(port) = &self.ports.api {
            let _ = writeln!(text, "dashboard: {}", port.url(is_terminal));
        }
        if let Some(port) = &self.ports.metrics {
            let _ = writeln!(text, "metrics: http://{}/metrics", port.address());
        }
        text
    }
}

/// Serves until a signal comes.
///
/// # Errors
/// It could not be started, or ended with something not durable.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let plan = Plan::make(args)?;
    if let (Some(file), true) = (&args.config, args.check) {
        return configuration::check(file);
    }
    log::start(plan.log_format, args.verbose, args.quiet);
    run_plan(plan, |daemon, doors| {
        print(&welcome(daemon, doors))?;
        ready();
        Ok(())
    })
}

/// Tells a service manager, if there is one, that everything is served.
pub fn ready() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// Carries out a plan until a signal comes, or all that it mounted is unmounted. `ready` is told
/// when everything is served, with where it is controlled; its failure is the end.
///
/// # Errors
/// It could not be started, or ended with something not durable.
pub fn run_plan(
    plan: Plan,
    ready: impl FnOnce(&Daemon, &Doors) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        // Those whom the event loop has woken go on before its next round.
        .on_thread_park(std::thread::yield_now)
        .build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no event loop: {error}")))?;
    // Signals are listened to before there is anything to remove.
    let signals = {
        let _inside = runtime.enter();
        Signals::listen()
            .map_err(|error| Failure::new(format!("signals cannot be caught: {error}")))?
    };
    let reloader = Reloader::of(&plan);
    let plan = given::taken(plan)?;
    let directory =
        if plan.needs_directory() { Some(SocketDir::open(&runtime_dir())?) } else { None };
    let wanted = plan.ports.clone();
    let own = format!("{}.{CONTROL_ENDING}", plan.socket_name);
    let (mut config, control) = bind(plan, directory.as_ref())?;
    let beside = match (&control, &directory) {
        (Some(control), _) => control.path().to_owned(),
        (None, Some(directory)) => directory.path().join(own),
        (None, None) => own.into(),
    };
    let ports = wanted.bind(&beside)?;
    config.runtime = directory.as_ref().map(|directory| directory.path().to_owned());
    let daemon = Daemon::start(config).map_err(Failure::new)?;
    let doors = Doors { control, ports };
    if let Err(failure) = ready(&daemon, &doors) {
        daemon.shutdown();
        return Err(failure);
    }
    end(runtime, &daemon, doors, (signals, reloader))
}

/// Fills in the sockets and binds the control socket, before any device is opened.
fn bind(
    plan: Plan,
    directory: Option<&SocketDir>,
) -> Result<(DaemonConfig, Option<Server>), Failure> {
    let makes_socket = plan.makes_socket();
    let Plan { mut config, control, socket_name, .. } = plan;
    let beside = |name: String| directory.map(|directory| directory.path().join(name));
    if makes_socket {
        config.listen.extend(beside(format!("{socket_name}.sock")).map(Listen::Unix));
    }
    let bind = |path: &Path| Server::bind(path).map_err(Failure::new);
    let server = match control {
        Control::None => None,
        Control::At(path) => Some(bind(&path)?),
        Control::Given(socket) => Some(Server::given(&socket).map_err(Failure::new)?),
        Control::Default => {
            // A second daemon takes a name of its own; 'iopace sched' looks at all of them. One of
            // the same name may still be ending, or start at the same moment.
            let own = format!("{socket_name}.{CONTROL_ENDING}");
            let third = format!("{socket_name}-{}.{CONTROL_ENDING}", std::process::id());
            let [first, own, third] = [CONTROL.into(), own, third]
                .map(|name| beside(name).expect("the default needs the directory"));
            let mut bound = Server::bind(&first);
            for next in [own, third] {
                if matches!(bound, Err(StartError::ControlBusy(..))) {
                    bound = Server::bind(&next);
                }
            }
            Some(bound.map_err(Failure::new)?)
        }
    };
    config.control = server.as_ref().map(|server| server.path().to_owned());
    Ok((config, server))
}

/// The URIs, each alone on its line; then what is served, and what to do next.
fn welcome(daemon: &Daemon, doors: &Doors) -> String {
    let mut text = String::new();
    for uri in daemon.uris() {
        let _ = writeln!(text, "{uri}");
    }
    for device in daemon.devices().iter() {
        let (info, status) = (device.info(), device.status());
        let engine = status.engine;
        let auto = if engine.inserted { "" } else { " (auto)" };
        let behind = match (&info.model, &info.path) {
            (Some(model), Some(path)) => format!("{model}, kept in {}", path.display()),
            (Some(model), None) => format!("{model}, in memory"),
            (None, Some(path)) => path.display().to_string(),
            (None, None) => status.remote.map_or(String::new(), |remote| remote.uri),
        };
        let size = info.size().map_or(String::new(), |bytes| format!(", {}", units::size(bytes)));
        let read_only = if info.read_only { ", read-only" } else { "" };
        let name = &info.name;
        let _ = writeln!(
            text,
            "serving {name}: {behind}{size}{read_only}, scheduler {}{auto}",
            engine.algorithm.name
        );
    }
    for volume in daemon.cluster().map_or_else(Vec::new, |cluster| cluster.state().volumes) {
        let there = volume.hosts.iter().filter(|host| host.is_there).count();
        let stands = match &volume.dark {
            Some(why) => format!("goes by what was kept, {why}"),
            None => format!("{there} of {} hosts are there", volume.hosts.len()),
        };
        let _ = writeln!(text, "volume {}: device {}, {stands}", volume.volume, volume.device);
    }
    if let Some(mountpoint) = daemon.images().mountpoint() {
        for export in daemon.exports() {
            let _ = writeln!(text, "file: {}", mountpoint.join(&export.name).display());
        }
    }
    text.push_str(&doors.ports(std::io::stdout().is_terminal()));
    if let (Some(control), Some(device)) = (doors.control(), daemon.devices().first().cloned()) {
        let found = control.parent() == Some(&*runtime_dir());
        let place = if found { String::new() } else { format!(" --control {}", control.display()) };
        let name = quoted(&device.info().name);
        let _ = writeln!(text, "next: iopace sched status {name}{place}");
    }
    text.push_str("stop: Ctrl-C\n");
    text
}

/// Serves the control socket until a signal comes, then ends the daemon; a second signal ends at
/// once.
fn end(
    runtime: Runtime,
    daemon: &Arc<Daemon>,
    Doors { control, ports }: Doors,
    (mut signals, reloader): (Signals, Reloader),
) -> Result<(), Failure> {
    let ended = runtime.block_on(async {
        let subject: Arc<dyn Controlled> = Arc::<Daemon>::clone(daemon);
        let mut first = "";
        let mounted_only = daemon.config().devices.is_empty();
        // Without listeners nobody else can come.
        let shown_only = daemon.config().fuse.is_some() && daemon.config().listen.is_empty();
        let stop = async {
            tokio::select! {
                signal = until_end(&mut signals, reloader, daemon) => first = signal,
                () = daemon.mounts().all_ended(), if mounted_only => first = "unmounted",
                () = daemon.images().ended(), if shown_only => first = "unmounted",
                () = daemon.ublk().ended() => first = "stopped",
            }
        };
        control::run(subject, control, ports, stop).await.map_err(Failure::new)?;
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        tracing::info!("{first}: finishing what was begun; a second signal ends at once");
        let ending = Arc::clone(daemon);
        tokio::select! {
            report = tokio::task::spawn_blocking(move || ending.shutdown()) => {
                report.map_err(|error| Failure::new(format!("the shutdown failed: {error}")))
            }
            second = signals.next_end() => Err(Failure {
                message: format!("{second}: ended at once; unfinished requests were dropped"),
                status: KILLED,
            }),
        }
    });
    if ended.as_ref().is_err_and(|failure| failure.status == KILLED) {
        // The shutdown may not have come that far. A mount without a daemon would be a trap.
        daemon.mounts().cut();
        daemon.images().cut();
        let of_clients = daemon.config().listen.iter().filter_map(Listen::own_path);
        let exports = daemon.exports();
        let of_machines = exports.iter().filter_map(|export| export.vhost_user.as_ref());
        for path in of_clients.chain(of_machines) {
            let _ = std::fs::remove_file(path);
        }
    }
    // Not waiting for the shutdown that a second signal cut short.
    runtime.shutdown_background();
    ended.and_then(|report| judge(&report))
}

/// Waits for a signal that ends the daemon, and has the file applied again whenever one asks for
/// that.
async fn until_end(
    signals: &mut Signals,
    reloader: Reloader,
    daemon: &Arc<Daemon>,
) -> &'static str {
    let mut reloader = Some(reloader);
    loop {
        match signals.next().await {
            Received::End(signal) => return signal,
            // A disk that is opened or flushed for it may not answer.
            Received::Reload => tokio::select! {
                again = reload(reloader.take(), daemon) => reloader = again,
                signal = signals.next_end() => return signal,
            },
        }
    }
}

/// Applies the file again, on a thread of its own: disks are opened and flushed for that.
async fn reload(reloader: Option<Reloader>, daemon: &Arc<Daemon>) -> Option<Reloader> {
    let (mut reloader, daemon) = (reloader?, Arc::clone(daemon));
    let applied = tokio::task::spawn_blocking(move || {
        reloader.reload(&daemon);
        reloader
    });
    let failed = |error: &_| tracing::error!(%error, "the reload failed; restart the daemon");
    applied.await.inspect_err(failed).ok()
}

fn judge(report: &ShutdownReport) -> Result<(), Failure> {
    for (mountpoint, ended) in &report.mounts {
        let mountpoint = mountpoint.display();
        if ended.was_cut {
            tracing::warn!("{mountpoint} was cut: what still used it gets errors");
        }
        if ended.is_stuck {
            tracing::error!("{mountpoint}: requests are stuck at the disk below");
        }
    }
    if report.cut_count > 0 {
        tracing::warn!("{} clients did not take their answers and were cut", report.cut_count);
    }
    if report.unflushed.is_empty() {
        return Ok(());
    }
    let failed = report.unflushed.iter().map(|(device, error)| format!("{device} ({error})"));
    let failed = failed.collect::<Vec<_>>().join(", ");
    Err(Failure::new(format!(
        "not everything could be made durable: {failed}; data written since the last flush may be \
         lost"
    )))
}
