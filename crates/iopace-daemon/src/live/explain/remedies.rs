//! Which setting would change a cause, as a command line, and what others pay for it.

use super::super::limits::Rate;
use super::super::span::{chain, is_within};
use super::holdings::Holders;
use super::words::{SlotCause, limits, slot_cause};
use super::{Case, OWN_PERMILLE, changes};
use crate::api::{NARROWED_BY_HOSTS, Remedy, RemedyChange};
use crate::figures::{percent, shell_word, time};
use iopace_core::group::{Class, Settings};
use iopace_core::limits::{GROUP_WEIGHT_MAX, NR_REQUESTS_MAX, WINDOW_DEPTH_MAX};
use iopace_core::sched;
use iopace_core::verdict::Reason;

/// What would change it, the mildest first. Nothing for what no setting changes; `is_main` says
/// whether requests wait for nothing longer than for this.
pub(super) fn of(case: &Case<'_>, reason: Reason, is_main: bool) -> Vec<Remedy> {
    match reason {
        Reason::Idle => Vec::new(),
        Reason::Dirty => dirty(case),
        Reason::Memory => memory(case),
        Reason::Slot => slot(case),
        Reason::Budget => budget(case),
        Reason::Turn => turn(case),
        Reason::Anticipation => anticipation(case),
        Reason::Window => window(case, is_main),
        Reason::Disk => disk(case),
    }
}

/// A remedy that can be set while the daemon runs.
fn remedy(
    case: &Case<'_>,
    change: RemedyChange,
    effect: impl Into<String>,
    price: impl Into<String>,
) -> Remedy {
    let command = changes::command(&change, case.device());
    Remedy { command, effect: effect.into(), price: price.into(), change: Some(change) }
}

fn settings(case: &Case<'_>, group: &str) -> Settings {
    case.settings.get(group).copied().unwrap_or_default()
}

/// The largest holder that is neither the group nor below it.
fn top_other<'a>(case: &Case<'a>, holders: &Holders<'a>) -> Option<(&'a str, u32)> {
    holders.largest(|path| !is_within(path, case.group))
}

/// Twice the weight, at the level where the group and the other one part.
fn weight<'a>(case: &Case<'a>, holders: &Holders<'a>) -> Option<Remedy> {
    let (other, share) = top_other(case, holders)?;
    let common = chain(other).find(|path| is_within(case.group, path))?;
    let level = chain(case.group).take_while(|path| *path != common).last()?;
    let set = case.subject.shared.and_then(|shared| shared.weights.get(level));
    let old = set.copied().unwrap_or(settings(case, level).weight).get();
    let new = (old * 2).min(GROUP_WEIGHT_MAX);
    let effect = format!("{level} gets twice its part against the groups beside it");
    let price = format!("they get less: {other}, with {} now, most of all", percent(share));
    if set.is_some() && new > old {
        // What is set here for itself would be another part of it than it says.
        let command = format!("iopace group set --cluster {} io.weight {new}", shell_word(level));
        let effect = format!("{effect}, on all hosts of the volume");
        return Some(Remedy { command, effect, price, change: None });
    }
    let change = changes::group_file(case, level, "io.weight", &new.to_string());
    (new > old).then(|| remedy(case, change, effect, price))
}

/// Limits the largest of the others to half of what it had.
fn rein_in<'a>(case: &Case<'a>, holders: &Holders<'a>) -> Option<Remedy> {
    let (other, share) = top_other(case, holders).filter(|(other, _)| *other != "/")?;
    if is_within(case.group, other) {
        return None;
    }
    let sums = case.span.sums(other);
    let moved = u128::from(sums.read_bytes) + u128::from(sums.write_bytes);
    let rate = moved * 1_000_000_000 / u128::from(case.span.over_ns.max(1)) / 2;
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    // One that would not lower what holds for it is no remedy, and one above is refused.
    let holds = chain(other).filter_map(|path| settings(case, path).max.sustained.bps).min();
    let rate = rate.min(holds.map_or(u64::MAX, |set| set.get() / 2));
    // Two digits, so that it can be read.
    let written = match (rate >> 20, rate >> 10) {
        (mib @ 4.., _) => format!("{}M", two_digits(mib)),
        (_, kib @ 1..) => format!("{}k", two_digits(kib)),
        _ => return None,
    };
    Some(remedy(
        case,
        changes::group_file(case, other, "io.max", &format!("bps={written}")),
        format!("{other} moves half as much; it has {} of what is held now", percent(share)),
        format!("{other} is slowed down, also when nobody else wants the disk"),
    ))
}

/// The first two digits of a number, the others zero.
fn two_digits(number: u64) -> u64 {
    let unit = 10u64.pow(number.max(10).ilog10() - 1);
    number / unit * unit
}

fn budget(case: &Case<'_>) -> Vec<Remedy> {
    limits(case, "").iter().flat_map(|(path, rate)| loosen(case, path, rate)).collect()
}

