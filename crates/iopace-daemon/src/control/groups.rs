//! The control socket's answers about groups.

use super::refused::{Answer, Refused};
use super::shared::{Body, Shared, Subject, body, words};
use crate::api::{
    CgroupWritten, ConnectionReport, CreateGroup, EffectiveReport, FileReport, GroupDeviceStat,
    GroupReport, GroupStat, Move, Problem, ProcessReport, ProcessesReport, Removed, SOURCE_CLUSTER,
    SettingWarning, StatReport, WriteCgroup, WriteFile, Written,
};
use crate::device::GroupStatus;
use crate::groups::{
    CgroupOf, ConnectionInfo, GroupError, GroupInfo, GroupOnDevice, Groups, ProcessInfo, Warning,
};
use crate::limits::PROCESSES_LISTED_MAX;
use crate::report;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use iopace_groups::files::{Explained, FILES, FileProblem, FileSpec, Source};
use iopace_groups::tree::TreeError;
use std::collections::BTreeMap;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Most groups in one answer about what they did: some 500 bytes each for every device.
pub const STAT_GROUPS_MAX: usize = 4_096;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, create, remove))
        .routes(routes!(read, write))
        .routes(routes!(write_cgroup))
        .routes(routes!(move_to))
        .routes(routes!(stat))
        .routes(routes!(connections))
        .routes(routes!(processes))
}

fn needed(group: Option<String>) -> Result<String, Refused> {
    group.ok_or_else(|| {
        let hint = "add it to the query: ?group=/vms/web";
        Refused::new(StatusCode::BAD_REQUEST, "which group is not said", hint)
    })
}

impl From<GroupError> for Refused {
    /// The messages of the core say what would be right; there is no hint beside them.
    fn from(error: GroupError) -> Refused {
        tracing::debug!(%error, "refused");
        Refused::new(status(&error), error.to_string(), "")
    }
}

fn status(error: &GroupError) -> StatusCode {
    use GroupError as Error;
    match error {
        Error::Tree(TreeError::NotFound { .. })
        | Error::ExportGone
        | Error::NoExport { .. }
        | Error::NoConnection(_)
        | Error::NoProcess(_)
        | Error::NoDevice { .. } => StatusCode::NOT_FOUND,
        Error::Tree(TreeError::BadPath { .. } | TreeError::TooDeep { .. }) => {
            StatusCode::BAD_REQUEST
        }
        Error::Tree(_)
        | Error::NoMount
        | Error::TooManyMoved
        | Error::SeveralOn { .. }
        | Error::Cgroup { .. }
        | Error::Processes { .. }
        | Error::Rule { .. } => StatusCode::CONFLICT,
        Error::File(error) => match error.problem {
            FileProblem::UnknownFile => StatusCode::NOT_FOUND,
            FileProblem::Nesting => StatusCode::CONFLICT,
            FileProblem::ReadOnly | FileProblem::UnknownDevice | FileProblem::Malformed => {
                StatusCode::BAD_REQUEST
            }
        },
    }
}

