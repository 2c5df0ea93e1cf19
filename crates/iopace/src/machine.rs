//! All daemons of this user as one: each device by a name of its own, with its daemon.
//!
//! A device that two daemons have goes by the daemon's name as well, `web:disk`: that of its control
//! socket.

mod follow;

use crate::output::Failure;
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

    /// The names of all its devices that are shown, as one text.
    pub fn devices(&self) -> String {
        let shown: Vec<&str> = self.names.iter().map(|(_, shown)| &**shown).collect();
        shown.join(", ")
    }
}

/// All daemons.
#[derive(Clone, Debug)]
pub struct Machine(Vec<Member>);

/// An answer, with the daemon that gave it if there are several.
#[derive(Debug, Serialize)]
pub struct Told<T: Serialize> {
    /// Its control socket; none if it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The answer.
    #[serde(flatten)]
    pub report: T,
}

impl Machine {
    /// The daemons that have what is sought.
    ///
    /// # Errors
    /// None has it, or none answers.
    pub fn find(control: Option<&Path>, sought: Sought<'_>) -> Result<Machine, Failure> {
        let found = daemons(control, sought)?;
        let count = |device: &String| found.iter().filter(|(_, all)| all.contains(device)).count();
        let members = found.iter().map(|(client, devices)| {
            let shown = |device: &String| match count(device) {
                1 => device.clone(),
                _ => format!("{}:{device}", daemon_name(client, &found)),
            };
            let names = devices.iter().map(|device| (device.clone(), shown(device)));
            Member { client: client.clone(), names: names.collect() }
        });
        Ok(Machine(members.collect()))
    }

    /// The daemons.
    pub fn members(&self) -> &[Member] {
        &self.0
    }

    /// Whether there is but one.
    pub fn is_one(&self) -> bool {
        self.0.len() == 1
    }

    /// The daemon of a device that goes by this name here, and the daemon's name of it.
    pub fn owner<'a>(&'a self, shown: &'a str) -> (&'a Client, &'a str) {
        let find = |member: &'a Member| {
            let found = member.names.iter().find(|(_, name)| name == shown);
            found.map(|(own, _)| (&member.client, &**own))
        };
        self.0.iter().find_map(find).unwrap_or((&self.0[0].client, shown))
    }

    /// The names of all devices, as they are shown.
    ///
    /// # Errors
    /// The only daemon cannot be asked.
    pub fn device_names(&self) -> Result<Vec<String>, ClientError> {
        if let [only] = &*self.0 {
            let devices = only.client.devices()?;
            return Ok(devices.into_iter().map(|device| device.name).collect());
        }
        Ok(self.0.iter().flat_map(|one| &one.names).map(|(_, shown)| shown.clone()).collect())
    }

    /// Asks all daemons at once.
    ///
    /// # Errors
    /// One of them refuses, or does not answer.
    pub fn ask<T: Serialize + Send>(
        &self,
        ask: impl Fn(&Client) -> Result<T, ClientError> + Sync,
    ) -> Result<Vec<(&Member, T)>, Failure> {
        let answers: Vec<_> = thread::scope(|scope| {
            let ask = &ask;
            let all = self.0.iter().map(|member| scope.spawn(move || ask(&member.client)));
            let all: Vec<_> = all.collect();
            all.into_iter().map(|one| one.join().expect("no question panics")).collect()
        });
        let all = self.0.iter().zip(answers);
        all.map(|(member, answer)| Ok((member, answer.map_err(Failure::new)?))).collect()
    }

    /// A report with its daemon, for programs.
    pub fn told<T: Serialize>(&self, member: &Member, report: T) -> Told<T> {
        let control = member.client.path().display().to_string();
        Told { control: Some(control).filter(|_| !self.is_one()), report }
    }
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
}
