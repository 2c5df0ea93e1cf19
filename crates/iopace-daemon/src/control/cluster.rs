//! The control socket's answers about the host's part in a cluster. What changes it holds on every
//! host: it is for root and the daemon's own user only.

use super::admission::Guest;
use super::exports::{Port, may_open};
use super::refused::{Answer, Refused};
use super::shared::{Body, Shared, Subject, body};
use crate::api::{ClusterState, ForgetHost, Problem, SetShared};
use crate::cluster::{Cluster, ClusterError};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(state)).routes(routes!(set)).routes(routes!(forget))
}

/// The volumes that this host shares with others, with their hosts and limits; none without a part
/// in a cluster.
#[utoipa::path(get, path = "/v1/cluster", operation_id = "cluster",
    responses((status = 200, description = "The cluster", body = ClusterState),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn state(State(shared): Subject) -> Answer<ClusterState> {
    Answer(shared.subject.cluster().map_or_else(ClusterState::default, Cluster::state))
}

/// Sets lines for a file of a group on all hosts of a volume.
#[utoipa::path(post, path = "/v1/cluster/set", operation_id = "set_shared",
    request_body = SetShared,
    responses((status = 200, description = "The cluster", body = ClusterState),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn set(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    by_port: Port,
    sent: Body,
) -> Result<Answer<ClusterState>, Refused> {
    may_open(&guest, by_port, "set what holds on other hosts")?;
    let SetShared { volume, group, file, lines } =
        body(sent, r#"{"group":"/vms","file":"io.max","lines":"pool wbps=100M"}"#)?;
    aside(&shared, move |cluster| cluster.set(volume.as_deref(), (&group, &file, &lines))).await
}

/// Frees the static part of a host that is not there any more.
#[utoipa::path(post, path = "/v1/cluster/forget", operation_id = "forget_host",
    request_body = ForgetHost,
    responses((status = 200, description = "The cluster", body = ClusterState),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn forget(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    by_port: Port,
    sent: Body,
) -> Result<Answer<ClusterState>, Refused> {
    may_open(&guest, by_port, "forget hosts")?;
    let ForgetHost { volume, host } = body(sent, r#"{"host":"node7"}"#)?;
    aside(&shared, move |cluster| cluster.forget(volume.as_deref(), &host)).await
}

/// The store may take seconds: a thread of its own waits for it.
async fn aside(
    shared: &Shared,
    change: impl FnOnce(&Cluster) -> Result<(), ClusterError> + Send + 'static,
) -> Result<Answer<ClusterState>, Refused> {
    let subject = Arc::clone(&shared.subject);
    let changed = tokio::task::spawn_blocking(move || {
        let cluster = subject.cluster().ok_or(ClusterError::NoCluster)?;
        change(cluster)?;
        Ok::<_, ClusterError>(cluster.state())
    });
    let changed = changed.await.map_err(|error| {
        let error = format!("the change failed: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see the log of the daemon")
    })?;
    Ok(Answer(changed?))
}

impl From<ClusterError> for Refused {
    /// The messages say what would be right; there is no hint beside them.
    fn from(error: ClusterError) -> Refused {
        let status = match error {
            ClusterError::NoCluster => StatusCode::NOT_FOUND,
            ClusterError::WhichVolume(_) | ClusterError::NoVolume(..) => StatusCode::BAD_REQUEST,
            ClusterError::Refused(_) => StatusCode::CONFLICT,
        };
        Refused::new(status, error.to_string(), "")
    }
}
