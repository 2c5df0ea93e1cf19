//! The control socket's answers about stages pace and window.

use super::api::{DeviceReport, PaceChange, PolicyList, WindowChange};
use super::groups::{Body, body};
use super::routes::{Answer, Name, Refused, Shared, Subject, find};
use super::{change, report};
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/v1/policies", get(policies))
        .route("/v1/devices/{name}/pace", post(change_pace))
        .route("/v1/devices/{name}/window", post(change_window))
}

async fn policies() -> Answer<PolicyList> {
    Answer(report::policies())
}

async fn change_pace(
    State(shared): Subject,
    name: Name,
    sent: Body,
) -> Result<Answer<DeviceReport>, Refused> {
    let change: PaceChange = body(sent, r#"{"policy":"rate"}"#)?;
    let device = find(&shared, name)?;
    change::apply_pace(device, &change)?;
    tracing::info!(device = device.info().name, policy = change.policy, "pacing changed");
    Ok(Answer(report::device(device)))
}

async fn change_window(
    State(shared): Subject,
    name: Name,
    sent: Body,
) -> Result<Answer<DeviceReport>, Refused> {
    let change: WindowChange = body(sent, r#"{"policy":"latency","depth":16}"#)?;
    let device = find(&shared, name)?;
    change::apply_window(device, &change)?;
    let WindowChange { policy, depth } = &change;
    tracing::info!(device = device.info().name, policy, depth, "window changed");
    Ok(Answer(report::device(device)))
}