/// A limit twice as high, and none. One of all hosts is changed for all of them.
fn loosen(case: &Case<'_>, path: &str, rate: &Rate) -> Vec<Remedy> {
    if case.is_part(path, rate) && case.dark_for().is_some() {
        return vec![Remedy {
            command: "iopace cluster status".into(),
            effect: format!(
                "says why etcd is not reached; a limit of {path} that is set on this host alone \
                 does not raise its share: of two limits the stricter one holds"
            ),
            price: "none: its share of the whole limit is back within seconds when etcd is".into(),
            change: None,
        }];
    }
    if case.is_part(path, rate) {
        return vec![Remedy {
            command: "iopace cluster hosts".into(),
            effect: format!(
                "shows which host has how much of it; 'iopace group set --cluster {path} io.max' \
                 changes it for all"
            ),
            price: "a share goes to the hosts that want it by itself, within seconds".into(),
            change: None,
        }];
    }
    // A limit above the one of the group above is refused.
    let above = chain(path).skip(1).find_map(|path| rate.of(&settings(case, path).max.sustained));
    let new = rate.set.saturating_mul(2).min(above.unwrap_or(u64::MAX));
    let price = "what it moves more is missing to the others whenever the disk is busy";
    let mut all = Vec::new();
    if new > rate.set {
        let effect = format!("{path} may have {} instead of {}", rate.print(new), rate.print_set());
        all.push(remedy(
            case,
            changes::group_file(case, path, "io.max", &rate.written(new)),
            effect,
            price,
        ));
    }
    let effect = match above {
        Some(above) => format!("lifts it: what holds then is {} above it", rate.print(above)),
        None => "lifts it: what holds then is its weight".into(),
    };
    all.push(remedy(
        case,
        changes::group_file(case, path, "io.max", &format!("{}=max", rate.key)),
        effect,
        price,
    ));
    all
}

fn slot(case: &Case<'_>) -> Vec<Remedy> {
    let guaranteed = |case: &Case<'_>| {
        let now = case.span.now(case.group).map_or(0, |now| now.slots_taken_count);
        let slots = settings(case, case.group).slots;
        let wanted = now.max(slots.guaranteed).max(1) * 2;
        let wanted = wanted.min(case.span.last.queue.nr_requests / 2);
        let wanted = wanted.min(slots.max.unwrap_or(u32::MAX)).max(1);
        let max = slots.max.map_or("max".into(), |max| max.to_string());
        remedy(
            case,
            changes::group_file(
                case,
                case.group,
                "io.nr_group_requests",
                &format!("{max} guaranteed={wanted}"),
            ),
            format!("{wanted} slots are its own whatever the others do"),
            "so many are missing to the others while it uses them",
        )
    };
    match slot_cause(case) {
        SlotCause::Max(path, max) => {
            let slots = settings(case, path).slots;
            let new = (max * 2).min(NR_REQUESTS_MAX);
            let kept = match slots.guaranteed {
                0 => new.to_string(),
                kept => format!("{new} guaranteed={kept}"),
            };
            vec![remedy(
                case,
                changes::group_file(case, path, "io.nr_group_requests", &kept),
                format!("{path} may have {new} slots"),
                "the others find fewer free",
            )]
        }
        SlotCause::Target(path, target) => vec![remedy(
            case,
            changes::group_file(
                case,
                &path,
                "io.latency",
                &format!("target={}us", target / 1_000 * 2),
            ),
            format!("the target of {path} becomes {}", time(target / 1_000 * 2_000)),
            format!("requests of {path} take longer"),
        )],
        SlotCause::Own => Vec::new(),
        SlotCause::Others if case.group == "/" => Vec::new(),
        SlotCause::Others => {
            let mut all = vec![guaranteed(case)];
            all.extend(weight(case, &case.held.slots));
            all
        }
    }
}

fn turn(case: &Case<'_>) -> Vec<Remedy> {
    let holders = &case.held.disk_time;
    let is_own = case.own_permille(holders) >= OWN_PERMILLE;
    if case.group == "/" || is_own {
        return Vec::new();
    }
    let mut all = Vec::new();
    let divides = sched::divides(&case.span.last.scheduler);
    if !divides {
        all.push(remedy(
            case,
            changes::scheduler(case, sched::dividing().name),
            "shares the disk's time by weight of the groups (and takes no other into account)",
            "whoever had more than its share has less",
        ));
    }
    let of = settings(case, case.group);
    if of.class == Class::Idle {
        all.push(remedy(
            case,
            changes::group_file(case, case.group, "io.ioprio_class", "BE"),
            "it takes part by weight, not only when nobody else has anything to do",
            "the others share with it",
        ));
    }
    if divides {
        all.extend(weight(case, holders));
    }
    all.extend(rein_in(case, holders));
    all
}

