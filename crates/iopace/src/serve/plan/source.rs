//! The configuration file of a daemon, which may be read again.

use super::Plan;
use crate::cli::{IoEngine, LogFormat, SocketArgs};
use crate::config::{self, Settings};
use crate::output::Failure;
use iopace_daemon::given::GivenSocket;
use iopace_daemon::runtime_files::read_config;
use std::path::{Path, PathBuf};

/// Where a daemon is controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Where `iopace sched` looks for it.
    Default,
    /// There.
    At(PathBuf),
    /// At a socket that the service manager has made.
    Given(GivenSocket),
    /// Nowhere.
    None,
}

/// A configuration file, and what the command line says beside it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Where clients connect, if the command line says so.
    pub sockets: SocketArgs,
    /// How real disks are read and written.
    pub engine: Option<IoEngine>,
    /// How the log looks.
    pub log_format: Option<LogFormat>,
}

impl Source {
    /// Reads the file, which may say something else by now.
    ///
    /// # Errors
    /// The first mistake.
    pub fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = Plan::of(read(&self.path)?, &self.sockets, self.engine, self.log_format)?;
        plan.config.file = std::path::absolute(&self.path).ok();
        plan.source = Some(self.clone());
        Ok(plan)
    }
}

/// The settings of a configuration file.
///
/// # Errors
/// It cannot be read, or what is wrong with it and where.
fn read(path: &Path) -> Result<Settings, Failure> {
    let text = read_config(path).map_err(|error| {
        Failure::usage(format!("the configuration {} cannot be read: {error}", path.display()))
    })?;
    config::parse(path, &text).map_err(Failure::usage)
}

/// Where it is controlled: as the command line says, else the file.
pub(super) fn control_of(
    sockets: &SocketArgs,
    (path, has_none): (Option<PathBuf>, bool),
) -> Control {
    match (&sockets.control, sockets.no_control, path) {
        (Some(path), ..) => Control::At(path.clone()),
        (None, true, _) => Control::None,
        (None, false, Some(path)) => Control::At(path),
        (None, false, None) if has_none => Control::None,
        (None, false, None) => Control::Default,
    }
}
