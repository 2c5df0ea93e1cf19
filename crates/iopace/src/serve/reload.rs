//! SIGHUP and `systemctl reload`: the configuration file is read again, and applied as a whole.

use super::plan::{Control, Plan, Source};
use crate::http::WantedPorts;
use iopace_daemon::config::DaemonConfig;
use iopace_daemon::daemon::Daemon;
use iopace_daemon::printable;
use sd_notify::NotifyState;

/// The configuration that was read last, and its file.
pub struct Reloader {
    source: Option<Source>,
    config: DaemonConfig,
    /// Where it is controlled and watched.
    doors: (Control, WantedPorts),
}

impl Reloader {
    /// That of a plan which is not carried out yet.
    pub fn of(plan: &Plan) -> Reloader {
        Reloader {
            source: plan.source.clone(),
            config: plan.config.clone(),
            doors: (plan.control.clone(), plan.ports.clone()),
        }
    }

    /// Reads the file and has the daemon do what it says, or leaves all as it is; the log says
    /// which.
    pub fn reload(&mut self, daemon: &Daemon) {
        let Some(source) = self.source.clone() else {
            match daemon.renew_certificates() {
                Ok(true) => tracing::info!("SIGHUP: certificates are read again"),
                Ok(false) => {
                    tracing::info!(
                        "SIGHUP: there is no configuration file to read again (--config)"
                    );
                }
                Err(error) => {
                    tracing::error!("SIGHUP: the certificates stay as they were: {error}");
                }
            }
            return;
        };
        let begin = NotifyState::monotonic_usec_now().ok();
        let _ = sd_notify::notify(
            &[NotifyState::Reloading].into_iter().chain(begin).collect::<Vec<_>>(),
        );
        let path = source.path.display().to_string();
        let path = printable::name(&path);
        let status = match self.apply(&source, daemon) {
            Ok(changed) if changed.is_empty() => format!("{path}: nothing has changed"),
            Ok(changed) => format!("{path} is applied: {}", changed.join(", ")),
            Err(error) => {
                tracing::error!("{path} is not applied, and nothing is changed: {error}");
                let _ = sd_notify::notify(&[
                    NotifyState::Ready,
                    NotifyState::Status(&format!("{path} is not applied: see the log")),
                ]);
                return;
            }
        };
        tracing::info!("{status}");
        let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }

    fn apply(&mut self, source: &Source, daemon: &Daemon) -> Result<Vec<String>, String> {
        let plan = source.plan().map_err(|failure| failure.message)?;
        if self.doors != (plan.control.clone(), plan.ports.clone()) {
            let what = "`control`, `no-control`, `http`, `metrics` and their token files";
            return Err(format!("a restart is needed for another {what}"));
        }
        let changed = daemon.reload(&self.config, &plan.config);
        let changed = changed.map_err(|error| error.to_string())?;
        self.config = plan.config;
        Ok(changed)
    }
}
