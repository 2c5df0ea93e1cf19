//! What can be asked about groups.

use super::{Client, ClientError, encode};
use crate::api::{
    CgroupWritten, ConnectionReport, CreateGroup, FileReport, GroupReport, MountReport, Move,
    ProcessesReport, Removed, StatReport, WriteCgroup, WriteFile, Written,
};
use hyper::Method;

impl Client {
    /// A group and all below it, depth first, by name.
    ///
    /// # Errors
    /// See [`ClientError`]; an unknown group is refused with those that there are.
    pub fn groups(&self, group: &str) -> Result<Vec<GroupReport>, ClientError> {
        self.get(&format!("/v1/groups?group={}", encode(group)))
    }

    /// Makes a group.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn create_group(&self, group: &str, parents: bool) -> Result<GroupReport, ClientError> {
        self.post("/v1/groups", &CreateGroup { group: group.into(), parents, temporary: false })
    }

    /// Makes a group that goes by itself when nobody has paid as it for ten seconds.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn create_temporary_group(&self, group: &str) -> Result<GroupReport, ClientError> {
        let create = CreateGroup { group: group.into(), parents: false, temporary: true };
        self.post("/v1/groups", &create)
    }

    /// Removes a group.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn remove_group(&self, group: &str) -> Result<Removed, ClientError> {
        let route = format!("/v1/groups?group={}", encode(group));
        self.call(Method::DELETE, &route, Vec::new())
    }

    /// One file of a group or all, with what holds on one device or on all.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn group_files(
        &self,
        group: &str,
        file: Option<&str>,
        device: Option<&str>,
    ) -> Result<Vec<FileReport>, ClientError> {
        let mut route = format!("/v1/groups/files?group={}", encode(group));
        for (word, value) in [("file", file), ("device", device)] {
            if let Some(value) = value {
                route.push_str(&format!("&{word}={}", encode(value)));
            }
        }
        self.get(&route)
    }

    /// Writes lines to a file of a group.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn write_group(&self, write: &WriteFile) -> Result<Written, ClientError> {
        self.post("/v1/groups/files", write)
    }

    /// Writes lines to files of the group that stands for a cgroup.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn write_cgroup(&self, write: &WriteCgroup) -> Result<CgroupWritten, ClientError> {
        self.post("/v1/groups/cgroup", write)
    }

    /// Has another group pay for an export, a connection or a process.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn move_to_group(&self, change: &Move) -> Result<GroupReport, ClientError> {
        self.post("/v1/groups/move", change)
    }

    /// What a group and those below it did.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn group_stat(&self, group: &str) -> Result<StatReport, ClientError> {
        self.get(&format!("/v1/groups/stat?group={}", encode(group)))
    }

    /// The connections that have an export open, with their groups.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn connections(&self) -> Result<Vec<ConnectionReport>, ClientError> {
        self.get("/v1/connections")
    }

    /// The processes that use a mount, with their groups.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn processes(&self) -> Result<ProcessesReport, ClientError> {
        self.get("/v1/processes")
    }

    /// The directories that are mounted.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn mounts(&self) -> Result<Vec<MountReport>, ClientError> {
        self.get("/v1/mounts")
    }
}
