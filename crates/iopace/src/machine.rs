//! All daemons of this user as one: each device by a name of its own, with its daemon.
//!
//! A device that two daemons have goes by the daemon's name as well, `web:disk`: that of its
//! control socket.

mod follow;

use crate::output::{Failure, note};
use crate::running::{Sought, daemons};
use iopace_daemon::control::{Client, ClientError};
use serde::Serialize;
use std::path::Path;
use std::thread;

/// A daemon.
#[derive(Clone, Debug)]
pub struct Member {
    /// Where it is asked.
    pub client: Client,
    /// Its devices: the daemon's names, and those that are shown.
    names: Vec<(String, String)>,
}

impl Member {
    /// The name that is shown for a device of it.
    pub fn shown(&self, device: &str) -> String {
        let found = self.names.iter().find(|(own, _)| own == device);
        found.map_or(device, |(_, shown)| shown).to_owned()
    }

    /// Says that it is left out.
    pub fn leave_out(&self, error: &ClientError) {
        let path = self.client.path().display().to_string();
        match error.to_string() {
            text if text.contains(&path) => note(format_args!("warning: {text}; it is left out")),
            text => note(format_args!("warning: {path}: {text}; it is left out")),
        }
    }

    /// The names of all its devices that are shown, as one text.
    pub fn devices(&self) -> String {
        let shown: Vec<&str> = self.names.iter().map(|(_, shown)| &**shown).collect();
        shown.join(", ")
    }
}

/// All daemons that have what is sought.
#[derive(Clone, Debug)]
pub struct Machine {
    members: Vec<Member>,
    /// The device that is sought, by the name that its daemons give it.
    device: Option<String>,
}

/// An answer, with the daemon that gave it if there are several.
#[derive(Debug, Serialize)]
pub struct DaemonAnswer<T: Serialize> {
    /// Its control socket; none if it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The answer.
    #[serde(flatten)]
    pub report: T,
}

impl Machine {
    /// The daemons that have what is sought; a device may be named as it is shown, `web:disk`.
    ///
    /// # Errors
    /// None has it, or none answers.
    pub fn find(control: Option<&Path>, sought: Sought<'_>) -> Result<Machine, Failure> {
        if let Some(name) = sought.device.filter(|name| name.contains(':')) {
            let all = daemons(control, Sought { device: None, ..sought })?;
            if let Some(machine) = of_one(&all, name) {
                return Ok(machine);
            }
        }
        let members = members(&daemons(control, sought)?);
        Ok(Machine { members, device: sought.device.map(str::to_owned) })
    }

    /// The daemons.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The device that is sought, by the name that its daemons give it.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Whether there is but one.
    pub fn is_one(&self) -> bool {
        self.members.len() == 1
    }

    /// The daemon of a device that goes by this name here, and the daemon's name of it.
    pub fn owner<'a>(&'a self, shown: &'a str) -> (&'a Client, &'a str) {
        let find = |member: &'a Member| {
            let found = member.names.iter().find(|(_, name)| name == shown);
            found.map(|(own, _)| (&member.client, &**own))
        };
        self.members.iter().find_map(find).unwrap_or((&self.members[0].client, shown))
    }

    /// The names of all devices, as they are shown.
    ///
    /// # Errors
    /// The only daemon cannot be asked.
    pub fn device_names(&self) -> Result<Vec<String>, ClientError> {
        if let [only] = &*self.members {
            let devices = only.client.devices()?;
            return Ok(devices.into_iter().map(|device| device.name).collect());
        }
        Ok(self.members.iter().flat_map(|one| &one.names).map(|(_, shown)| shown.clone()).collect())
    }

    /// Asks all daemons at once; one that does not answer is told, and left out.
    ///
    /// # Errors
    /// None of them answers.
    pub fn ask<T: Send>(
        &self,
        ask: impl Fn(&Client) -> Result<T, ClientError> + Sync,
    ) -> Result<Vec<(&Member, T)>, Failure> {
        let answers: Vec<_> = thread::scope(|scope| {
            let ask = &ask;
            let all = self.members.iter().map(|member| scope.spawn(move || ask(&member.client)));
            let all: Vec<_> = all.collect();
            all.into_iter().map(|one| one.join().expect("no question panics")).collect()
        });
        let (mut told, mut failed) = (Vec::new(), Vec::new());
        for (member, answer) in self.members.iter().zip(answers) {
            match answer {
                Ok(answer) => told.push((member, answer)),
                Err(error) => failed.push((member, error)),
            }
        }
        if told.is_empty() && !failed.is_empty() {
            return Err(Failure::new(failed.swap_remove(0).1));
        }
        for (member, error) in &failed {
            member.leave_out(error);
        }
        Ok(told)
    }

    /// A report with its daemon, for programs.
    pub fn told<T: Serialize>(&self, member: &Member, report: T) -> DaemonAnswer<T> {
        let control = member.client.path().display().to_string();
        DaemonAnswer { control: Some(control).filter(|_| !self.is_one()), report }
    }
}

