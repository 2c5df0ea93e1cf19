//! Long answers are made and sent aside: by a thread of the policy `SCHED_IDLE`, whose processor is
//! everybody else's at once.
//!
//! ```text
//!   ordinary threads:  request, locks, copies ─► work ─► wait ─────────────► drop what is left
//!                                                  │       └ after a second of that ─┐
//!   thread "aside":                                └─► a piece, a piece, a piece ◄───┘
//! ```
//! Work is a future; a piece is one poll of it, some 100 µs as a rule. A busy machine gives this
//! thread less than a percent: work that was ready for [`PATIENCE`], in one go or in several, is
//! done by those who wait for it, a piece at a time with pauses, and the thread leaves it alone to
//! its end. (Each full socket would cost an answer as much again otherwise.) A stream has no end:
//! it goes back to the thread when it has caught up, and its patience begins anew then.
//!
//! I/O takes no lock of ours that the thread may hold. Work is handed over by a channel that has
//! its memory beforehand, its lock is taken only by who has taken the work, and what is left of it
//! is dropped by who has waited, because to free memory may take a lock. Only the event loop of the
//! control API shares short locks with the thread, those of its sockets and timers.
//!
//! What remains are the locks of memory itself, which a thread that lost its processor in there
//! keeps until it has one again. An arena of glibc (8 for each processor) is shared where there are
//! more threads: another one that uses the same waits if it wants memory at that moment. The
//! kernel's lock of the address space is for all: who maps or unmaps memory waits for who does so
//! (pieces above 128 KiB, at first), and page faults of old kernels too. So the long texts have
//! their memory beforehand (metrics/pieces.rs, live/hub.rs); what an explanation is made of, the
//! texts of a history and what hyper gathers are still allocated here.

use super::admission::Guest;
use crate::limits::ASIDE_HANDED_MAX as HANDED_MAX;
use axum::body::{Body, Bytes};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

/// Work that was ready for so long is done by those who wait for it. Far below the ten seconds that
/// a client has, far above what a turn of an idle processor takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// So often it is looked meanwhile whether it is ready.
const LOOKS: u32 = 10;

/// Between two pieces that they do: a thirtieth to a tenth of a processor.
const PAUSE: Duration = Duration::from_millis(1);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long who waits for late work does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helps {
    /// To its end: an answer has some seconds in all.
    ToTheEnd,
    /// Until it has caught up: a stream.
    Once,
}

/// Hands work to the thread.
#[derive(Debug)]
pub(super) struct IdleExecutor(Option<(SyncSender<Arc<Task>>, Thread)>);

impl IdleExecutor {
    /// Starts the thread, within a runtime, whose timers and sockets the work may use. Without a
    /// thread everything is done by those who wait for it, at once.
    pub(super) fn start() -> Arc<IdleExecutor> {
        let (sender, receiver) = sync_channel(HANDED_MAX);
        let handle = Handle::current();
        let run = move || {
            step_aside();
            let _inside = handle.enter();
            carry_out(&receiver);
        };
        let thread = thread::Builder::new().name("aside".into()).spawn(run);
        if let Err(error) = &thread {
            tracing::warn!(%error, "no thread for long answers: they disturb I/O");
        }
        Arc::new(IdleExecutor(thread.ok().map(|thread| (sender, thread.thread().clone()))))
    }

    /// Waits until the work is done; none if it has panicked. Dropping the wait ends the work.
    pub(super) async fn carried_out<F>(
        &self,
        mut work: Pin<Box<F>>,
        helps: Helps,
    ) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let Some((sender, thread)) = &self.0 else { return Some(work.await) };
        let (tell, mut told) = oneshot::channel();
        let whole = async move {
            let output = work.as_mut().await;
            let _ = tell.send((output, work));
        };
        let task = Handed(Task::new(Box::pin(whole), thread.clone()));
        let _ = sender.try_send(Arc::clone(&task.0));
        thread.unpark();
        let (mut rests, mut ready_count) = (0, 0);
        loop {
            if let Ok(told) = timeout(PATIENCE / LOOKS, &mut told).await {
                return told.ok().map(|(output, _work)| output);
            }
            if helps == Helps::Once && std::mem::replace(&mut rests, task.0.rests()) != rests {
                ready_count = 0;
            }
            ready_count += u32::from(task.0.is_ready());
            if ready_count >= LOOKS {
                task.0.help(helps).await;
                ready_count = 0;
            }
        }
    }
}

impl Drop for IdleExecutor {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            thread.unpark();
        }
    }
}

/// A body that is made a piece at a time, aside. The first piece is made there already.
pub(super) fn body(
    guest: &Guest,
    pieces: impl Iterator<Item = Bytes> + Send + Unpin + 'static,
) -> Body {
    guest.steps_aside();
    Body::from_stream(unfold(pieces, |mut pieces| async move {
        pause().await;
        let piece = pieces.next()?;
        Some((Ok::<_, Infallible>(piece), pieces))
    }))
}

/// The end of a piece.
async fn pause() {
    let mut is_next = false;
    let next = |cx: &mut Context<'_>| {
        if std::mem::replace(&mut is_next, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    };
    poll_fn(next).await;
}