/// A group and all below it, depth first.
#[utoipa::path(get, path = "/v1/groups", operation_id = "list_groups",
    params(("group" = Option<String>, Query, description = "Its path; the root without it")),
    responses((status = 200, description = "The groups", body = Vec<GroupReport>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn list(State(shared): Subject, uri: Uri) -> Result<Answer<Vec<GroupReport>>, Refused> {
    let [group] = words(&uri, ["group"])?;
    let groups = shared.subject.groups();
    let all = groups.list(group.as_deref().unwrap_or("/"))?;
    let report = |info: GroupInfo| {
        let cluster_files = groups.shared_files(&info.path);
        GroupReport { cluster_files, ..group_report(info) }
    };
    Ok(Answer(all.into_iter().map(report).collect()))
}

/// Makes a group.
#[utoipa::path(post, path = "/v1/groups", operation_id = "create_group",
    request_body = CreateGroup,
    responses((status = 200, description = "The group", body = GroupReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn create(State(shared): Subject, sent: Body) -> Result<Answer<GroupReport>, Refused> {
    let example = r#"{"group":"/vms/web","parents":true}"#;
    let CreateGroup { group, parents, temporary } = body(sent, example)?;
    let groups = shared.subject.groups();
    let info = match temporary {
        true => groups.create_temporary(&group, parents)?,
        false => groups.create(&group, parents)?,
    };
    tracing::info!(group, "group made");
    Ok(Answer(group_report(info)))
}

/// Removes a group.
#[utoipa::path(delete, path = "/v1/groups", operation_id = "remove_group",
    params(("group" = String, Query, description = "Its path")),
    responses((status = 200, description = "It is gone", body = Removed),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn remove(State(shared): Subject, uri: Uri) -> Result<Answer<Removed>, Refused> {
    let [group] = words(&uri, ["group"])?;
    let group = needed(group)?;
    let of_cluster = shared.subject.groups().shared_files(&group);
    if let Some((file, lines)) = of_cluster.first_key_value() {
        let volume = lines.split_whitespace().next().unwrap_or_default();
        let error = format!("{group} is not removed: {file} is set for it on all hosts");
        let hint = format!(
            "it would be made again: 'iopace group set --cluster {group} {file} \'{volume} \
             default\'' takes that away first"
        );
        return Err(Refused::new(StatusCode::CONFLICT, error, hint));
    }
    shared.subject.groups().remove(&group)?;
    tracing::info!(group, "group removed");
    Ok(Answer(Removed { group }))
}

/// The files of a group, and what holds on each device and why.
#[utoipa::path(get, path = "/v1/groups/files", operation_id = "read_group_files",
    params(("group" = String, Query, description = "Its path"),
        ("file" = Option<String>, Query, description = "Only this file"),
        ("device" = Option<String>, Query, description = "Effective values on this device only")),
    responses((status = 200, description = "The files", body = Vec<FileReport>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn read(State(shared): Subject, uri: Uri) -> Result<Answer<Vec<FileReport>>, Refused> {
    let [group, file, device] = words(&uri, ["group", "file", "device"])?;
    let (group, groups) = (needed(group)?, shared.subject.groups());
    if let Some(name) = file.as_deref().filter(|name| spec(name).is_none()) {
        // The core's words for it.
        groups.read(&group, name)?;
    }
    let chosen = FILES.iter().filter(|spec| file.as_deref().is_none_or(|name| name == spec.name));
    let reports = chosen.map(|spec| {
        let text = groups.read(&group, spec.name)?;
        let effective = match spec.writable {
            true => groups.effective(&group, Some(spec.name), device.as_deref())?,
            false => Vec::new(),
        };
        Ok(FileReport {
            group: group.clone(),
            file: spec.name.into(),
            summary: spec.summary.into(),
            writable: spec.writable,
            text,
            effective: shared_values(groups, (&group, spec.name), device.as_deref())
                .into_iter()
                .chain(effective.into_iter().map(effective_report))
                .collect(),
        })
    });
    Ok(Answer(reports.collect::<Result<_, GroupError>>()?))
}

/// The values of a file that are set for all hosts, on the devices that are asked about.
fn shared_values(
    groups: &Groups,
    (group, file): (&str, &'static str),
    device: Option<&str>,
) -> Vec<EffectiveReport> {
    let all = groups.shared_devices().into_iter();
    let value = |name: String| {
        let shared = groups.shared(&name)?;
        let value = shared.values.get(&(group.to_owned(), file))?.clone();
        Some(EffectiveReport { device: name, value, source: SOURCE_CLUSTER.into() })
    };
    all.filter(|name| device.is_none_or(|device| device == name)).filter_map(value).collect()
}

fn spec(name: &str) -> Option<&'static FileSpec> {
    FILES.iter().find(|spec| spec.name == name)
}

/// Writes lines to a file of a group.
#[utoipa::path(post, path = "/v1/groups/files", operation_id = "write_group_file",
    request_body = WriteFile,
    responses((status = 200, description = "What holds now", body = Written),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn write(State(shared): Subject, sent: Body) -> Result<Answer<Written>, Refused> {
    let example = r#"{"group":"/vms/web","file":"io.max","text":"disk rbps=10M"}"#;
    let WriteFile { group, file, text, parents } = body(sent, example)?;
    let groups = shared.subject.groups();
    let changed_devices = match parents {
        true => groups.write_making(&group, &file, &text)?,
        false => groups.write(&group, &file, &text)?,
    };
    tracing::info!(group, file, ?changed_devices, "group set");
    let text = groups.read(&group, &file)?;
    let warnings = groups.warnings(&group, Some(&file)).into_iter().map(warning).collect();
    Ok(Answer(Written { group, file, text, changed_devices, warnings }))
}

fn warning(warning: Warning) -> SettingWarning {
    tracing::warn!("{warning}");
    let Warning { device, text, command, .. } = warning;
    SettingWarning { device, text, command }
}

/// Writes lines to files of the group of a container, which goes with its cgroup.
#[utoipa::path(post, path = "/v1/groups/cgroup", operation_id = "write_cgroup",
    request_body = WriteCgroup,
    responses((status = 200, description = "The groups", body = CgroupWritten),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn write_cgroup(
    State(shared): Subject,
    sent: Body,
) -> Result<Answer<CgroupWritten>, Refused> {
    let example = r#"{"pid":4711,"files":{"io.max":"default wbps=10M"}}"#;
    let WriteCgroup { pid, above, files } = body(sent, example)?;
    let groups = shared.subject.groups();
    let written = groups.write_cgroup(CgroupOf { pid, above }, &files)?;
    tracing::info!(groups = ?written, ?files, "groups of a container set");
    let all = written.iter().flat_map(|group| files.keys().map(move |file| (group, file)));
    let warnings = all.flat_map(|(group, file)| groups.warnings(group, Some(file)));
    let warnings = warnings.map(warning).collect();
    Ok(Answer(CgroupWritten { groups: written, warnings }))
}

/// Moves an export, a connection or a process to a group.
#[utoipa::path(post, path = "/v1/groups/move", operation_id = "move_to_group",
    request_body = Move,
    responses((status = 200, description = "The group as it is then", body = GroupReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn move_to(State(shared): Subject, sent: Body) -> Result<Answer<GroupReport>, Refused> {
    let example = r#"{"export":"disk","group":"/vms/web"} or {"connection":7,"group":"/vms/web"}"#;
    let moved: Move = body(sent, example)?;
    let groups = shared.subject.groups();
    match (&moved.export, moved.connection, moved.pid) {
        (Some(export), None, None) => groups.move_export(export, &moved.group)?,
        (None, Some(number), None) => {
            groups.move_connection(number, &moved.group)?;
        }
        (None, None, Some(pid)) => {
            groups.move_process(pid, &moved.group)?;
        }
        _ => {
            let error = "one of 'export', 'connection' and 'pid' is moved at a time";
            return Err(Refused::new(StatusCode::BAD_REQUEST, error, format!("as in {example}")));
        }
    }
    let Move { export, connection, pid, group } = &moved;
    tracing::info!(export, connection, pid, group, "moved");
    // Nothing is awaited since the move, and there is one thread: the group is still there.
    let mut list = groups.list(group)?;
    Ok(Answer(group_report(list.swap_remove(0))))
}

/// What a group and those below it did on each device.
#[utoipa::path(get, path = "/v1/groups/stat", operation_id = "group_stat",
    params(("group" = Option<String>, Query, description = "Its path; the root without it")),
    responses((status = 200, description = "What they did", body = StatReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn stat(State(shared): Subject, uri: Uri) -> Result<Answer<StatReport>, Refused> {
    let [group] = words(&uri, ["group"])?;
    let path = group.as_deref().unwrap_or("/");
    let (groups, left_out_count) = shared.subject.groups().stat(path, STAT_GROUPS_MAX)?;
    let groups = groups.iter().map(|(group, devices)| GroupStat {
        group: group.clone(),
        devices: devices.iter().map(device_stat).collect(),
    });
    Ok(Answer(StatReport { groups: groups.collect(), left_out_count }))
}

/// NBD connections with an export open.
#[utoipa::path(get, path = "/v1/connections",
    responses((status = 200, description = "The connections", body = Vec<ConnectionReport>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn connections(State(shared): Subject) -> Answer<Vec<ConnectionReport>> {
    let all = shared.subject.groups().connections().into_iter();
    let reports = all.map(|one: ConnectionInfo| ConnectionReport {
        connection: one.number,
        export: one.export,
        group: one.group,
        moved: one.is_moved,
        certificate: one.certificate,
    });
    Answer(reports.collect())
}

/// Processes that use a mount.
#[utoipa::path(get, path = "/v1/processes",
    responses((status = 200, description = "The processes", body = ProcessesReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn processes(State(shared): Subject) -> Answer<ProcessesReport> {
    let (all, left_out_count) = shared.subject.groups().processes(PROCESSES_LISTED_MAX);
    let reports = all.into_iter().map(|ProcessInfo { pid, program, group, is_moved }| {
        ProcessReport { pid, program, group, moved: is_moved }
    });
    Answer(ProcessesReport { processes: reports.collect(), left_out_count })
}

fn group_report(info: GroupInfo) -> GroupReport {
    let texts = |files: BTreeMap<&str, String>| -> BTreeMap<String, String> {
        files.into_iter().map(|(file, text)| (file.into(), text)).collect()
    };
    GroupReport {
        group: info.path,
        exports: info.exports,
        connections: info.connections,
        processes_count: info.processes_count,
        made: info.is_made,
        files: texts(info.files),
        cgroup_files: texts(info.cgroup_files),
        cluster_files: BTreeMap::new(),
    }
}

fn effective_report(Explained { device, value, source, .. }: Explained) -> EffectiveReport {
    let source = match source {
        Source::Device => "device",
        Source::Group => "group",
        Source::Cgroup => "cgroup",
        Source::DeviceDefault => "device default",
        Source::BuiltIn => "built in",
    };
    EffectiveReport { device, value, source: source.into() }
}

fn device_stat(GroupOnDevice { device, status }: &GroupOnDevice) -> GroupDeviceStat {
    let GroupStatus { account, slots, dirty, pace, .. } = status;
    let counts = &account.counts;
    GroupDeviceStat {
        device: device.clone(),
        rbytes: counts.read.get(),
        wbytes: counts.written.get(),
        rios: counts.reads_count,
        wios: counts.writes_count,
        dbytes: counts.discarded.get(),
        dios: counts.discards_count,
        fios: counts.flushes_count,
        failed: counts.failed_count,
        buffered_bytes: counts.buffered.get(),
        buffered_ios: counts.paced_count,
        stages: report::stages(&counts.stages),
        waits: report::waits(&counts.stages),
        latency: account.latency.as_deref().map(report::times).unwrap_or_default(),
        slots_taken_count: slots.taken_count,
        waiting_count: slots.waiting_count,
        dirty_bytes: dirty.group.get(),
        pace: pace.as_ref().map(|picture| report::picture(picture, dirty.group)),
        pressure: account.pressure.to_string(),
    }
}
