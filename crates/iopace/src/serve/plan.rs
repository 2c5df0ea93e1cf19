//! What is to be served: the command line and the configuration file, turned into one
//! [`DaemonConfig`]. A word on the command line wins over the same word in the file.

mod backend;
mod inserted;
mod source;
mod tls;

pub use source::{Control, Source};
pub use tls::check_remote;

use backend::backend;

use crate::cli::{
    AttachArgs, DeviceArgs, IoEngine, LogFormat, MountArgs, PortArgs, ServeArgs, SocketArgs,
    TlsArgs,
};
use crate::config::{self, NamedScheduler, Settings};
use crate::http::WantedPorts;
use crate::output::Failure;
use iopace_core::sched::{self, AUTO};
use iopace_core::{pace, window};
use iopace_daemon::Rules;
use iopace_daemon::config::{
    Backend, DaemonConfig, DeviceConfig, ExportConfig, IoEngineChoice, Listen, MountConfig,
    SocketAccess, check_dirty,
};
use iopace_daemon::nbd_uri::NbdUri;
use std::path::{Path, PathBuf};

/// What is to be served, and how.
#[derive(Debug)]
pub struct Plan {
    /// The daemon's; `listen` is empty where a default socket is to be made, `control` is not set.
    pub config: DaemonConfig,
    /// Where it is controlled.
    pub control: Control,
    /// Ports for browsers and for what scrapes.
    pub ports: WantedPorts,
    /// Whether a socket for NBD clients is made where none is named.
    pub has_default_socket: bool,
    /// Whether a record of what is attached is kept in the default directory.
    pub keeps_records: bool,
    /// Name of the default socket, without its ending.
    pub socket_name: String,
    /// How the log looks.
    pub log_format: LogFormat,
    /// Where it was read from, if it was a file.
    pub source: Option<Source>,
}

impl Plan {
    /// Reads the command line, and the configuration file if one is named.
    ///
    /// # Errors
    /// What was asked, what is wrong and what would be right.
    pub fn make(args: &ServeArgs) -> Result<Plan, Failure> {
        let log_format = args.log_format;
        if let Some(path) = &args.config {
            let (path, sockets) = (path.clone(), args.sockets.clone());
            return Source { path, sockets, engine: args.io_engine, log_format }.plan();
        }
        let devices = devices(&args.files, &args.device)?;
        let exports = machines(&devices, &args.vhost_user)?;
        let settings = Settings { devices, exports, ..Settings::default() };
        Plan::of(settings, &args.sockets, args.io_engine, log_format)
    }

    /// A directory, or the mounts and devices of a configuration file.
    ///
    /// # Errors
    /// What was asked, what is wrong and what would be right.
    pub fn mount(args: &MountArgs) -> Result<Plan, Failure> {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or(path.clone());
        let sockets = SocketArgs {
            socket: args.socket.as_ref().map(absolute),
            socket_mode: None,
            socket_group: None,
            listen: args.listen.clone(),
            fuse: None,
            tls: TlsArgs::default(),
            control: args.control.as_ref().map(absolute),
            no_control: args.no_control,
            ports: PortArgs {
                http_token_file: args.ports.http_token_file.as_ref().map(absolute),
                metrics_token_file: args.ports.metrics_token_file.as_ref().map(absolute),
                ..args.ports.clone()
            },
        };
        let plan = match (&args.config, &args.dir) {
            (Some(path), _) => {
                // The daemon leaves the directory that relative paths start at.
                let path = absolute(path);
                Source { path, sockets, engine: None, log_format: args.log_format }.plan()?
            }
            (None, dir) => {
                let mounts = dir.iter().map(|dir| mount(dir, args)).collect::<Result<_, _>>()?;
                Plan::of(
                    Settings { mounts, ..Settings::default() },
                    &sockets,
                    None,
                    args.log_format,
                )?
            }
        };
        match plan.config.mounts.is_empty() {
            true => Err(Failure::usage(
                "there is nothing to mount: name a directory (iopace mount /srv), or add a \
                 [[mount]] table with a `dir` to the configuration",
            )),
            false => Ok(plan),
        }
    }

    /// One disk that is not served over NBD, but shown as a file in the directory `fuse`, or as a
    /// ublk device.
    ///
    /// # Errors
    /// What was asked, what is wrong and what would be right.
    pub fn attach(args: &AttachArgs, fuse: Option<&Path>) -> Result<Plan, Failure> {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or(path.clone());
        let is_uri = |file: &PathBuf| file.to_str().is_some_and(NbdUri::is_meant);
        if let Some(uri) = args.file.as_ref().filter(|file| is_uri(file)) {
            return Err(Failure::usage(format!(
                "{}: what is attached is a file or a block device; serve this with 'iopace serve'",
                uri.display()
            )));
        }
        let files: Vec<PathBuf> = args.file.iter().map(absolute).collect();
        let settings = Settings { devices: devices(&files, &args.device)?, ..Settings::default() };
        let sockets = SocketArgs {
            socket: None,
            socket_mode: None,
            socket_group: None,
            listen: Vec::new(),
            fuse: fuse.map(Path::to_owned),
            tls: TlsArgs::default(),
            control: args.control.as_ref().map(absolute),
            no_control: args.no_control,
            ports: PortArgs::default(),
        };
        let plan = Plan::of(settings, &sockets, args.io_engine, args.log_format)?;
        Ok(Plan { has_default_socket: false, keeps_records: true, ..plan })
    }

