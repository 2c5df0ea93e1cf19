//! The control socket's answers about stages pace and window.

use super::refused::{Answer, Refused};
use super::shared::{Body, body};
use super::shared::{Name, Shared, Subject, find};
use crate::api::{DeviceReport, PaceChange, PolicyList, Problem, WindowChange};
use crate::{change, report};
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(policies))
        .routes(routes!(change_pace))
        .routes(routes!(change_window))
}

/// The policies of stages pace and window.
#[utoipa::path(get, path = "/v1/policies",
    responses((status = 200, description = "The policies", body = PolicyList),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn policies() -> Answer<PolicyList> {
    Answer(report::policies())
}

/// Exchanges the policy of stage pace.
#[utoipa::path(post, path = "/v1/devices/{name}/pace",
    params(("name" = String, Path, description = "The device")),
    request_body = PaceChange,
    responses((status = 200, description = "The device as it is then", body = DeviceReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn change_pace(
    State(shared): Subject,
    name: Name,
    sent: Body,
) -> Result<Answer<DeviceReport>, Refused> {
    let change: PaceChange = body(sent, r#"{"policy":"rate"}"#)?;
    let device = &*find(&shared, name)?;
    change::apply_pace(device, &change)?;
    tracing::info!(device = device.info().name, policy = change.policy, "pacing changed");
    Ok(Answer(report::device(device)))
}

/// Exchanges the policy of stage window, or sets its depth.
#[utoipa::path(post, path = "/v1/devices/{name}/window",
    params(("name" = String, Path, description = "The device")),
    request_body = WindowChange,
    responses((status = 200, description = "The device as it is then", body = DeviceReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn change_window(
    State(shared): Subject,
    name: Name,
    sent: Body,
) -> Result<Answer<DeviceReport>, Refused> {
    let change: WindowChange = body(sent, r#"{"policy":"latency","depth":16}"#)?;
    let device = &*find(&shared, name)?;
    change::apply_window(device, &change)?;
    let WindowChange { policy, depth } = &change;
    tracing::info!(device = device.info().name, policy, depth, "window changed");
    Ok(Answer(report::device(device)))
}
