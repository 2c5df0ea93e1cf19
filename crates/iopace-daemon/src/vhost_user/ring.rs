//! A queue of a machine: its rings in shared memory, and who is told of what is in them.
//!
//! Requests are taken by the machine's own thread; any thread may put an answer there. The
//! library's `Queue` knows the rings; all under one lock, held for some memory accesses.

use super::QUEUE_SIZE_MAX;
use super::chain::{Broken, Table};
use super::inflight::Tracked;
use super::regions::Regions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use virtio_queue::{Error, Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

/// The driver needs no call (virtio 1.2, section 2.7.7), where it does not say from which place on.
const NO_INTERRUPT: u16 = 1;

/// Places of a ring in the address space of the machine's process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

#[derive(Debug)]
pub(super) struct State {
    queue: Queue,
    /// The memory that the parts of requests are in.
    regions: Arc<Regions>,
    /// The memory that the rings are in: as it was when the queue began, should a region be taken
    /// away and given anew meanwhile.
    own: Arc<Regions>,
    pub(super) addresses: Option<Addresses>,
    pub(super) has_event_index: bool,
    /// The next place of the available ring when it begins, unless requests in flight tell.
    pub(super) base: u16,
    pub(super) kick: Option<OwnedFd>,
    pub(super) call: Option<Arc<OwnedFd>>,
    pub(super) is_enabled: bool,
    pub(super) tracked: Option<Tracked>,
    /// To be taken again: by a daemon that was killed, or before their memory was there.
    again: VecDeque<u16>,
    /// A request waits for memory that is not there: nothing is taken until memory changes.
    is_paused: bool,
    /// Whether it was said that the driver is broken.
    is_told: bool,
    /// Taken and not answered.
    open_count: usize,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Ring {
    state: Mutex<State>,
    idle: Condvar,
}

impl Default for Ring {
    fn default() -> Ring {
        let state = State {
            queue: Queue::new(QUEUE_SIZE_MAX).expect("a power of two"),
            regions: Arc::default(),
            own: Arc::default(),
            addresses: None,
            has_event_index: false,
            base: 0,
            kick: None,
            call: None,
            is_enabled: false,
            tracked: None,
            again: VecDeque::new(),
            is_paused: false,
            is_told: false,
            open_count: 0,
        };
        Ring { state: Mutex::new(state), idle: Condvar::new() }
    }
}

impl Ring {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the driver has made available: heads of chains, and where they are. Until
    /// [`Ring::listen`] the driver need not tell of more.
    ///
    /// # Errors
    /// The rings make no sense.
    pub(super) fn take(&self, heads: &mut Vec<u16>) -> Result<Option<Table>, Broken> {
        heads.clear();
        let state = &mut *self.lock();
        if !state.is_served() {
            return Ok(None);
        }
        let State { queue, regions, own, tracked, again, open_count, .. } = state;
        let memory = own.memory();
        queue.disable_notification(memory).map_err(broken)?;
        heads.extend(again.drain(..));
        for chain in queue.iter(memory).map_err(broken)? {
            heads.push(chain.head_index());
        }
        let size = queue.size();
        if heads.iter().any(|head| *head >= size) {
            return Err(Broken::Wrong("a request begins outside the table of descriptors"));
        }
        if let Some(tracked) = tracked {
            heads.iter().for_each(|head| tracked.taken(*head));
        }
        *open_count += heads.len();
        if heads.is_empty() {
            return Ok(None);
        }
        let address = GuestAddress(queue.desc_table());
        Ok(Some(Table { regions: Arc::clone(regions), address, size }))
    }

    /// Whether there is something to take.
    pub(super) fn has_more(&self) -> bool {
        let state = self.lock();
        let available = || state.queue.avail_idx(state.own.memory(), Ordering::Acquire);
        let is_available = || available().is_ok_and(|at| at.0 != state.queue.next_avail());
        state.is_served() && (!state.again.is_empty() || is_available())
    }

    /// The driver is to tell of more from now on. Whether there is something already.
    pub(super) fn listen(&self) -> bool {
        let state = &mut *self.lock();
        let is_served = state.is_served();
        let State { queue, own, again, .. } = state;
        let mut has_more = || queue.enable_notification(own.memory()).unwrap_or(false);
        is_served && (!again.is_empty() || has_more())
    }

    /// Puts answers into the used ring: heads, and the bytes written for each. The driver is told
    /// of them by [`Ring::call`].
    pub(super) fn answer(&self, ended: &[(u16, u32)]) {
        let state = &mut *self.lock();
        state.open_count -= ended.len();
        if state.open_count == 0 {
            self.idle.notify_all();
        }
        if !state.queue.ready() {
            return;
        }
        let State { queue, own, tracked, .. } = state;
        for &(head, len) in ended {
            if let Some(tracked) = tracked {
                tracked.ending(head);
            }
            // In memory that was there when the queue began, and is kept.
            if queue.add_used(own.memory(), head, len).is_err() {
                return state.give_up("the used ring is not in memory");
            }
            if let Some(tracked) = tracked {
                tracked.ended(head, queue.next_used());
            }
        }
    }

    /// Tells the driver of answers, if it wants to be told.
    pub(super) fn call(&self) {
        let call = {
            let state = &mut *self.lock();
            if !state.queue.ready() || !state.wants_call() {
                return;
            }
            state.call.clone()
        };
        if let Some(call) = call {
            tell(&call);
        }
    }

    /// Tells the driver whether it wants to be told or not: what was told before may be lost.
    pub(super) fn call_anyway(&self) {
        let call = self.lock().call.clone();
        if let Some(call) = call {
            tell(&call);
        }
    }

    /// The first of requests that were taken is broken: if its memory is missing, all of them are
    /// taken again when memory changes. True if the others are to be gone on with.
    pub(super) fn refuse(&self, heads: &[u16], why: Broken) -> bool {
        let mut state = self.lock();
        let is_wrong = match why {
            Broken::Wrong(why) => {
                state.give_up(why);
                // It stays in flight: nobody knows where its status would be.
                state.open_count -= 1;
                true
            }
            Broken::Missing => {
                state.again.extend(heads);
                state.is_paused = true;
                state.open_count -= heads.len();
                false
            }
        };
        if state.open_count == 0 {
            self.idle.notify_all();
        }
        is_wrong
    }

    /// Nothing is taken any more: the driver is broken.
    pub(super) fn give_up(&self, why: Broken) {
        if let Broken::Wrong(why) = why {
            self.lock().give_up(why);
        }
    }

    /// Waits until all that was taken is answered, at most for `limit`. How many are left.
    pub(super) fn wait(&self, limit: Duration) -> usize {
        let is_busy = |state: &mut State| state.open_count > 0;
        let waited = self.idle.wait_timeout_while(self.lock(), limit, is_busy);
        waited.unwrap_or_else(PoisonError::into_inner).0.open_count
    }

    /// Whether all that was taken is answered.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().open_count == 0
    }
}

impl State {
    /// Whether requests are taken.
    pub(super) fn is_served(&self) -> bool {
        self.is_enabled && self.queue.ready() && !self.is_paused
    }

    /// Whether it has begun and not ended.
    pub(super) fn is_started(&self) -> bool {
        self.queue.ready()
    }

    pub(super) fn set_size(&mut self, size: u16) -> Result<(), Error> {
        self.queue.try_set_size(size)
    }

    pub(super) fn size(&self) -> u16 {
        self.queue.size()
    }

    /// The memory is this from now on. The rings stay where they are: in the new memory if they are
    /// there, else where they were.
    pub(super) fn share(&mut self, regions: &Arc<Regions>) {
        self.regions = Arc::clone(regions);
        self.is_paused = false;
        let is_there = self.find().is_some_and(|found| found == self.places());
        if self.queue.ready() && is_there && self.queue.is_valid(regions.memory()) {
            self.own = Arc::clone(regions);
        }
    }

    /// Where the rings are in the machine, by what is shared.
    fn find(&self) -> Option<[GuestAddress; 3]> {
        let Addresses { descriptors, available, used } = self.addresses?;
        let find = |user| self.regions.guest_address(user);
        Some([find(descriptors)?, find(available)?, find(used)?])
    }

    /// Where they are, by what was known when the queue began.
    fn places(&self) -> [GuestAddress; 3] {
        let queue = &self.queue;
        [queue.desc_table(), queue.avail_ring(), queue.used_ring()].map(GuestAddress)
    }

    /// Begins with it, once all is known.
    ///
    /// # Errors
    /// The rings are not in memory, or make no sense.
    pub(super) fn start(&mut self) -> Result<(), Broken> {
        let unknown = Broken::Wrong("a ring is not in the memory of the machine");
        let [descriptors, available, used] = self.find().ok_or(unknown)?;
        self.own = Arc::clone(&self.regions);
        self.is_paused = false;
        let State { queue, own, .. } = self;
        let memory = own.memory();
        queue.try_set_desc_table_address(descriptors).map_err(broken)?;
        queue.try_set_avail_ring_address(available).map_err(broken)?;
        queue.try_set_used_ring_address(used).map_err(broken)?;
        queue.set_event_idx(self.has_event_index);
        queue.set_ready(true);
        if !queue.is_valid(memory) {
            queue.set_ready(false);
            return Err(unknown);
        }
        let used = queue.used_idx(memory, Ordering::Acquire).map_err(broken)?.0;
        self.queue.set_next_used(used);
        // Requests in flight were taken and are not answered: the next one is behind them.
        let in_flight = self.tracked.as_mut().and_then(|tracked| tracked.begin(used));
        let next = match &in_flight {
            Some(in_flight) => used.wrapping_add(in_flight.len() as u16),
            None => self.base,
        };
        self.queue.set_next_avail(next);
        self.again = in_flight.unwrap_or_default().into();
        Ok(())
    }

    /// Ends it, when all is answered: the next place of the available ring.
    pub(super) fn stop(&mut self) -> u16 {
        if self.queue.ready() {
            // Requests that were to be taken again are behind that place.
            self.base = self.queue.next_avail().wrapping_sub(self.again.len() as u16);
            self.again.clear();
            self.queue.set_ready(false);
        }
        self.kick = None;
        self.base
    }

    fn wants_call(&mut self) -> bool {
        let memory = self.own.memory();
        if self.has_event_index {
            return self.queue.needs_notification(memory).unwrap_or(true);
        }
        // All answers are there before this look.
        std::sync::atomic::fence(Ordering::SeqCst);
        let flags = memory.load::<u16>(GuestAddress(self.queue.avail_ring()), Ordering::Relaxed);
        !flags.is_ok_and(|flags| u16::from_le(flags) & NO_INTERRUPT != 0)
    }

    fn give_up(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!("a queue of a virtual machine is not served any more: {why}");
        }
        self.is_enabled = false;
    }
}

/// A call that its reader has not taken yet says as much as another one: a full one is no error.
fn tell(event: &OwnedFd) {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut full = [PollFd::new(event, PollFlags::OUT)];
    loop {
        if !matches!(poll(&mut full, Some(&AT_ONCE)), Ok(1) | Err(Errno::INTR)) {
            return;
        }
        match rustix::io::write(event, &1u64.to_ne_bytes()) {
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}

fn broken(_: Error) -> Broken {
    Broken::Wrong("its rings are not in memory, or their indices make no sense")
}
