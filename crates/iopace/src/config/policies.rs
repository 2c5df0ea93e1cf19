//! What the table of a device says of stages pace and window, and of dirty memory.

use super::values::{checked_size, unknown};
use super::{DeviceTable, Mistake, RecommendTable};
use crate::units::parse_time;
use iopace_core::units::Bytes;
use iopace_core::{pace, window};
use iopace_daemon::api::RecommendChange;
use iopace_daemon::change::recommend;
use iopace_daemon::config::{DeviceConfig, check_dirty};
use toml::Spanned;

/// Puts it into the device's configuration.
pub(super) fn resolve(table: &DeviceTable, device: &mut DeviceConfig) -> Result<(), Mistake> {
    let DeviceTable { pace, pause_target, window_policy, dirty_limit, dirty_background, .. } =
        table;
    let of_memory = [pace, pause_target, dirty_limit, dirty_background];
    if (table.direct || table.nbd.is_some())
        && let Some(span) = of_memory.into_iter().flatten().next()
    {
        let message = "with `direct = true`, and with `nbd`, the page cache is bypassed, so no \
                       write is buffered and there is nothing to pace: leave this out, or `direct`";
        return Err((span.span(), message.into()));
    }
    if let Some(name) = pace {
        device.pace = pace::find(name.get_ref()).ok_or_else(|| {
            let known = pace::REGISTRY.iter().map(|policy| policy.name);
            (name.span(), unknown("pacing policy", name.get_ref(), known))
        })?;
    }
    if let Some(text) = pause_target {
        let checked = parse_time(text.get_ref())
            .and_then(|pause| pace::check_pause_target(device.pace, pause).map(|()| pause));
        device.pause_target = Some(checked.map_err(|message| (text.span(), message))?);
    }
    if let Some(name) = window_policy {
        device.window = window::find(name.get_ref()).ok_or_else(|| {
            let known = window::REGISTRY.iter().map(|policy| policy.name);
            (name.span(), unknown("window policy", name.get_ref(), known))
        })?;
    }
    if let Some(table) = &table.recommend {
        device.recommend = Some(recommended(table)?);
    }
    device.dirty_limit = size(dirty_limit.as_ref())?;
    device.dirty_background = size(dirty_background.as_ref())?;
    let DeviceConfig { dirty_limit: limit, dirty_background: background, .. } = device;
    check_dirty(*limit, *background).map_err(|message| {
        // About the first one unless it is about both.
        let alone = check_dirty(*limit, None).is_err();
        let about = if alone { dirty_limit } else { dirty_background };
        (about.as_ref().map_or(0..0, Spanned::span), message)
    })
}

/// What is tried, checked.
fn recommended(table: &Spanned<RecommendTable>) -> Result<RecommendChange, Mistake> {
    let (span, table) = (table.span(), table.get_ref());
    let change = RecommendChange {
        scheduler: table.sched.clone(),
        set: table.set.clone(),
        pace: table.pace.clone(),
        window: table.window_policy.clone(),
        depth: table.window,
        nr_requests: table.nr_requests,
        clients: table.clients,
    };
    recommend::plan(&change).map_err(|refusal| (span, refusal.to_string()))?;
    Ok(change)
}

fn size(text: Option<&Spanned<String>>) -> Result<Option<Bytes>, Mistake> {
    text.map(checked_size).transpose()
}
