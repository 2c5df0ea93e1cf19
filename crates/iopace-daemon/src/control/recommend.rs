//! The control socket's answers about recommend mode.

use super::refused::{Answer, Refused};
use super::shared::{Body, body};
use super::shared::{Name, Shared, Subject, find};
use crate::api::{
    ClientsWord, Problem, RecommendChange, RecommendFile, RecommendReport, RecommendedReport,
    TimesReport, TriedGroup,
};
use crate::change::recommend::{apply, is_set_explicitly};
use crate::clock;
use crate::device::Device;
use crate::report::{self, stages};
use axum::extract::State;
use iopace_core::engine::Engine;
use iopace_core::request::GroupId;
use iopace_core::sched;
use iopace_core::shadow::{Clients, GroupReport, Plan, View};
use iopace_core::stats::SmallHistogram;
use iopace_core::{pace, window};
use std::collections::BTreeMap;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Of fewer requests of a group it is not said that they would be served sooner.
const SOONER_COUNT: u64 = 8;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(recommended, recommend, end))
        .routes(routes!(recommend_group))
}

/// What is tried beside a device, and what it would have done.
#[utoipa::path(get, path = "/v1/devices/{name}/recommend",
    params(("name" = String, Path, description = "The device")),
    responses((status = 200, description = "What it would have done", body = RecommendReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn recommended(
    State(shared): Subject,
    name: Name,
) -> Result<Answer<RecommendReport>, Refused> {
    Ok(Answer(told(&shared, &*find(&shared, name)?)))
}

/// Tries settings beside those of a device, from the beginning.
#[utoipa::path(post, path = "/v1/devices/{name}/recommend",
    params(("name" = String, Path, description = "The device")),
    request_body = RecommendChange,
    responses((status = 200, description = "What is tried then", body = RecommendReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn recommend(
    State(shared): Subject,
    name: Name,
    sent: Body,
) -> Result<Answer<RecommendReport>, Refused> {
    let change: RecommendChange = body(sent, r#"{"scheduler":"fair","pace":"rate"}"#)?;
    let device = &*find(&shared, name)?;
    apply(device, &change)?;
    tracing::info!(device = device.info().name, ?change, "recommend mode");
    Ok(Answer(told(&shared, device)))
}

/// Ends what is tried beside a device, for groups too.
#[utoipa::path(delete, path = "/v1/devices/{name}/recommend",
    params(("name" = String, Path, description = "The device")),
    responses((status = 200, description = "Nothing is tried then", body = RecommendReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn end(State(shared): Subject, name: Name) -> Result<Answer<RecommendReport>, Refused> {
    let device = &*find(&shared, name)?;
    let before = told(&shared, device);
    shared.subject.groups().end_recommend(&device.info().name);
    tracing::info!(device = device.info().name, "recommend mode ended");
    Ok(Answer(before))
}

/// Tries lines of a file of a group, on the devices that they are about.
#[utoipa::path(post, path = "/v1/groups/recommend", operation_id = "recommend_group",
    request_body = RecommendFile,
    responses((status = 200, description = "What is tried on each device then",
            body = Vec<RecommendReport>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn recommend_group(
    State(shared): Subject,
    sent: Body,
) -> Result<Answer<Vec<RecommendReport>>, Refused> {
    let example = r#"{"group":"/backup","file":"io.max","text":"disk wbps=10M"}"#;
    let RecommendFile { group, file, text } = body(sent, example)?;
    shared.subject.groups().recommend(&group, file.as_deref(), text.as_deref())?;
    tracing::info!(group, file, text, "group in recommend mode");
    let devices = shared.subject.devices();
    Ok(Answer(devices.iter().map(|device| told(&shared, &**device)).collect()))
}

fn tried(shared: &Shared, device: &str) -> Vec<TriedGroup> {
    let all = shared.subject.groups().tried(device).into_iter();
    all.map(|(group, files)| TriedGroup { group, files }).collect()
}

/// What is tried beside a device, as of the oldest request that has not ended.
fn told(shared: &Shared, device: &dyn Device) -> RecommendReport {
    // What has come to its end since the last request is counted first.
    device.tick();
    let mut report = RecommendReport {
        device: device.info().name.clone(),
        active: false,
        age_ns: 0,
        plan: RecommendChange::default(),
        default_scheduler: false,
        worse_than_default: Vec::new(),
        tried: tried(shared, &device.info().name),
        failed: None,
        waiting_count: 0,
        missed_count: 0,
        all: RecommendedReport::default(),
        groups: Vec::new(),
    };
    let named = shared.subject.groups().named().into_iter();
    let paths: BTreeMap<GroupId, String> = named.map(|named| (named.id, named.path)).collect();
    device.look(&mut |engine: &Engine, _| {
        if let Some(view) = engine.recommendation() {
            fill(&mut report, &view, &paths);
        }
    });
    report.default_scheduler = report.active && is_default(&report.plan);
    if report.default_scheduler && is_set_explicitly(&device.status().engine) {
        let groups = report.groups.iter().filter(|group| is_served_sooner(group));
        report.worse_than_default = groups.map(|group| group.group.clone()).collect();
    }
    report
}

fn fill(report: &mut RecommendReport, view: &View<'_>, paths: &BTreeMap<GroupId, String>) {
    report.active = true;
    report.age_ns = clock::now().since(view.since).as_nanos();
    report.plan = in_words(view.plan);
    report.failed = view.failed.map(str::to_owned);
    report.waiting_count = view.waiting_count;
    report.missed_count = view.report.missed_count;
    report.all = recommended_group(String::new(), &view.report.all);
    let groups = view.report.groups.iter().filter_map(|(id, group)| {
        let path = paths.get(id)?;
        Some(recommended_group(path.clone(), group))
    });
    report.groups = groups.collect();
    report.groups.sort_by(|a, b| a.group.cmp(&b.group));
}

/// Whether the scheduler that is tried is the one that a device has for which none is named.
fn is_default(plan: &RecommendChange) -> bool {
    let default = sched::recommended();
    plan.scheduler.as_deref() == Some(default.name)
        && plan.set == report::params(&default.defaults())
}

/// Whether what is tried serves the group's requests in three quarters of the time that they took
/// live or less, and nearly all of them.
fn is_served_sooner(group: &RecommendedReport) -> bool {
    let is_sooner =
        group.recommended.mean_ns.saturating_mul(4) <= group.live.mean_ns.saturating_mul(3);
    let is_served = group.served_count.saturating_mul(10) >= group.live_count.saturating_mul(9);
    group.recommended.count >= SOONER_COUNT && is_sooner && is_served
}

fn in_words(plan: &Plan) -> RecommendChange {
    let Plan { scheduler, pace, window, window_depth, nr_requests, clients } = plan;
    RecommendChange {
        scheduler: scheduler.as_ref().map(|(algorithm, _)| algorithm.name.into()),
        set: scheduler.as_ref().map(|(_, params)| report::params(params)).unwrap_or_default(),
        pace: pace.map(|policy: &pace::PacePolicy| policy.name.into()),
        window: window.map(|policy: &window::WindowPolicy| policy.name.into()),
        depth: *window_depth,
        nr_requests: *nr_requests,
        clients: match clients {
            Clients::Closed => ClientsWord::Closed,
            Clients::Open => ClientsWord::Open,
        },
    }
}

fn recommended_group(group: String, from: &GroupReport) -> RecommendedReport {
    let mean = from.hastened.as_nanos().checked_div(from.hastened_count);
    RecommendedReport {
        group,
        live_count: from.live_count,
        live_bytes: from.live_bytes,
        served_count: from.served_count,
        served_bytes: from.served_bytes,
        delays: times(&from.delays),
        hastened_count: from.hastened_count,
        hastened_mean_ns: mean.unwrap_or_default(),
        live: times(&from.live),
        recommended: times(&from.shadow),
        live_stages: stages(&from.live_times),
        recommended_stages: stages(&from.shadow_times),
    }
}

fn times(histogram: &SmallHistogram) -> TimesReport {
    TimesReport {
        count: histogram.count(),
        mean_ns: histogram.mean().as_nanos(),
        p50_ns: histogram.quantile(500).as_nanos(),
        p99_ns: histogram.quantile(990).as_nanos(),
        max_ns: histogram.max().as_nanos(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::recommend::plan;
    use iopace_core::sched::AUTO;

    #[test]
    fn who_is_worse_off_without_the_default_is_told() {
        let group = |live_ms: u64, tried_ms: u64, [live_count, served_count]: [u64; 2]| {
            let times = |ms: u64| TimesReport {
                count: served_count,
                mean_ns: ms * 1_000_000,
                ..TimesReport::default()
            };
            RecommendedReport {
                live_count,
                served_count,
                live: times(live_ms),
                recommended: times(tried_ms),
                ..RecommendedReport::default()
            }
        };
        assert!(is_served_sooner(&group(60, 45, [100, 90])));
        assert!(!is_served_sooner(&group(60, 46, [100, 100])), "not by a quarter");
        assert!(!is_served_sooner(&group(60, 10, [100, 89])), "fewer are served");
        assert!(!is_served_sooner(&group(60, 10, [7, 7])), "too few to tell");
    }

    #[test]
    fn the_default_is_tried_by_its_word_and_told_by_its_name() {
        let named = |name: &str, wait_ms: Option<u64>| RecommendChange {
            scheduler: Some(name.into()),
            set: wait_ms.map(|wait| ("wait_ms".to_owned(), wait)).into_iter().collect(),
            ..RecommendChange::default()
        };
        let told = |change: RecommendChange| in_words(&plan(&change).expect("a legal plan"));
        assert!(is_default(&told(named(AUTO, None))) && is_default(&told(named("fair", None))));
        assert!(
            !is_default(&told(named("fair", Some(3)))) && !is_default(&told(named("rr", None)))
        );
        assert!(plan(&named(AUTO, Some(3))).is_err());
    }
}
