//! The exports as one client sees them: those of the daemon, and on a Unix socket, for the daemon's
//! own user and root, each of them as any group: `disk@/vms/web`.
//!
//! Who the client is, the kernel says (SO_PEERCRED); what a client claims about itself counts for
//! nothing. A refusal looks to the client like an export that there is not; the log says why.

use super::clients::Clients;
use super::connection::Connection;
use iopace_nbd::{ExportInfo, Exports};
use rustix::net::AddressFamily;
use rustix::net::sockopt::{socket_domain, socket_peercred};
use std::cell::Cell;
use std::os::fd::BorrowedFd;

/// Between the export and the path of the group, which begins with a slash. No name of an export
/// has a slash, and no name of a group an `@`.
const SEPARATOR: &str = "@/";

/// The exports, for one client.
pub(super) struct View<'a> {
    clients: &'a Clients,
    connection: &'a Connection,
    /// The group of the export that was found last, if it was named.
    named: &'a Cell<Option<String>>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        clients: &'a Clients,
        connection: &'a Connection,
        named: &'a Cell<Option<String>>,
    ) -> View<'a> {
        View { clients, connection, named }
    }

    /// An export by its own name, or by that of its device.
    fn export(&self, name: &str) -> Option<ExportInfo> {
        self.clients.find(name).or_else(|| self.clients.find_by_device(name))
    }

    /// The export of `disk@/vms/web`, and the group.
    fn find_as_group(&self, export: &str, group: &str) -> Result<ExportInfo, String> {
        may_name_groups(self.connection.socket())?;
        let mut info = self.export(export).ok_or("there is no such export")?;
        let id = self.clients.groups().find(group).map_err(|error| error.to_string())?;
        info.id |= (u64::from(id.0) + 1) << u32::BITS;
        info.name = format!("{export}@{group}");
        Ok(info)
    }
}

impl Exports for View<'_> {
    fn list(&self) -> Vec<ExportInfo> {
        self.clients.list()
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        self.named.set(None);
        if let Some(info) = self.clients.find(name) {
            return Some(info);
        }
        let (export, group) = name.split_once(SEPARATOR)?;
        let group = format!("/{group}");
        match self.find_as_group(export, &group) {
            Ok(info) => {
                self.named.set(Some(group));
                Some(info)
            }
            Err(why) => {
                let connection = self.connection.number();
                tracing::info!(connection, "export {name:?} is refused: {why}");
                None
            }
        }
    }
}

/// Whether the client may say which group it pays as.
fn may_name_groups(socket: BorrowedFd<'_>) -> Result<(), String> {
    if socket_domain(socket) != Ok(AddressFamily::UNIX) {
        return Err("a group can be named on a Unix socket only".into());
    }
    let peer = socket_peercred(socket)
        .map_err(|error| format!("the system does not say who the client is: {error}"))?;
    let own = rustix::process::geteuid();
    if peer.uid != own && !peer.uid.is_root() {
        let (peer, own) = (peer.uid.as_raw(), own.as_raw());
        return Err(format!(
            "user {peer} may not name a group; the daemon's own ({own}) and root may"
        ));
    }
    Ok(())
}
