//! The control socket's answers about stages pace and window, and about policies that are loaded.
//!
//! A module comes as bytes: whoever sends it has read its file with rights of their own, and the
//! daemon opens no path that somebody else names. It is compiled on a thread of its own, one at a
//! time; requests and other commands go on meanwhile. All else is done on the thread of the control
//! API, as every change is.

use super::Controlled;
use super::admission::Guest;
use super::refused::{Answer, Refused};
use super::shared::{Body, body};
use super::shared::{Name, Shared, Subject, find, name_in, words};
use crate::api::{DeviceReport, LoadedPolicy, PaceChange, PolicyList, Problem, WindowChange};
use crate::change;
use crate::loadable::{self, CompiledPolicy, MODULE_BYTES_MAX, PolicyError};
use crate::report;
use axum::Extension;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use std::path::PathBuf;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(policies, load))
        .routes(routes!(unload))
        .routes(routes!(change_pace))
        .routes(routes!(change_window))
}

/// The policies of stages pace and window, and those that were loaded.
#[utoipa::path(get, path = "/v1/policies",
    responses((status = 200, description = "The policies", body = PolicyList),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn policies() -> Answer<PolicyList> {
    Answer(report::policies())
}

/// Loads a policy: a WebAssembly module becomes a scheduler that can be inserted.
#[utoipa::path(post, path = "/v1/policies", operation_id = "load_policy",
    params(("path" = Option<String>, Query,
            description = "The file that it was read from: told to whoever asks, and not opened"),
        ("replace" = Option<bool>, Query,
            description = "Whether it takes the place of a policy of its name: also on the \
                           devices that have that, which keep their parameters where it has them")),
    request_body(content = String, content_type = "application/wasm",
        description = "The module, at most 4 MiB"),
    responses((status = 200, description = "The policy", body = LoadedPolicy),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn load(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    request: Request,
) -> Result<Answer<LoadedPolicy>, Refused> {
    let [path, of_same_name] = words(request.uri(), ["path", "replace"])?;
    let is_replacing = is_true("replace", of_same_name.as_deref())?;
    let path = PathBuf::from(path.unwrap_or_else(|| "module".into()));
    let turn = Arc::clone(&shared.loads).acquire_owned().await;
    let module = to_bytes(request.into_body(), MODULE_BYTES_MAX as usize).await;
    let module = module.map_err(|_| {
        let hint = format!("send all of it; a policy has at most {MODULE_BYTES_MAX} bytes");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "the module cannot be read", hint)
    })?;
    // It may take longer than an answer has.
    guest.stay();
    let compiled = tokio::task::spawn_blocking(move || {
        // The client may have gone away meanwhile: the next one waits for the end of this.
        (loadable::compile(&path, &module), turn)
    });
    let (compiled, _turn) = compiled.await.map_err(|error| {
        let error = format!("the policy cannot be loaded: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see the log of the daemon")
    })?;
    // Nothing is awaited from here on: nobody changes a device meanwhile.
    match is_replacing {
        true => replace(&*shared.subject, compiled?).map(Answer),
        false => Ok(Answer(compiled?.load()?)),
    }
}

/// Loads a policy in the place of the one of its name, on the devices that have that as well.
///
/// # Errors
/// Its name is taken, or it does not start on one of them; nothing is changed then.
fn replace(subject: &dyn Controlled, compiled: CompiledPolicy) -> Result<LoadedPolicy, Refused> {
    let replacement = compiled.replace()?;
    let policy = replacement.policy.clone();
    let exchanged = change::exchange_policy(&subject.devices(), replacement.algorithm());
    if let Err(refusal) = exchanged {
        replacement.undo();
        return Err(refusal.into());
    }
    Ok(policy)
}

/// A word of the query that is true or false; false if it is not there.
fn is_true(name: &str, word: Option<&str>) -> Result<bool, Refused> {
    match word {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let error = format!("{name}={other} is neither true nor false");
            Err(Refused::new(StatusCode::BAD_REQUEST, error, format!("as in {name}=true")))
        }
    }
}

/// Takes a policy out again, if no device has it.
#[utoipa::path(delete, path = "/v1/policies/{name}", operation_id = "unload_policy",
    params(("name" = String, Path, description = "The policy")),
    responses((status = 200, description = "The policy as it was", body = LoadedPolicy),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
// Nothing is awaited between looking at the devices and the change: nobody inserts it meanwhile.
async fn unload(State(shared): Subject, name: Name) -> Result<Answer<LoadedPolicy>, Refused> {
    let name = name_in(name)?;
    let policy = loadable::find(&name);
    if policy.is_some() {
        change::check_unused(&shared.subject.devices(), &name)?;
    }
    loadable::unload(&name)?;
    policy.map(Answer).ok_or_else(|| {
        let error = PolicyError::Unknown(format!("no policy '{name}' is loaded"));
        error.into()
    })
}

impl From<PolicyError> for Refused {
    /// The messages say what would be right; there is no hint beside them.
    fn from(error: PolicyError) -> Refused {
        let status = match error {
            PolicyError::NotBuilt => StatusCode::NOT_IMPLEMENTED,
            PolicyError::Refused(_) => StatusCode::BAD_REQUEST,
            PolicyError::Taken(_) => StatusCode::CONFLICT,
            PolicyError::Unknown(_) => StatusCode::NOT_FOUND,
        };
        Refused::new(status, error.to_string(), "")
    }
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
