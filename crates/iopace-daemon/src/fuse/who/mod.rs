//! Who calls, and who pays: from the thread that the kernel names to a task and a group.
//!
//! ```text
//!  thread ─► process      /proc/PID/status: threads of a program are one task
//!                │
//!                ▼
//!             moved?  ──► the group that it, or a parent before its birth, was moved to
//!                │ no
//!                ▼
//!             rules   ──► the first that fits, else the default
//!                │
//!                ▼
//!             class   ──► what ionice has set: a group in that group
//! ```
//!
//! A caller is looked at once and kept in a bounded table. It is looked at again after 10 ms, 20 ms
//! and so on up to 1 s: a shell that becomes another program (exec keeps number and start time), an
//! `ionice -p`, another cgroup, and a number that another process has by now are noticed within
//! that time. (A pidfd for each caller would notice the last at once, for a descriptor and a system
//! call each, but none of the others. The kernel hands out numbers in a circle: within a second one
//! comes again only after a whole round of them.) One that was seen and is gone pays as it did.

mod cache;
pub(crate) mod class;
mod facts;
#[cfg(test)]
mod tests;

use super::caller::Caller;
use crate::groups::{Callers, Claim, Groups, MappedCgroup, Newcomer, Seen, Setting, Wanted};
use crate::process::{Proc, Process};
use crate::rules::CgroupLimits::Follow;
use crate::rules::cgroup::Cgroup;
use crate::rules::{self, Rules, Traits};
use cache::{Cache, Found, Key, SHARDS};
use class::Class;
use facts::Facts;
use iopace_core::request::{GroupId, TaskId};
use iopace_core::time::Instant;
use iopace_fuse::subordinate::share_of;
use iopace_groups::tree::TreeError;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// Who pays for a request. While it is there, no other group gets the number: it is kept until the
/// request is submitted to the device, which knows of it then.
#[derive(Clone, Debug)]
pub(crate) struct Pays {
    task: TaskId,
    is_kernel: bool,
    claim: Claim,
}

impl Pays {
    /// The process.
    pub(crate) fn task(&self) -> TaskId {
        self.task
    }

    /// Whether it is a thread of the kernel itself.
    pub(crate) fn is_kernel(&self) -> bool {
        self.is_kernel
    }

    /// The group.
    pub(crate) fn group(&self) -> GroupId {
        self.claim.group()
    }
}

/// The callers of a mount.
pub(crate) struct Who {
    groups: Arc<Groups>,
    proc: Arc<dyn Proc>,
    ruled: RwLock<Arc<Ruled>>,
    cache: Cache,
    /// The shard that is swept next.
    swept: AtomicUsize,
}

/// Rules with the groups that they name.
pub(crate) struct Ruled {
    rules: Rules,
    /// The group of each rule, with its depth.
    places: Vec<(Claim, usize)>,
    default: Claim,
}

impl Ruled {
    /// Makes the groups of the rules that are missing; they stay as long as this does.
    fn new(groups: &Groups, rules: Rules) -> Result<Arc<Ruled>, TreeError> {
        rules.limited_by_cgroups().for_each(|path| groups.map_cgroups(path));
        let claim = |path: &str| groups.claim(path);
        let depth = |path: &str| path.split('/').filter(|name| !name.is_empty()).count();
        let places = rules.all().iter().map(|rule| Ok((claim(rule.group())?, depth(rule.group()))));
        Ok(Arc::new(Ruled {
            places: places.collect::<Result<_, TreeError>>()?,
            default: claim(rules.default_group())?,
            rules,
        }))
    }
}

impl Who {
    /// Makes the groups of the rules that are missing; they stay as long as this does.
    ///
    /// # Errors
    /// A group that cannot be made.
    pub(crate) fn new(groups: &Arc<Groups>, rules: Rules) -> Result<Arc<Who>, TreeError> {
        let who = Arc::new(Who {
            ruled: RwLock::new(Ruled::new(groups, rules)?),
            groups: Arc::clone(groups),
            proc: groups.proc(),
            cache: Cache::new(),
            swept: AtomicUsize::new(0),
        });
        let weak: Weak<Who> = Arc::downgrade(&who);
        groups.attach(weak);
        Ok(who)
    }

