//! Which of several running daemons is meant: the one that has what is named.

use crate::output::{Failure, note};
use crate::paths::controls;
use iopace_daemon::api::DaemonReport;
use iopace_daemon::control::{Client, ClientError};
use std::path::{Path, PathBuf};
use std::thread;

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
    /// A process that is to pay: only with a mount does one pay for anything.
    pub process: Option<u32>,
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

    /// Whether the process was seen at a mount of this daemon, or was moved there.
    fn has_seen(&self, pid: u32) -> bool {
        let seen = self.client.processes();
        seen.is_ok_and(|seen| seen.processes.iter().any(|one| one.pid == pid))
    }

    /// A socket with the devices behind it.
    fn named(&self) -> String {
        format!("{} (devices {})", self.client.path().display(), self.devices.join(", "))
    }
}

impl Sought<'_> {
    /// What of it a daemon has not, each as in `group '/vms'`; all that was named, if there is no
    /// daemon to ask.
    fn missing(&self, running: Option<&Running>) -> Vec<String> {
        let has = |asked: &dyn Fn(&Running) -> bool| running.is_some_and(asked);
        let mut missing = Vec::new();
        let device = |name: &&str| !has(&|one| one.devices.iter().any(|device| device == name));
        missing.extend(self.device.filter(device).map(|name| format!("device '{name}'")));
        // The least that is asked of a group. Only who says that it is not there has it not.
        let is_there = |one: &Running, path: &str| {
            let asked = one.client.group_files(path, Some("io.weight"), None);
            !matches!(asked, Err(ClientError::Refused { status: 404, .. }))
        };
        let group = |path: &&str| *path != "/" && !has(&|one| is_there(one, path));
        missing.extend(self.group.filter(group).map(|path| format!("group '{path}'")));
        let export = |name: &&str| !has(&|one| one.report.exports.iter().any(|e| e.name == *name));
        missing.extend(self.export.filter(export).map(|name| format!("export '{name}'")));
        let is_open = |one: &Running, number: u64| {
            let all = one.client.connections();
            all.is_ok_and(|all| all.iter().any(|one| one.connection == number))
        };
        let connection = |number: &u64| !has(&|one| is_open(one, *number));
        let number = self.connection.filter(connection);
        missing.extend(number.map(|number| format!("connection {number}")));
        let has_mount = |one: &Running| one.client.mounts().is_ok_and(|all| !all.is_empty());
        if self.process.is_some() && !has(&has_mount) {
            missing.push("a mount".into());
        }
        if self.port && !has(&|one| one.report.http.is_some()) {
            missing.push("a loopback port".into());
        }
        missing
    }

    /// As in `device 'disk' and group '/vms'`; empty if nothing was named.
    fn words(&self) -> String {
        self.missing(None).join(" and ")
    }

    /// Of several daemons, those that have it; of those with a mount the ones where the process
    /// was seen, if there are any.
    fn found(&self, running: Vec<Running>) -> Result<Vec<Running>, Failure> {
        let missing = running.iter().map(|one| self.missing(Some(one)));
        let missing: Vec<Vec<String>> = missing.collect();
        let Some(first) = missing.first().filter(|_| missing.iter().all(|one| !one.is_empty()))
        else {
            let found = running.into_iter().zip(missing);
            let found = found.filter(|(_, missing)| missing.is_empty()).map(|(one, _)| one);
            return Ok(self.nearest(found.collect()));
        };
        let nowhere = |what: &&String| missing.iter().all(|one| one.contains(what));
        let nowhere: Vec<&str> = first.iter().filter(nowhere).map(String::as_str).collect();
        let each = running.iter().map(Running::named);
        Err(Failure::new(match nowhere.is_empty() {
            false => {
                let each: Vec<String> = each.collect();
                format!("no daemon has {}: there are {}", nowhere.join(" or "), each.join("; "))
            }
            // Each has something of it.
            true => {
                let each = each.zip(&missing);
                let each = each.map(|(one, missing)| format!("{one} has no {}", without(missing)));
                let each: Vec<String> = each.collect();
                format!("no daemon has {}: {}", self.words(), each.join("; "))
            }
        }))
    }

    fn nearest(&self, found: Vec<Running>) -> Vec<Running> {
        let Some(pid) = self.process.filter(|_| found.len() > 1) else { return found };
        // Mounts know processes, not threads.
        let pid = iopace_daemon::process_of(pid).unwrap_or(pid);
        let seen: Vec<bool> = found.iter().map(|one| one.has_seen(pid)).collect();
        match seen.contains(&true) {
            true => found.into_iter().zip(seen).filter(|one| one.1).map(|one| one.0).collect(),
            false => found,
        }
    }
}