    pub(super) fn of(
        settings: Settings,
        sockets: &SocketArgs,
        engine: Option<IoEngine>,
        log_format: Option<LogFormat>,
    ) -> Result<Plan, Failure> {
        let named = sockets.socket.is_some() || !sockets.listen.is_empty();
        let (socket, tcp) = if named {
            (sockets.socket.clone(), sockets.listen.clone())
        } else {
            (settings.socket, settings.listen)
        };
        let (tls, client_rules) = tls::tls_of(&sockets.tls, settings.tls, &tcp, &settings.exports)?;
        let unix = socket.into_iter().map(Listen::Unix);
        let control = source::control_of(sockets, (settings.control, settings.no_control));
        let ports = WantedPorts::of(&sockets.ports, settings.ports)?;
        let defaults = DaemonConfig::default();
        let socket_name = socket_name(&settings.devices, &settings.mounts);
        let has_default_socket =
            !settings.devices.is_empty() && !is_for_machines(&settings.exports);
        Ok(Plan {
            config: DaemonConfig {
                policies: settings.policies,
                devices: settings.devices,
                mounts: settings.mounts,
                exports: settings.exports,
                fuse: sockets.fuse.clone().or(settings.fuse),
                groups: settings.groups,
                listen: unix.chain(tcp.into_iter().map(Listen::Tcp)).collect(),
                tls,
                client_rules,
                socket_access: SocketAccess {
                    mode: sockets.socket_mode.or(settings.socket_mode),
                    group: sockets.socket_group.or(settings.socket_group),
                },
                control: None,
                runtime: None,
                file: None,
                log: None,
                cluster: settings.cluster,
                io_engine: engine.map(choice).or(settings.io_engine).unwrap_or(defaults.io_engine),
                connections_max: settings.connections_max.unwrap_or(defaults.connections_max),
                memory_max: settings.memory_max.unwrap_or(defaults.memory_max),
                notes: defaults.notes,
            },
            control,
            ports,
            has_default_socket,
            keeps_records: false,
            socket_name,
            log_format: log_format.or(settings.log_format).unwrap_or_default(),
            source: None,
        })
    }

    /// Whether something is to be made in the default directory.
    pub fn needs_directory(&self) -> bool {
        self.makes_socket()
            || self.keeps_records
            || self.control == Control::Default
            || !self.config.mounts.is_empty()
            || self.config.fuse.is_some()
            || self.needs_place_for_token()
    }

    /// Whether the token of the loopback port has no other place than the default directory.
    fn needs_place_for_token(&self) -> bool {
        let api = self.ports.api.as_ref();
        api.is_some_and(|port| port.token_file.is_none()) && self.control == Control::None
    }

    /// Whether a socket for NBD clients is made in the default directory.
    pub fn makes_socket(&self) -> bool {
        self.config.listen.is_empty() && self.has_default_socket
    }
}

/// Name of the default socket: that of the only thing that is served.
fn socket_name(devices: &[DeviceConfig], mounts: &[MountConfig]) -> String {
    match (devices, mounts) {
        ([device], []) => device.name.clone(),
        ([], [mount]) => mount.device.name.clone(),
        _ => "iopace".into(),
    }
}

/// Disks of machines alone need no socket for NBD clients.
fn is_for_machines(exports: &[ExportConfig]) -> bool {
    !exports.is_empty() && exports.iter().all(|export| export.vhost_user.is_some())
}

/// The exports of devices that are disks of virtual machines, each at its socket; none if no socket
/// is named.
fn machines(devices: &[DeviceConfig], sockets: &[PathBuf]) -> Result<Vec<ExportConfig>, Failure> {
    if sockets.is_empty() {
        return Ok(Vec::new());
    }
    if sockets.len() != devices.len() {
        return Err(Failure::usage(format!(
            "--vhost-user: sockets: {}, disks: {}; each disk has a socket of its own",
            sockets.len(),
            devices.len()
        )));
    }
    let export = |(device, socket): (&DeviceConfig, &PathBuf)| ExportConfig {
        vhost_user: Some(socket.clone()),
        ..ExportConfig::new(device.name.clone(), device.name.clone())
    };
    Ok(devices.iter().zip(sockets).map(export).collect())
}