/// Daemons with the names of their devices, and those that are shown.
fn members(found: &[(Client, Vec<String>)]) -> Vec<Member> {
    let count = |device: &String| found.iter().filter(|(_, all)| all.contains(device)).count();
    let members = found.iter().map(|(client, devices)| {
        let shown = |device: &String| match count(device) {
            1 => device.clone(),
            _ => format!("{}:{device}", daemon_name(client, found)),
        };
        let names = devices.iter().map(|device| (device.clone(), shown(device)));
        Member { client: client.clone(), names: names.collect() }
    });
    members.collect()
}

/// The one daemon of a device that is named with it, as `web:disk`.
fn of_one(found: &[(Client, Vec<String>)], name: &str) -> Option<Machine> {
    found.iter().find_map(|(client, devices)| {
        let own = name.strip_prefix(&*daemon_name(client, found))?.strip_prefix(':')?;
        let own = devices.iter().find(|device| *device == own)?;
        let names = vec![(own.clone(), own.clone())];
        let member = Member { client: client.clone(), names };
        Some(Machine { members: vec![member], device: Some(own.clone()) })
    })
}

/// The name of a daemon among others: that of its control socket, or all of its path.
fn daemon_name(client: &Client, all: &[(Client, Vec<String>)]) -> String {
    let stem = |client: &Client| client.path().file_stem().map(|stem| stem.to_os_string());
    let is_same = |other: &&(Client, Vec<String>)| stem(&other.0) == stem(client);
    match (stem(client), all.iter().filter(is_same).count()) {
        (Some(stem), 1) => stem.to_string_lossy().into_owned(),
        _ => client.path().display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_go_by_the_names_of_their_sockets() {
        let all = ["/run/iopace/web.ctl", "/run/iopace/db.ctl", "/tmp/iopace-0/db.ctl"];
        let all = all.map(|path| (Client::new(path), Vec::new()));
        assert_eq!(daemon_name(&all[0].0, &all), "web");
        assert_eq!(daemon_name(&all[1].0, &all), "/run/iopace/db.ctl");
    }
    #[test]
    fn a_device_is_found_by_the_name_that_is_shown() {
        let daemon = |path: &str| (Client::new(path), vec!["disk".to_owned(), "own:1".into()]);
        let all = [daemon("/run/iopace/web.ctl"), daemon("/run/iopace/db.ctl")];
        for member in members(&all) {
            let shown = member.shown("disk");
            let found = of_one(&all, &shown).expect("it is shown");
            assert_eq!(found.device(), Some("disk"));
            assert_eq!(found.members()[0].client.path(), member.client.path());
            assert_eq!(found.owner("disk").1, "disk");
        }
        assert!(of_one(&all, "own:1").is_none() && of_one(&all, "web:other").is_none());
    }
}