fn anticipation(case: &Case<'_>) -> Vec<Remedy> {
    let price = "tasks that read piece by piece lose more time to the head's way";
    let spec = sched::find(&case.span.last.scheduler).and_then(|algorithm| {
        let is_wait = |spec: &&sched::ParamSpec| ["wait_ms", "antic_ms"].contains(&spec.name);
        algorithm.params.iter().find(is_wait)
    });
    let mut all = Vec::new();
    if let Some(spec) = spec {
        let effect = match spec.min {
            0 => "it waits for nobody".into(),
            least => format!("it waits for {least} {} at most", spec.unit),
        };
        let change = changes::parameter(spec.name, spec.min);
        all.push(remedy(case, change, effect, price));
    }
    all.push(remedy(
        case,
        changes::scheduler(case, "deadline"),
        "another scheduler, which waits for nobody",
        price,
    ));
    all
}

/// A wider window moves the line from here to the disk, where it has no order. It helps a disk that
/// works on several at once, and only what waits here most: what waits for its turn waits for it
/// behind a wider window too, and longer.
fn window(case: &Case<'_>, is_main: bool) -> Vec<Remedy> {
    let window = &case.span.last.window;
    // What was set; a policy may have less of it at the moment.
    let most = window.depth_set;
    let price = "what is at the disk cannot be put in order any more: weights, turns and \
                 latencies hold less well";
    let new = (most.max(window.depth) * 2).min(WINDOW_DEPTH_MAX);
    let deeper = remedy(
        case,
        changes::window_depth(new),
        format!("the disk may hold {new}; that helps a disk that works on several at once only"),
        price,
    );
    if window.narrowed.as_deref() == Some(NARROWED_BY_HOSTS) {
        let share = Remedy {
            command: "iopace cluster hosts".into(),
            effect: "shows the hosts that have the rest of the volume's queue; 'iopace group set \
                     --cluster GROUP io.weight' changes by what it is divided"
                .into(),
            price: "what this host gets more, other hosts get less; another window policy here \
                    would break the weights of all hosts"
                .into(),
            change: None,
        };
        let other = rein_in(case, &case.held.disk_time).filter(|_| case.group != "/");
        return [share].into_iter().chain(other).collect();
    }
    let mut all = Vec::new();
    let helps = is_main && !case.subject.is_rotational;
    // A policy that holds it below what it may is not moved by a larger bound.
    if !helps {
    } else if window.policy != "fixed" && window.depth < most {
        let change = changes::window_policy("fixed");
        all.push(remedy(case, change, format!("the disk may always hold {most}"), price));
    } else if new > window.depth {
        all.push(deeper);
    }
    if case.group != "/" {
        all.extend(rein_in(case, &case.held.disk_time));
    }
    all
}

fn dirty(case: &Case<'_>) -> Vec<Remedy> {
    let mut all = Vec::new();
    let holders = &case.held.dirty;
    let pace = case.span.last.pace.as_ref();
    let is_own = case.own_permille(holders) >= OWN_PERMILLE;
    if case.group != "/" && !is_own && pace.is_some_and(|pace| pace.policy == "rate") {
        all.extend(weight(case, holders));
    }
    if pace.is_some_and(|pace| ["counting", "threshold"].contains(&&*pace.policy)) {
        all.push(remedy(
            case,
            changes::pace("rate"),
            "writers get what the disk takes, no less",
            "none: it is the policy that devices have if none is named",
        ));
    }
    all.push(remedy(
        case,
        changes::pace("none"),
        "writers run freely until as much is dirty as may be; in the long run the disk is what \
         they get all the same",
        "then all writers stop at once, those that write little too",
    ));
    all
}

fn memory(case: &Case<'_>) -> Vec<Remedy> {
    let pace = case.span.last.pace.as_ref();
    let mut all = Vec::new();
    if pace.is_some_and(|pace| pace.policy != "rate") {
        all.push(remedy(
            case,
            changes::pace("rate"),
            "short pauses for those that write much, before memory is full",
            "none for those that write little",
        ));
    }
    all.extend(rein_in(case, &case.held.dirty));
    if let Some(pace) = pace {
        let mib = (pace.picture.limit_bytes >> 20).max(1) * 2;
        all.push(Remedy {
            command: format!("iopace serve ... --dirty-limit {mib}MiB"),
            effect: "room for more, from the next start on; in the long run the disk is what they \
                     get"
            .into(),
            price: "memory, and a longer wait for whoever asks for its data to be durable".into(),
            change: None,
        });
    }
    all
}

fn disk(case: &Case<'_>) -> Vec<Remedy> {
    let holders = &case.held.disk_time;
    if case.group == "/" || case.own_permille(holders) >= OWN_PERMILLE {
        return Vec::new();
    }
    rein_in(case, holders).into_iter().collect()
}