/// One directory, as the command line has it.
fn mount(dir: &Path, args: &MountArgs) -> Result<MountConfig, Failure> {
    let absolute = |path: &Path| {
        std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    };
    let words = args.device.as_device();
    let mut mount = MountConfig::new(absolute(dir)?);
    let name = args.name.clone().unwrap_or(mount.device.name);
    mount.device = device(name, mount.device.backend, &words, scheduler(&words)?)?;
    check_dirty(words.dirty_limit, words.dirty_background).map_err(Failure::usage)?;
    if let Backend::Directory { model, cache, .. } = &mut mount.device.backend {
        *model = words.emulate;
        *cache = words.cache;
    }
    mount.mountpoint = args.mountpoint.as_deref().map(absolute).transpose()?;
    mount.allow_other = match (args.allow_other, args.private) {
        (false, false) => None,
        (allowed, _) => Some(allowed),
    };
    mount.in_use = args.in_use();
    mount.flags = args.flags();
    mount.rules = Rules::new(args.rule.clone(), args.group.as_deref().unwrap_or("/"))
        .map(|rules| rules.with_cgroup_limits(args.cgroup_limits.unwrap_or_default()))
        .map_err(|error| Failure::usage(format!("--rule, --group: {error}")))?;
    Ok(mount)
}

/// The devices of `iopace serve FILE...`.
fn devices(files: &[PathBuf], args: &DeviceArgs) -> Result<Vec<DeviceConfig>, Failure> {
    let scheduler = scheduler(args)?;
    check_dirty(args.dirty_limit, args.dirty_background).map_err(Failure::usage)?;
    let make = |name: String, file: Option<&PathBuf>| {
        device(name, backend(file, args)?, args, scheduler.clone())
    };
    match (&args.emulate, files) {
        (Some(model), []) => {
            let name = Path::new(model).file_stem().filter(|_| model.ends_with(".toml"));
            let name = name.map_or(model.clone(), |stem| stem.to_string_lossy().into_owned());
            Ok(vec![make(name, None)?])
        }
        (None, []) => Err(Failure::usage(
            "there is nothing to serve: name a file (iopace serve disk.img), or a model (iopace \
             serve --emulate hdd-sata-250g)",
        )),
        (_, files) => {
            let names = config::names(files);
            for (at, name) in names.iter().enumerate() {
                if let Some(other) = names[..at].iter().position(|known| known == name) {
                    return Err(Failure::usage(format!(
                        "{} and {} would both be named '{name}': name them in a file for --config",
                        files[other].display(),
                        files[at].display()
                    )));
                }
            }
            names.into_iter().zip(files).map(|(name, file)| make(name, Some(file))).collect()
        }
    }
}

fn device(
    name: String,
    backend: Backend,
    args: &DeviceArgs,
    scheduler: Option<NamedScheduler>,
) -> Result<DeviceConfig, Failure> {
    config::valid_name(&name)
        .map_err(|error| Failure::usage(format!("the device's name would be '{name}': {error}")))?;
    let is_remote = matches!(backend, Backend::Remote { .. });
    let device = DeviceConfig::new(name, backend);
    let named = "one of the registry, by the command line";
    let pace = args.pace.as_deref().map(|name| pace::find(name).expect(named));
    let window = args.window_policy.as_deref().map(|name| window::find(name).expect(named));
    let pace = pace.unwrap_or(device.pace);
    if let Some(pause) = args.pause_target {
        pace::check_pause_target(pace, pause)
            .map_err(|error| Failure::usage(format!("--pause-target: {error}")))?;
    }
    Ok(DeviceConfig {
        pace,
        pause_target: args.pause_target,
        window: window.unwrap_or(device.window),
        dirty_limit: args.dirty_limit,
        dirty_background: args.dirty_background,
        read_only: args.read_only,
        raw: args.raw,
        // Another server's disk is in no page cache of ours.
        direct: args.direct || is_remote,
        scheduler,
        nr_requests: args.nr_requests,
        window_depth: args.window,
        ..device
    })
}

/// The scheduler with its settings, checked before anything is opened.
fn scheduler(args: &DeviceArgs) -> Result<Option<NamedScheduler>, Failure> {
    let Some(name) = &args.sched else { return Ok(None) };
    if name == AUTO {
        return match args.set.is_empty() {
            true => Ok(None),
            false => Err(Failure::usage(format!("--set: {}", config::AUTO_HAS_NO_SETTINGS))),
        };
    }
    let algorithm = sched::find(name).expect("one of the registry, by the command line");
    let mut params = algorithm.defaults();
    for (parameter, value) in &args.set {
        params
            .set(parameter, *value)
            .map_err(|error| Failure::usage(format!("--set: scheduler '{name}': {error}")))?;
    }
    Ok(Some((name.clone(), args.set.clone())))
}

fn choice(engine: IoEngine) -> IoEngineChoice {
    match engine {
        IoEngine::Auto => IoEngineChoice::Auto,
        IoEngine::Uring => IoEngineChoice::Uring,
        IoEngine::Threads => IoEngineChoice::Threads,
    }
}

#[cfg(test)]
mod tests;
