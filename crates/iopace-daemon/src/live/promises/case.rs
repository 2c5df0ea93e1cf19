//! What is judged.

use super::super::span::{Span, Sums};
use super::SettingsOf;
use crate::api::LiveReport;
use iopace_core::group::Settings;
use std::collections::BTreeMap;

/// What is judged: ten intervals of a device, and what was set.
pub(super) struct Judged<'a> {
    pub(super) span: &'a Span<'a>,
    pub(super) reports: &'a [&'a LiveReport],
    pub(super) settings: &'a SettingsOf,
    /// For how many intervals it has been so.
    pub(super) settled: &'a BTreeMap<(String, String), (Settings, usize)>,
    pub(super) is_read_only: bool,
    /// Whether other hosts use the device too.
    pub(super) is_shared: bool,
}

/// One group in that time.
pub(super) struct Case<'a> {
    pub(super) path: &'a str,
    pub(super) settings: Settings,
    pub(super) sums: Sums,
    /// Whether it had requests waiting at the end of every interval.
    pub(super) waits: bool,
    /// It has been set as it is for the whole time.
    pub(super) is_settled: bool,
    /// What half of the requests took at least, in the intervals in which that was more than the
    /// target.
    pub(super) late: Vec<u64>,
    /// What it had in slots and dirty memory at the beginning.
    pub(super) backlog: (u64, u64),
    /// The mean size of its requests in the interval in which that was largest.
    pub(super) largest: u64,
}