/// It waits for something else.
const RESTING: u8 = 0;
/// There is a piece to be done.
const READY: u8 = 1;
/// Somebody does a piece.
const TAKEN: u8 = 2;
/// The same, and there is another one already.
const AGAIN: u8 = 3;
/// Somebody does a piece of what nobody wants any more.
const UNWANTED: u8 = 4;
/// It is done, has failed, or nobody wants it.
const OVER: u8 = 5;

struct Task {
    state: AtomicU8,
    /// How often it had caught up.
    rests: AtomicU32,
    /// Who waits for it does it.
    is_helped: AtomicBool,
    /// Tells who does it that it is ready again.
    woken: Notify,
    /// Locked by who has taken it only.
    work: Mutex<Option<Work>>,
    thread: Thread,
}

impl Task {
    fn new(work: Work, thread: Thread) -> Arc<Task> {
        Arc::new(Task {
            state: AtomicU8::new(READY),
            rests: AtomicU32::new(0),
            is_helped: AtomicBool::new(false),
            woken: Notify::new(),
            work: Mutex::new(Some(work)),
            thread,
        })
    }

    fn go(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    fn state(&self) -> u8 {
        self.state.load(SeqCst)
    }

    fn rests(&self) -> u32 {
        self.rests.load(SeqCst)
    }

    /// Whether there is something to do, or somebody does it.
    fn is_ready(&self) -> bool {
        matches!(self.state(), READY | TAKEN | AGAIN)
    }

    /// Does a piece, if there is one that nobody else does.
    fn piece(self: &Arc<Self>) -> bool {
        if !self.go(READY, TAKEN) {
            return false;
        }
        let waker = Waker::from(Arc::clone(self));
        let poll = |work: &mut Work| {
            let mut context = Context::from_waker(&waker);
            let poll = AssertUnwindSafe(|| work.as_mut().poll(&mut context));
            catch_unwind(poll).unwrap_or(Poll::Ready(())).is_pending()
        };
        let is_on = self.with_work(|work| work.as_mut().is_some_and(poll));
        if is_on {
            if self.go(TAKEN, RESTING) {
                self.rests.fetch_add(1, SeqCst);
                return true;
            }
            if self.go(AGAIN, READY) {
                return true;
            }
        }
        self.end();
        true
    }

    fn end(&self) {
        self.with_work(|work| drop(work.take()));
        self.state.store(OVER, SeqCst);
    }

    fn with_work<T>(&self, with: impl FnOnce(&mut Option<Work>) -> T) -> T {
        with(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does pieces until it is over, or has caught up if that is enough.
    async fn help(self: &Arc<Self>, helps: Helps) {
        self.is_helped.store(true, SeqCst);
        loop {
            match (self.state(), helps) {
                (OVER, _) | (RESTING, Helps::Once) => break,
                (RESTING, Helps::ToTheEnd) => self.woken.notified().await,
                _ => {
                    self.piece();
                    sleep(PAUSE).await;
                }
            }
        }
        self.is_helped.store(false, SeqCst);
        self.thread.unpark();
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let next = |state| match state {
            RESTING => Some(READY),
            TAKEN => Some(AGAIN),
            _ => None,
        };
        if self.state.fetch_update(SeqCst, SeqCst, next) == Ok(RESTING) {
            if self.is_helped.load(SeqCst) {
                self.woken.notify_one();
            } else {
                self.thread.unpark();
            }
        }
    }
}

/// Work that somebody waits for.
struct Handed(Arc<Task>);

impl Drop for Handed {
    fn drop(&mut self) {
        let next = |state| match state {
            RESTING | READY => Some(OVER),
            TAKEN | AGAIN => Some(UNWANTED),
            _ => None,
        };
        if let Ok(RESTING | READY) = self.0.state.fetch_update(SeqCst, SeqCst, next) {
            self.0.end();
        }
    }
}

/// The thread: a piece of each work in turn, until nobody can hand over any.
fn carry_out(handed: &Receiver<Arc<Task>>) {
    let mut tasks: Vec<Arc<Task>> = Vec::with_capacity(HANDED_MAX);
    loop {
        let end = loop {
            match handed.try_recv() {
                Ok(task) => tasks.push(task),
                Err(end) => break end,
            }
        };
        if end == TryRecvError::Disconnected {
            return;
        }
        let mut is_idle = true;
        for task in &tasks {
            if !task.is_helped.load(SeqCst) && task.piece() {
                is_idle = false;
                // Not every kernel has who was woken here go before this thread at once.
                thread::yield_now();
            }
        }
        tasks.retain(|task| task.state() != OVER);
        if is_idle {
            thread::park();
        }
    }
}

/// Makes the calling thread one that everybody else goes before, for the rest of its life: without
/// privileges there is no way back.
fn step_aside() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call, which reads it; 0 is the calling thread. (Not every
    // C library has the function.)
    let refused = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const param) != 0
    };
    if refused {
        let error = io::Error::last_os_error();
        tracing::debug!(%error, "the policy SCHED_IDLE is refused: nice 19 instead");
        if let Err(error) = rustix::process::setpriority_process(None, 19) {
            tracing::debug!(%error, "nice 19 is refused as well");
        }
    }
}

#[cfg(test)]
mod tests;
