//! Which of several running daemons is meant: the one that has what is named.

use crate::output::Failure;
use crate::paths::controls;
use iopace_daemon::control::api::DaemonReport;
use iopace_daemon::control::{Client, ClientError};
use std::path::Path;

/// What a command names; the daemon that is meant has all of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sought<'a> {
    /// A device.
    pub device: Option<&'a str>,
    /// A group. The root says nothing: all have it.
    pub group: Option<&'a str>,
    /// An export.
    pub export: Option<&'a str>,
    /// A connection, by number: each daemon counts its own.
    pub connection: Option<u64>,
    /// A loopback port.
    pub port: bool,
}

/// A daemon that runs.
struct Running {
    client: Client,
    report: DaemonReport,
    devices: Vec<String>,
}

impl Running {
    fn ask(path: &Path) -> Result<Running, ClientError> {
        let client = Client::new(path);
        let report = client.status()?;
        let devices = client.devices()?.into_iter().map(|device| device.name).collect();
        Ok(Running { client, report, devices })
    }

    /// A socket with the devices behind it.
    fn named(&self) -> String {
        format!("{} (devices {})", self.client.path().display(), self.devices.join(", "))
    }
}

impl Sought<'_> {
    fn is_in(&self, Running { client, report, devices }: &Running) -> bool {
        let has_device = |name: &str| devices.iter().any(|device| device == name);
        let has_export = |name: &str| report.exports.iter().any(|export| export.name == name);
        // The least that is asked of a group. Only who says that it is not there has it not.
        let has_group = |path: &str| {
            let asked = (path != "/").then(|| client.group_files(path, Some("io.weight"), None));
            !matches!(asked, Some(Err(ClientError::Refused { status: 404, .. })))
        };
        let has_connection = |number: u64| {
            let all = client.connections();
            all.is_ok_and(|all| all.iter().any(|one| one.connection == number))
        };
        self.device.is_none_or(has_device)
            && self.export.is_none_or(has_export)
            && (!self.port || report.http.is_some())
            && self.group.is_none_or(has_group)
            && self.connection.is_none_or(has_connection)
    }

    /// As in `device 'disk' and group '/vms'`; empty if nothing was named.
    fn words(&self) -> String {
        let named = [("device", self.device), ("group", self.group), ("export", self.export)];
        let named = named.into_iter().filter_map(|(what, name)| Some((what, name?)));
        let named = named.filter(|named| *named != ("group", "/"));
        let mut words: Vec<String> = named.map(|(what, name)| format!("{what} '{name}'")).collect();
        words.extend(self.connection.map(|number| format!("connection '{number}'")));
        if self.port {
            words.push("a loopback port".into());
        }
        words.join(" and ")
    }
}

/// The daemon that is meant: the one behind the named socket, the only one that runs, or of several
/// the only one that has what is sought. Nothing is asked where there is no choice.
///
/// # Errors
/// Several have it, or none has; all are named then, with the flag that chooses.
pub fn daemon(control: Option<&Path>, sought: Sought<'_>) -> Result<Client, Failure> {
    let paths = controls(control);
    if let [path] = &*paths {
        return Ok(Client::new(path));
    }
    let mut running = Vec::new();
    let mut refusal = None;
    for path in &paths {
        match Running::ask(path) {
            Ok(one) => running.push(one),
            // What a killed daemon left behind does not hide the others.
            Err(ClientError::NoDaemon(_)) => {}
            Err(error) => refusal = Some(error),
        }
    }
    match (running.len(), &refusal) {
        (0, None) => return Ok(Client::new(&paths[0])),
        (1, None) => return Ok(running.swap_remove(0).client),
        _ => {}
    }
    let all: Vec<String> = running.iter().map(Running::named).collect();
    let words = sought.words();
    let mut found: Vec<Running> =
        running.into_iter().filter(|running| sought.is_in(running)).collect();
    match (found.len(), refusal) {
        // One that does not answer may have a group of that name too; a device has one daemon.
        (1, refusal) if refusal.is_none() || sought.device.is_some() => {
            Ok(found.swap_remove(0).client)
        }
        (_, Some(error)) => Err(Failure::new(error)),
        (0, None) => {
            Err(Failure::new(format!("no daemon has {words}: there are {}", all.join("; "))))
        }
        _ => {
            let which = match &*words {
                "" => "there are several daemons".into(),
                words => format!("several daemons have {words}"),
            };
            let found: Vec<String> = found.iter().map(Running::named).collect();
            let found = found.join("; ");
            Err(Failure::usage(format!("{which}: name one of them with --control: {found}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_is_told() {
        let sought = Sought { device: Some("disk"), group: Some("/vms"), ..Sought::default() };
        assert_eq!(sought.words(), "device 'disk' and group '/vms'");
        assert_eq!(Sought { group: Some("/"), ..Sought::default() }.words(), "");
        let sought = Sought { connection: Some(7), ..sought };
        assert_eq!(sought.words(), "device 'disk' and group '/vms' and connection '7'");
        assert_eq!(Sought { port: true, ..Sought::default() }.words(), "a loopback port");
    }
}