    /// From now on other rules hold, also for callers that are known; their groups are made.
    ///
    /// # Errors
    /// A group that cannot be made; the rules stay then.
    pub(crate) fn rule(&self, rules: Rules) -> Result<(), TreeError> {
        let ruled = Ruled::new(&self.groups, rules)?;
        let limits = ruled.rules.cgroup_limits();
        let mut place = self.ruled.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, ruled);
        drop(place);
        self.cache.forget(&|_| true);
        if before.rules.cgroup_limits() == Follow && limits != Follow {
            self.groups.leave_cgroups();
        }
        Ok(())
    }

    /// The rules that hold.
    pub(crate) fn rules(&self) -> Rules {
        self.ruled().rules.clone()
    }

    fn ruled(&self) -> Arc<Ruled> {
        Arc::clone(&self.ruled.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kernel's knowledge of processes.
    pub(crate) fn proc(&self) -> Arc<dyn Proc> {
        Arc::clone(&self.proc)
    }

    /// Who pays for a request of this caller.
    pub(crate) fn of(&self, caller: Caller) -> Pays {
        if caller.pid == 0 {
            return self.unseen(caller);
        }
        let key = (caller.pid, caller.uid);
        let now = self.proc.now();
        match self.cache.find(key, now) {
            Found::Paid(pays) => pays,
            Found::Due(before, pays) => match self.look(key) {
                Some(facts) if !facts.as_before(&before) => self.settle(key, facts, now),
                _ => pays,
            },
            Found::Unknown => match self.look(key) {
                Some(facts) => self.settle(key, facts, now),
                None => self.unseen(caller),
            },
        }
    }

    fn look(&self, key: Key) -> Option<Facts> {
        Facts::look(&*self.proc, key.0, &self.ruled().rules)
    }

    /// The group that pays for a caller that cannot be seen, or is gone before it was seen: of all
    /// that rules look at, only its user is known, as the kernel says it with the request.
    fn unseen(&self, caller: Caller) -> Pays {
        let task = Process { pid: caller.pid, start: 0 }.into();
        let ruled = self.ruled();
        let found = ruled.rules.find_user(caller.uid);
        let claim = found.map_or(&ruled.default, |place| &ruled.places[place].0);
        Pays { task, is_kernel: false, claim: claim.clone() }
    }

    /// Finds the group and keeps it.
    fn settle(&self, key: Key, facts: Facts, now: Instant) -> Pays {
        let (facts, ruled) = (Arc::new(facts), self.ruled());
        let cgroup = facts.cgroup.as_ref().map_or("/", Cgroup::path);
        let vouched = facts.cgroup.as_ref().map_or("/", Cgroup::vouched);
        let program = facts.program.as_deref();
        let traits = Traits { comm: &facts.comm, program, uid: key.1, cgroup, vouched };
        let found = ruled.rules.find(traits);
        let (base, below) = match found {
            None => (&ruled.default, Vec::new()),
            Some((place, is_mapped)) => {
                let (claim, depth) = &ruled.places[place];
                (claim, if is_mapped { rules::mapped(cgroup, *depth) } else { Vec::new() })
            }
        };
        let limiting = facts.cgroup.as_ref().filter(|_| ruled.rules.cgroup_limits() == Follow);
        let limiting = limiting.and_then(|cgroup| Some((cgroup.limiting()?, cgroup.path())));
        let class = facts.class.map(|class: Class| {
            let (file, text) = class.setting();
            Setting { name: class.name(), file, text }
        });
        let newcomer =
            Newcomer { process: facts.process, parent: facts.parent, program: &facts.comm };
        let (base, uid) = (base.group(), share_of(key.1));
        let wanted = Wanted { base, below: &below, limiting, class, uid };
        let pays = self.groups.settle(&newcomer, &wanted, |claim| {
            self.cache.insert(key, Arc::clone(&facts), claim.clone(), now);
            Pays { task: facts.process.into(), is_kernel: facts.is_kernel(), claim }
        });
        // Other rules may hold since it was looked at.
        let present = self.ruled();
        if !Arc::ptr_eq(&ruled, &present) {
            self.cache.forget_one(key, &facts);
            if limiting.is_some() && present.rules.cgroup_limits() != Follow {
                self.groups.leave_cgroups();
            }
        }
        pays
    }

    /// Forgets callers that are gone, a part of them at each call, and has groups removed that were
    /// made for them. To be called about once a second.
    pub(crate) fn sweep(&self) {
        let shard = self.swept.fetch_add(1, Relaxed) % SHARDS;
        for (key, facts) in self.cache.callers(shard) {
            let there = self.proc.stat(key.0);
            if there.is_none_or(|stat| stat.start != facts.thread_start) {
                self.cache.forget_one(key, &facts);
            }
        }
        self.groups.sweep();
    }
}

impl fmt::Debug for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Who").finish_non_exhaustive()
    }
}

impl Callers for Who {
    fn each(&self, visit: &mut dyn FnMut(Seen<'_>)) {
        self.cache.each(&mut |entry| visit(entry.seen()));
    }

    fn forget(&self, gone: &dyn Fn(Seen<'_>) -> bool) {
        self.cache.forget(&|entry| gone(entry.seen()));
    }

    fn rule_of(&self, group: GroupId) -> Option<String> {
        let ruled = self.ruled();
        let place = ruled.places.iter().position(|(claim, _)| claim.group() == group);
        match place {
            Some(place) => Some(ruled.rules.all()[place].to_string()),
            None => (ruled.default.group() == group).then(|| "the default".into()),
        }
    }

    fn mapped(&self, cgroup: &str) -> Option<MappedCgroup> {
        let ruled = self.ruled();
        let (claim, depth) = &ruled.places[ruled.rules.find_map()?];
        Some(MappedCgroup { base: claim.group(), below: rules::mapped(cgroup, *depth) })
    }
}

impl cache::Entry {
    fn seen(&self) -> Seen<'_> {
        let Facts { process, comm, .. } = &*self.facts;
        Seen { process: *process, program: comm, group: self.claim.group() }
    }
}