/// As in `has no group '/vms' and no mount`.
fn without(missing: &[String]) -> String {
    let bare = missing.iter().map(|one| one.strip_prefix("a ").unwrap_or(one));
    bare.collect::<Vec<&str>>().join(" and no ")
}

/// The daemon that is meant: the one behind the named socket, the only one that runs, or of several
/// the only one that has what is sought. Nothing is asked where there is no choice.
///
/// # Errors
/// Several have it, or none has; all are named then, with the flag that chooses.
pub fn daemon(control: Option<&Path>, sought: Sought<'_>) -> Result<Client, Failure> {
    let (mut found, refusal) = match search(control, sought)? {
        Search::One(client) => return Ok(client),
        Search::Several(found, refusal) => (found, refusal),
    };
    match (found.len(), refusal) {
        // One that does not answer may have all of it too; a device has one daemon.
        (1, refusal) if refusal.is_none() || sought.device.is_some() => {
            return Ok(found.swap_remove(0).client);
        }
        (_, Some(error)) => return Err(Failure::new(error)),
        (_, None) => {}
    }
    let which = match &*sought.words() {
        "" => "there are several daemons".into(),
        words => format!("several daemons have {words}"),
    };
    let found: Vec<String> = found.iter().map(Running::named).collect();
    let found = found.join("; ");
    Err(Failure::usage(format!("{which}: name one of them with --control: {found}")))
}

/// All daemons that have what is sought, each with the names of its devices; those of the only one
/// are not asked for. What does not answer is told on standard error.
///
/// # Errors
/// None has it, or none answers.
pub fn daemons(
    control: Option<&Path>,
    sought: Sought<'_>,
) -> Result<Vec<(Client, Vec<String>)>, Failure> {
    let (found, refusal) = match search(control, sought)? {
        Search::One(client) => return Ok(vec![(client, Vec::new())]),
        Search::Several(found, refusal) => (found, refusal),
    };
    match refusal {
        Some(error) if found.is_empty() => return Err(Failure::new(error)),
        Some(error) => note(format_args!("warning: {error}; it is left out")),
        None => {}
    }
    Ok(found.into_iter().map(|one| (one.client, one.devices)).collect())
}

/// Asks the daemons behind all sockets at once: one that does not answer is waited for once.
pub fn ask_all<T: Send>(
    paths: &[PathBuf],
    ask: impl Fn(&Path) -> Result<T, ClientError> + Sync,
) -> Vec<Result<T, ClientError>> {
    thread::scope(|scope| {
        let ask = &ask;
        let all: Vec<_> = paths.iter().map(|path| scope.spawn(move || ask(path))).collect();
        all.into_iter().map(|one| one.join().expect("no question panics")).collect()
    })
}

/// The result of a search.
enum Search {
    /// There is no choice.
    One(Client),
    /// Those that have it, and why one did not answer.
    Several(Vec<Running>, Option<ClientError>),
}

fn search(control: Option<&Path>, sought: Sought<'_>) -> Result<Search, Failure> {
    let paths = controls(control);
    if let [path] = &*paths {
        return Ok(Search::One(Client::new(path)));
    }
    let mut running = Vec::new();
    let mut refusal = None;
    for answer in ask_all(&paths, Running::ask) {
        match answer {
            Ok(one) => running.push(one),
            // What a killed daemon left behind does not hide the others.
            Err(ClientError::NoDaemon(_)) => {}
            Err(error) => refusal = Some(error),
        }
    }
    match (running.len(), refusal) {
        (0, None) => Ok(Search::One(Client::new(&paths[0]))),
        (1, None) => Ok(Search::One(running.swap_remove(0).client)),
        (_, Some(refusal)) => {
            Ok(Search::Several(sought.found(running).unwrap_or_default(), Some(refusal)))
        }
        (_, None) => Ok(Search::Several(sought.found(running)?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_lacks_is_told() {
        let lacks =
            |what: &[&str]| without(&what.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(lacks(&["group '/vms'"]), "group '/vms'");
        assert_eq!(lacks(&["group '/vms'", "a mount"]), "group '/vms' and no mount");
        let sought = Sought { process: Some(1), ..Sought::default() };
        assert_eq!(sought.words(), "a mount");
    }

    #[test]
    fn what_was_named_is_told() {
        let sought = Sought { device: Some("disk"), group: Some("/vms"), ..Sought::default() };
        assert_eq!(sought.words(), "device 'disk' and group '/vms'");
        assert_eq!(Sought { group: Some("/"), ..Sought::default() }.words(), "");
        let sought = Sought { connection: Some(7), ..sought };
        assert_eq!(sought.words(), "device 'disk' and group '/vms' and connection 7");
        assert_eq!(Sought { port: true, ..Sought::default() }.words(), "a loopback port");
    }
}
