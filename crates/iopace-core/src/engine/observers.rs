//! Observers of an engine: a shadow with other settings, and a recording. They are told what
//! happens and decide nothing.

use super::buffered::BufferedWrite;
use super::{Control, Engine};
use crate::flush::Run;
use crate::group::Settings;
use crate::group::table::Groups;
use crate::request::{Area, Cover, GroupId, Op, Space, Submit};
use crate::shadow::{Ended, Item, Plan, Recorded, RecordedKind, Recording, Served, Shadow};
use crate::table::Entry;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// All of them.
#[derive(Debug)]
pub(super) struct Observers {
    shadow: Option<Box<Shadow>>,
    /// Whether it was told that the shadow has failed.
    is_told: bool,
    /// The number of the next request that a shadow follows; kept here while there is none.
    follow_next: u64,
    /// Requests that have ended since a look began, while one goes on.
    recording: Option<Box<Recording>>,
}

impl Default for Observers {
    fn default() -> Observers {
        Observers { shadow: None, is_told: false, follow_next: 1, recording: None }
    }
}

impl Observers {
    pub(super) fn shadow(&self) -> Option<&Shadow> {
        self.shadow.as_deref()
    }

    pub(super) fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref()
    }

    /// Records from now on, at most so many, or ends that.
    pub(super) fn record(&mut self, now: Instant, most_count: Option<usize>) {
        self.recording = most_count.map(|most| Box::new(Recording::new(now, most)));
    }

    /// The first so many of the recording have been copied.
    pub(super) fn forget_recorded(&mut self, count: usize) {
        if let Some(recording) = &mut self.recording {
            recording.forget(count);
        }
    }

    /// Tries other settings of the device, or ends that for groups as well. True if the shadow has
    /// to begin anew.
    pub(super) fn recommend(&mut self, plan: Option<Plan>) -> bool {
        match plan {
            Some(plan) => self.ensure_shadow().plan = plan,
            None => self.end_shadow(),
        }
        self.shadow.is_some()
    }

    /// Tries other settings for a group beside what is tried already, or ends that. True if the
    /// shadow has to begin anew.
    pub(super) fn recommend_group(&mut self, id: GroupId, settings: Option<Settings>) -> bool {
        if let Some(settings) = settings {
            self.ensure_shadow().groups.insert(id, settings);
        } else if let Some(shadow) = &mut self.shadow {
            shadow.groups.remove(&id);
            if shadow.is_empty() {
                self.end_shadow();
            }
        }
        self.shadow.is_some()
    }

    fn ensure_shadow(&mut self) -> &mut Shadow {
        let first = self.follow_next;
        self.shadow.get_or_insert_with(|| Box::new(Shadow::from(first)))
    }

    fn end_shadow(&mut self) {
        let Some(shadow) = self.shadow.take() else { return };
        self.follow_next = shadow.next_number();
        self.is_told = false;
    }

    /// The shadow begins anew with that engine; `forget`: something else is tried.
    pub(super) fn restart(
        &mut self,
        now: Instant,
        engine: Result<Engine, &'static str>,
        groups: &Groups,
        forget: bool,
    ) {
        let Some(shadow) = &mut self.shadow else { return };
        if forget {
            shadow.reset(now);
            self.is_told = false;
        }
        shadow.restart(now, engine);
        shadow.learn_on(now, groups);
    }

    /// The device may use another part of memory.
    pub(super) fn control(&mut self, control: Control) {
        if let Some(shadow) = &mut self.shadow {
            shadow.control(control);
        }
    }

    /// A group is set for the live engine: in the shadow too, unless it is in recommend mode. True
    /// if the shadow has to begin anew.
    pub(super) fn set_group(
        &mut self,
        now: Instant,
        groups: &Groups,
        (id, parent, settings): (GroupId, GroupId, &Settings),
    ) -> bool {
        let Some(shadow) = &mut self.shadow else { return false };
        if shadow.has_dead(id) {
            return true;
        }
        if shadow.is_learning() {
            shadow.learn(now, groups, id, true);
        } else {
            let settings = shadow.groups.get(&id).copied().unwrap_or(*settings);
            shadow.control(Control::SetGroup(id, parent, settings));
        }
        false
    }

    /// A group is removed. True if nothing is tried any more, as only that group was.
    pub(super) fn remove_group(&mut self, id: GroupId) -> bool {
        let is_over = self.shadow.as_mut().is_some_and(|shadow| shadow.removed(id));
        if is_over {
            self.end_shadow();
        }
        is_over
    }

    /// A request comes that is no flush: its number among those that are followed, 0 for none.
    pub(super) fn arrived(&mut self, now: Instant, submit: &Submit, space: Space) -> u64 {
        let item = || Item::Request(*submit, space);
        self.shadow.as_mut().map_or(0, |shadow| shadow.comes(now, item()))
    }

    /// A flush comes.
    pub(super) fn flush_arrived(&mut self, now: Instant, submit: &Submit, cover: &Cover) {
        if let Some(shadow) = &mut self.shadow {
            shadow.comes(now, Item::Flush(*submit, *cover));
        }
        if let Some(recording) = &mut self.recording {
            recording.flush_comes(submit.tag, *cover);
        }
    }

    /// A buffered write comes; as [`Observers::arrived`].
    pub(super) fn write_arrived(&mut self, now: Instant, write: &BufferedWrite) -> u64 {
        let item = || Item::Write(write.submit(), write.rest.space);
        self.shadow.as_mut().map_or(0, |shadow| shadow.comes(now, item()))
    }

    /// A request has ended.
    #[inline]
    pub(super) fn ended(&mut self, now: Instant, entry: &Entry) {
        if self.shadow.is_some() || self.recording.is_some() {
            self.request_ended(now, entry);
        }
    }

    #[inline(never)]
    fn request_ended(&mut self, now: Instant, entry: &Entry) {
        if let Some(recording) = &mut self.recording {
            recording.add(recorded(now, entry));
        }
        let Some(shadow) = &mut self.shadow else { return };
        let (op, mut size) = (entry.request.submit.op, entry.request.submit.extent.len());
        if let Some(Run { area, .. }) = &entry.run {
            size = area.extent.len();
        }
        let mut served = Served::default();
        // A request that moves nothing was not at the disk.
        if size > Bytes::ZERO || op == Op::Flush {
            let measured = &mut shadow.measured;
            served = measured.done(now, entry.started, (op, size), entry.run.is_some());
            served.beside = entry.beside;
        }
        let ended = Ended { times: entry.times, served, place: 0 };
        shadow.ended(entry.followed, &entry.request.submit, ended);
    }

    /// A buffered write has ended.
    pub(super) fn write_ended(&mut self, now: Instant, write: &BufferedWrite) {
        if let Some(recording) = &mut self.recording {
            recording.add(Recorded {
                kind: RecordedKind::Buffered,
                submit: write.submit(),
                arrived: write.arrived,
                started: now,
                ended: now,
                times: write.waited,
                written: Nanos::ZERO,
                beside: 0,
                space: write.rest.space,
                cover: Cover::All,
            });
        }
        if let Some(shadow) = &mut self.shadow {
            let ended = Ended { times: write.waited, ..Ended::default() };
            shadow.ended(write.followed, &write.submit(), ended);
        }
    }

    /// Dirty pages of an area are void.
    pub(super) fn voided(&mut self, now: Instant, area: Area) {
        if let Some(shadow) = &mut self.shadow {
            shadow.comes(now, Item::Void(area));
        }
    }

    /// Whether anything is tried.
    #[inline(always)]
    pub(super) fn has_shadow(&self) -> bool {
        self.shadow.is_some()
    }

    /// The live engine is drained: the shadow goes on. Why it has ended, if it has and nobody was
    /// told.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant, groups: &Groups) -> Option<&'static str> {
        if self.shadow.is_some() { self.shadow_goes_on(now, groups) } else { None }
    }

    #[inline(never)]
    fn shadow_goes_on(&mut self, now: Instant, groups: &Groups) -> Option<&'static str> {
        let shadow = self.shadow.as_mut()?;
        shadow.learn_on(now, groups);
        shadow.advance(now);
        let failed = shadow.view().failed;
        let was_told = std::mem::replace(&mut self.is_told, failed.is_some());
        failed.filter(|_| !was_told)
    }
}

/// The record of a request that has ended.
fn recorded(now: Instant, entry: &Entry) -> Recorded {
    let mut submit = entry.request.submit;
    let kind = match (&entry.run, submit.op) {
        (Some(run), _) => {
            submit.extent = run.area.extent;
            RecordedKind::WriteBack
        }
        (None, Op::Flush) => RecordedKind::Flush,
        (None, _) => RecordedKind::Request,
    };
    Recorded {
        kind,
        submit,
        // A flush stood behind write-back before it came to stage admit.
        arrived: entry.request.arrived() - entry.written,
        started: entry.started,
        ended: now,
        times: entry.times,
        written: entry.written,
        beside: entry.beside,
        space: entry.request.space,
        cover: Cover::All,
    }
}
