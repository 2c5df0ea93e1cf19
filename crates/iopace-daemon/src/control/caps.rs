//! The control socket's answers about caps of processes.

use super::admission::Guest;
use super::refused::{Answer, Refused};
use super::shared::{Body, body};
use super::shared::{Name, Shared, Subject, find};
use crate::api::{CapChange, CapReport, CapsReport, Problem};
use crate::caps::{self, Capped, NotOwned};
use crate::change::{self, Refusal};
use crate::device::Device;
use crate::process::{Proc, Process};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use core::num::NonZeroU64;
use iopace_core::engine::Control;
use iopace_core::pace;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list, set))
}

/// Processes whose writes to a device are capped.
#[utoipa::path(get, path = "/v1/devices/{name}/pace/caps", operation_id = "list_caps",
    params(("name" = String, Path, description = "The device")),
    responses((status = 200, description = "The caps", body = CapsReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn list(State(shared): Subject, name: Name) -> Result<Answer<CapsReport>, Refused> {
    let device = &*find(&shared, name)?;
    Ok(Answer(report(device, &*shared.subject.groups().proc())))
}

/// Caps a process, or lifts its cap.
#[utoipa::path(post, path = "/v1/devices/{name}/pace/caps", operation_id = "set_cap",
    params(("name" = String, Path, description = "The device")),
    request_body = CapChange,
    responses((status = 200, description = "The caps as they are then", body = CapsReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn set(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    name: Name,
    sent: Body,
) -> Result<Answer<CapsReport>, Refused> {
    let CapChange { pid, bytes_s } = body(sent, r#"{"pid":4711,"bytes_s":5242880}"#)?;
    let device = &*find(&shared, name)?;
    let name = &device.info().name;
    if device.status().memory.is_none() {
        return Err(change::nothing_to_pace(device).into());
    }
    if !shared.subject.mounts().iter().any(|mount| mount.device == *name) {
        return Err(Refused::from(Refusal::Conflict {
            error: format!("no directory is mounted through device '{name}'"),
            hint: "its writers are connections, not processes: limit their group with 'iopace \
                   group set' (io.max)"
                .into(),
        }));
    }
    let proc = shared.subject.groups().proc();
    let process = caps::owned(&*proc, pid, guest.uid()).map_err(|why| not_owned(pid, why))?;
    apply(device, &*proc, process, bytes_s)?;
    tracing::info!(device = name, pid = process.pid, bytes_s, "cap of a process changed");
    Ok(Answer(report(device, &*proc)))
}

fn not_owned(pid: u32, why: NotOwned) -> Refused {
    match why {
        NotOwned::Gone => {
            let hint = "'iopace group processes' lists those that use a mount";
            Refused::new(StatusCode::NOT_FOUND, format!("there is no process {pid}"), hint)
        }
        NotOwned::Foreign(user) => {
            let error = format!("process {pid} belongs to user {user}");
            let hint = "only root and the user that a process belongs to may cap it";
            Refused::new(StatusCode::FORBIDDEN, error, hint)
        }
    }
}

/// Carries out a change; caps of processes that have ended make room first.
fn apply(
    device: &dyn Device,
    proc: &dyn Proc,
    process: Process,
    bytes_s: Option<u64>,
) -> Result<(), Refusal> {
    caps::forget_ended(device, proc);
    let rate = bytes_s.map(|rate| {
        NonZeroU64::new(rate).ok_or_else(|| Refusal::Illegal {
            error: "a cap of 0 bytes per second would stop the process".into(),
            hint: "leave 'bytes_s' out to lift its cap ('max')".into(),
        })
    });
    let control = Control::TaskCap(process.into(), rate.transpose()?);
    device.control(control).map_err(|error| change::conflict(device, &error))
}

fn report(device: &dyn Device, proc: &dyn Proc) -> CapsReport {
    let caps = caps::list(device, proc).into_iter();
    let caps = caps.map(|Capped { pid, user, program, rate }| {
        let bytes_s = rate.get();
        CapReport { pid, user, program, bytes_s }
    });
    let policy = device.status().engine.pace;
    let (held, caps) = (pace::holds_caps(policy), caps.collect());
    CapsReport { device: device.info().name.clone(), policy: policy.name.into(), held, caps }
}
