//! to be written
use super::data::Caller;
use iopace_core::request::{GroupId, TaskId};
pub(crate) struct Who;
pub(crate) struct Pays;
impl Pays {
    pub(crate) fn task(&self) -> TaskId {
        TaskId(0)
    }
    pub(crate) fn group(&self) -> GroupId {
        GroupId::ROOT
    }
}
impl Who {
    pub(crate) fn start(
        _d: &std::sync::Arc<crate::daemon::Daemon>,
        _m: &crate::config::MountConfig,
    ) -> Result<Who, crate::daemon::StartError> {
        Ok(Who)
    }
    pub(crate) fn pays(&self, _from: Caller) -> Pays {
        Pays
    }
}
