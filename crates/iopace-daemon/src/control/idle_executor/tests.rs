//! Work that is handed over, to a thread or to none.

use super::*;
use std::sync::atomic::AtomicUsize;

const PIECES: usize = 100;

/// Counts its pieces; says nothing of who did them.
fn counted(count: &Arc<AtomicUsize>) -> Pin<Box<impl Future<Output = usize> + Send + use<>>> {
    let count = Arc::clone(count);
    Box::pin(async move {
        for _ in 0..PIECES {
            count.fetch_add(1, SeqCst);
            pause().await;
        }
        count.load(SeqCst)
    })
}

/// A thread that never looks at what it is given, as on a machine without a moment for it.
fn starved() -> (IdleExecutor, Receiver<Arc<Task>>) {
    let (sender, receiver) = sync_channel(HANDED_MAX);
    (IdleExecutor(Some((sender, thread::current()))), receiver)
}

#[tokio::test]
async fn work_is_done_once_a_piece_after_the_other() {
    let (aside, count) = (IdleExecutor::start(), Arc::new(AtomicUsize::new(0)));
    for round in 1..=20 {
        let done = aside.carried_out(counted(&count), Helps::ToTheEnd).await;
        assert_eq!(done, Some(round * PIECES));
    }
}

#[tokio::test]
async fn the_thread_is_one_that_all_others_go_before() {
    let aside = IdleExecutor::start();
    let asked = Box::pin(async {
        // SAFETY: no memory is handed over; 0 is the calling thread.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        let nice = rustix::process::getpriority_process(None);
        policy == i64::from(libc::SCHED_IDLE) || nice == Ok(19)
    });
    assert_eq!(aside.carried_out(asked, Helps::ToTheEnd).await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn without_a_moment_for_the_thread_who_waits_does_all() {
    let ((aside, _never_read), count) = (starved(), Arc::new(AtomicUsize::new(0)));
    assert_eq!(aside.carried_out(counted(&count), Helps::ToTheEnd).await, Some(PIECES));
    // Also more works than can be handed over.
    for _ in 0..HANDED_MAX {
        let work = Box::pin(async { pause().await });
        assert_eq!(aside.carried_out(work, Helps::ToTheEnd).await, Some(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_the_thread_has_taken_is_not_done_twice() {
    let ((aside, receiver), count) = (starved(), Arc::new(AtomicUsize::new(0)));
    let theirs = async {
        let task = loop {
            match receiver.try_recv() {
                Ok(task) => break task,
                Err(_) => sleep(PAUSE).await,
            }
        };
        assert!(task.go(READY, TAKEN));
        sleep(3 * PATIENCE).await;
        assert_eq!(count.load(SeqCst), 0, "nobody else does it");
        assert!(task.go(TAKEN, READY));
    };
    let (done, ()) = tokio::join!(aside.carried_out(counted(&count), Helps::ToTheEnd), theirs);
    assert_eq!(done, Some(PIECES));
}

#[tokio::test(start_paused = true)]
async fn who_waits_helps_with_what_is_ready_and_not_with_what_waits() {
    let (aside, _never_read) = starved();
    let (send, receive) = oneshot::channel();
    let work = Box::pin(receive);
    let theirs = async {
        sleep(5 * PATIENCE).await;
        send.send(7).expect("waited for");
    };
    let (done, ()) = tokio::join!(aside.carried_out(work, Helps::ToTheEnd), theirs);
    assert_eq!(done, Some(Ok(7)));
}

/// Has something to do so often, each time in two pieces, and then waits for somebody else.
fn resting(count: u32) -> Pin<Box<impl Future<Output = ()> + Send>> {
    Box::pin(async move {
        for _ in 0..count {
            pause().await;
            sleep(4 * PAUSE).await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_late_is_helped_to_its_end_however_often_it_rests() {
    let (aside, _never_read) = starved();
    let began = tokio::time::Instant::now();
    assert_eq!(aside.carried_out(resting(100), Helps::ToTheEnd).await, Some(()));
    assert!((PATIENCE..2 * PATIENCE).contains(&began.elapsed()), "{:?}", began.elapsed());
    // A stream is the thread's as soon as it has caught up.
    let began = tokio::time::Instant::now();
    assert_eq!(aside.carried_out(resting(3), Helps::Once).await, Some(()));
    assert!(began.elapsed() >= 3 * PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_late_a_little_again_and_again_is_helped() {
    let (aside, receiver) = starved();
    let began = tokio::time::Instant::now();
    // Whoever does it has a moment for it every half second, and each time it has caught up then.
    let theirs = async {
        sleep(PAUSE).await;
        let task = receiver.try_recv().expect("handed over");
        while task.state() != OVER {
            sleep(PATIENCE / 2).await;
            if !task.is_helped.load(SeqCst) {
                while task.piece() {}
            }
        }
    };
    let (done, ()) = tokio::join!(aside.carried_out(resting(100), Helps::ToTheEnd), theirs);
    assert_eq!(done, Some(()));
    assert!(began.elapsed() < 3 * PATIENCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn work_that_panics_fails_and_the_thread_goes_on() {
    let aside = IdleExecutor::start();
    let fails = Box::pin(async {
        pause().await;
        panic!("as it is meant to be");
    });
    assert_eq!(aside.carried_out(fails, Helps::ToTheEnd).await, None::<()>);
    let next = aside.carried_out(Box::pin(async { 1 }), Helps::ToTheEnd);
    assert_eq!(next.await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_while_it_is_helped_fails_as_well() {
    let (aside, _never_read) = starved();
    let fails = Box::pin(async { panic!("as it is meant to be") });
    assert_eq!(aside.carried_out(fails, Helps::ToTheEnd).await, None::<()>);
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_ends() {
    let (aside, kept) = (IdleExecutor::start(), Arc::new(()));
    let held = Arc::clone(&kept);
    let forever = Box::pin(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    let waited = timeout(Duration::ZERO, aside.carried_out(forever, Helps::ToTheEnd)).await;
    assert!(waited.is_err());
    while Arc::strong_count(&kept) > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_a_thread_work_is_done_at_once() {
    let count = Arc::new(AtomicUsize::new(0));
    assert_eq!(
        IdleExecutor(None).carried_out(counted(&count), Helps::ToTheEnd).await,
        Some(PIECES)
    );
}
