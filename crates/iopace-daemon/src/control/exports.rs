//! The control socket's answers about exports. What changes them is for root and the daemon's own
//! user only, and over the control socket only: whoever has the token of the loopback port could
//! have a daemon of root open any file else, or write to a disk that is exported read-only.

use super::admission::Guest;
use super::port::ByPort;
use super::refused::{Answer, Refused};
use super::shared::{Body, Shared, Subject, body, words};
use crate::api::{AddExport, ExportSize, ExportState, Problem, RemovedExportReport, ResizeExport};
use crate::config::{Backend, DeviceConfig, ExportConfig};
use crate::exporting::{ExportError, RemovedDevice};
use crate::start_error::StartError;
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use std::path::PathBuf;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list, add, remove)).routes(routes!(resize))
}

/// Where a client has come in, if that was the port.
pub(super) type Port = Option<Extension<ByPort>>;

/// The exports, with their devices, sizes and connections.
#[utoipa::path(get, path = "/v1/exports", operation_id = "list_exports",
    responses((status = 200, description = "The exports", body = Vec<ExportState>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn list(State(shared): Subject) -> Answer<Vec<ExportState>> {
    Answer(shared.subject.export_states())
}

/// Exports a device that is open, or one that is opened for it, under a new name.
#[utoipa::path(post, path = "/v1/exports", operation_id = "add_export", request_body = AddExport,
    responses((status = 200, description = "The export", body = ExportState),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn add(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    by_port: Port,
    sent: Body,
) -> Result<Answer<ExportState>, Refused> {
    let asked: AddExport = body(sent, r#"{"name":"disk2","path":"/srv/disk2.img"}"#)?;
    let (export, device) = taken_apart(asked)?;
    may_open(&guest, by_port, "add exports")?;
    let name = export.name.clone();
    let all = aside(&shared, move |subject| {
        subject.add_export(export, device.as_ref())?;
        Ok(subject.export_states())
    });
    let added = all.await?.into_iter().find(|export| export.name == name);
    added.map(Answer).ok_or_else(|| ExportError::NoExport { name, known: Vec::new() }.into())
}

/// Removes an export. Its device is closed with its last export if it was opened since the start.
#[utoipa::path(delete, path = "/v1/exports", operation_id = "remove_export",
    params(("export" = String, Query, description = "The export"),
        ("disconnect" = Option<bool>, Query, description = "Answer what its clients have asked \
            for, and end them; else it is refused while there are any")),
    responses((status = 200, description = "It is removed", body = RemovedExportReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn remove(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    by_port: Port,
    uri: Uri,
) -> Result<Answer<RemovedExportReport>, Refused> {
    may_open(&guest, by_port, "remove exports")?;
    let [name, disconnect] = words(&uri, ["export", "disconnect"])?;
    let name = name.ok_or_else(|| {
        let hint = "add it to the query: ?export=disk";
        Refused::new(StatusCode::BAD_REQUEST, "which export is not said", hint)
    })?;
    let disconnects = match disconnect.as_deref() {
        None | Some("false") => false,
        Some("true" | "") => true,
        Some(_) => {
            let error = "disconnect is true or false";
            return Err(Refused::new(StatusCode::BAD_REQUEST, error, "leave it out, or say true"));
        }
    };
    let removed = aside(&shared, move |subject| {
        let all = subject.export_states();
        let removed = subject.remove_export(&name, disconnects)?;
        let device = all.into_iter().find(|export| export.name == name);
        let device = device.map(|export| export.device).unwrap_or_default();
        let device_closed = removed.device != RemovedDevice::Open;
        let file_open = removed.device != RemovedDevice::Closed;
        let (ended_count, may_be_lost) = (removed.ended_count, removed.may_be_lost);
        Ok(RemovedExportReport { name, device, ended_count, device_closed, file_open, may_be_lost })
    });
    removed.await.map(Answer)
}

/// Has an export reach as far as its file or disk does, which is made longer if a size is named.
#[utoipa::path(post, path = "/v1/exports/resize", operation_id = "resize_export",
    request_body = ResizeExport,
    responses((status = 200, description = "Its size", body = ExportSize),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn resize(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    by_port: Port,
    sent: Body,
) -> Result<Answer<ExportSize>, Refused> {
    may_open(&guest, by_port, "resize exports")?;
    let ResizeExport { export, size_bytes } =
        body(sent, r#"{"export":"disk","size_bytes":1073741824}"#)?;
    let resized = aside(&shared, move |subject| {
        let (before_bytes, size_bytes) = subject.resize_export(&export, size_bytes)?;
        let all = subject.export_states();
        let device = all.iter().find(|one| one.name == export);
        let device = device.map(|one| one.device.clone()).unwrap_or_default();
        let of_it = all.iter().filter(|one| one.device == device);
        let connections_count = of_it.map(|one| one.connections_count).sum();
        Ok(ExportSize { export, device, before_bytes, size_bytes, connections_count })
    });
    resized.await.map(Answer)
}

/// Changes of exports wait for disks and clients: a thread of their own does so.
async fn aside<T: Send + 'static>(
    shared: &Shared,
    change: impl FnOnce(&dyn super::Controlled) -> Result<T, ExportError> + Send + 'static,
) -> Result<T, Refused> {
    let subject = std::sync::Arc::clone(&shared.subject);
    let changed = tokio::task::spawn_blocking(move || change(&*subject)).await;
    let changed = changed.map_err(|error| {
        let error = format!("the change failed: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see the log of the daemon")
    })?;
    Ok(changed?)
}

/// Whether this client may do what reaches beyond the daemon.
pub(super) fn may_open(guest: &Guest, by_port: Port, what: &str) -> Result<(), Refused> {
    let own = rustix::process::geteuid().as_raw();
    let is_own = guest.uid().is_some_and(|uid| uid == 0 || uid == own);
    if is_own && by_port.is_none() {
        // It may take longer than an answer has.
        guest.stay();
        return Ok(());
    }
    let error = format!("only root and the daemon's own user may {what}, over the control socket");
    Err(Refused::new(StatusCode::FORBIDDEN, error, "run it as root, or as the daemon's user"))
}

/// What is asked for, in the words of a configuration.
fn taken_apart(asked: AddExport) -> Result<(ExportConfig, Option<DeviceConfig>), Refused> {
    let AddExport { name, device, path, group, read_only, require_tls, raw, direct } = asked;
    let wrong = |error: &str, hint: &str| Err(Refused::new(StatusCode::BAD_REQUEST, error, hint));
    let opened = match (&device, path.map(PathBuf::from)) {
        (None, Some(path)) if path.is_absolute() => {
            let config = DeviceConfig::new(name.clone(), Backend::Path(path));
            Some(DeviceConfig { read_only, raw, direct, ..config })
        }
        (None, Some(_)) => return wrong("the path is not absolute", "as in /srv/disk2.img"),
        (Some(_), None) if raw || direct => {
            return wrong("'raw' and 'direct' are of a device that is opened", "leave them out");
        }
        (Some(_), None) => None,
        (None, None) | (Some(_), Some(_)) => {
            return wrong("what is to be exported is said once", "say 'device' or 'path'");
        }
    };
    let device = device.unwrap_or_else(|| name.clone());
    let mut export = ExportConfig::new(name, device);
    (export.read_only, export.needs_tls) = (read_only, require_tls);
    export.group = group.unwrap_or(export.group);
    Ok((export, opened))
}

impl From<ExportError> for Refused {
    /// The messages say what would be right; there is no hint beside them.
    fn from(error: ExportError) -> Refused {
        tracing::debug!(%error, "refused");
        let status = match error {
            ExportError::Group(error) => return error.into(),
            ExportError::NoExport { .. }
            | ExportError::NoDevice { .. }
            | ExportError::Open(StartError::Missing(_)) => StatusCode::NOT_FOUND,
            ExportError::Name => StatusCode::BAD_REQUEST,
            _ => StatusCode::CONFLICT,
        };
        Refused::new(status, error.to_string(), "")
    }
}
