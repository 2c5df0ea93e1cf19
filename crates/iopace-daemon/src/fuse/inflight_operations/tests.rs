//! Who is given up, when, and what waits for what then.

use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Says what it was given.
struct Said(Sender<Option<i32>>);

impl Refuse for Said {
    fn refuse(self, errno: Errno) {
        let _ = self.0.send(Some(errno.code()));
    }

    fn is_signalled(&self) -> bool {
        true
    }

    fn is_interrupted(&self) -> bool {
        true
    }
}

fn reply() -> (Said, Receiver<Option<i32>>) {
    let (sender, said) = channel();
    (Said(sender), said)
}

const DYING: u32 = 7;

fn caller(pid: u32) -> Caller {
    Caller { pid, uid: 1000, gid: 1000 }
}

fn is_dying(from: Asker) -> bool {
    from.pid == DYING
}

#[test]
fn who_is_being_killed_is_answered_at_the_second_look() {
    let inflight = InflightOperations::default();
    let ((dying, said), (living, unsaid)) = (reply(), reply());
    let given_up = inflight.begin(caller(DYING), Touch::one(1), dying).ok().expect("it begins");
    let kept = inflight.begin(caller(8), Touch::one(2), living).ok().expect("it begins");
    assert_eq!(inflight.look(is_dying), 0);
    assert!(said.try_recv().is_err(), "it may just have begun");
    assert_eq!(inflight.look(is_dying), 1);
    assert_eq!(said.recv(), Ok(Some(libc::EINTR)));
    assert_eq!(inflight.look(is_dying), 0, "once");
    assert!(given_up.is_given_up() && given_up.take().is_none());
    assert!(!kept.is_given_up() && kept.take().is_some());
    drop(kept);
    assert!(unsaid.try_recv().is_err());
}

#[test]
fn of_whom_the_kernel_has_told_is_answered_at_once() {
    let inflight = InflightOperations::default();
    let ((dying, said), (living, unsaid)) = (reply(), reply());
    let given_up = inflight.begin(caller(DYING), Touch::one(1), dying).ok().expect("it begins");
    let kept = inflight.begin(caller(8), Touch::one(2), living).ok().expect("it begins");
    assert_eq!(inflight.look_at_interrupted(is_dying), 1);
    assert_eq!(said.recv(), Ok(Some(libc::EINTR)));
    // Who changes the same waits for what was given up.
    let again = inflight.begin(caller(9), Touch::one(1), reply().0);
    assert!(again.is_err() && given_up.is_given_up() && !kept.is_given_up());
    assert!(kept.take().is_some() && unsaid.try_recv().is_err());
}

#[test]
fn what_was_answered_is_not_given_up() {
    let inflight = InflightOperations::default();
    let (reply, said) = reply();
    let late = inflight.begin(caller(DYING), Touch::one(1), reply).ok().expect("it begins");
    assert!(late.take().is_some());
    inflight.look(is_dying);
    assert_eq!(inflight.look(is_dying), 0);
    drop(late);
    assert_eq!(inflight.look(is_dying), 0);
    assert!(said.try_recv().is_err());
    assert_eq!(inflight.given_up_count.load(SeqCst), 0);
}

/// Whoever asks to change this, and when he is carried out.
fn park(inflight: &Arc<InflightOperations>, pid: u32, touch: Touch) -> Receiver<Option<i32>> {
    let (reply, said) = reply();
    let begun = match inflight.begin(caller(pid), touch, reply) {
        Ok(late) => late.take(),
        Err(reply) => {
            let again = Arc::downgrade(inflight);
            inflight.park(caller(pid), touch, reply, move |reply: Said| {
                let inflight = again.upgrade().expect("it is there");
                let late =
                    inflight.begin(caller(pid), touch, reply).ok().expect("nothing is in its way");
                let _ = late.take().expect("it waits").0.send(None);
            });
            None
        }
    };
    begun.map(|reply| reply.0.send(None));
    said
}

/// Something of him who is being killed is given up while it is carried out.
fn given_up(inflight: &InflightOperations, touch: Touch) -> Late<'_, Said> {
    let late = inflight.begin(caller(DYING), touch, reply().0).ok().expect("it begins");
    inflight.look(is_dying);
    assert_eq!(inflight.look(is_dying), 1);
    late
}

fn end(said: &Receiver<Option<i32>>) -> Option<i32> {
    said.recv_timeout(Duration::from_secs(10)).expect("it ends")
}

#[test]
fn nothing_overtakes_what_was_given_up() {
    let inflight = Arc::new(InflightOperations::default());
    let late = given_up(&inflight, Touch::two(3, 4));
    let waits = [Touch::one(4), Touch::two(6, 3)].map(|touch| park(&inflight, 9, touch));
    assert_eq!(inflight.parked_count(), 2, "without a thread: this one goes on");
    // What has nothing to do with it is carried out meanwhile, and who only looks.
    assert_eq!(end(&park(&inflight, 9, Touch::one(5))), None);
    drop(inflight.begin_look(9, reply().0));
    assert!(waits.iter().all(|said| said.try_recv().is_err()), "they wait");
    drop(late);
    assert_eq!(waits.map(|said| end(&said)), [None, None]);
    assert_eq!((inflight.given_up_count.load(SeqCst), inflight.parked_count()), (0, 0));
    // Its thread puts it down when it has answered.
    let is_empty = || inflight.rows.iter().all(|row| row.lock().expect("whole").is_empty());
    while !is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn who_waits_for_two_waits_for_both() {
    let inflight = Arc::new(InflightOperations::default());
    let (one, other) = (given_up(&inflight, Touch::one(3)), given_up(&inflight, Touch::one(4)));
    let waits = park(&inflight, 9, Touch::two(3, 4));
    drop(one);
    assert_eq!(inflight.parked_count(), 1);
    assert!(waits.try_recv().is_err());
    drop(other);
    assert_eq!(end(&waits), None);
}

#[test]
fn who_waits_for_what_was_given_up_can_be_killed_too() {
    let inflight = Arc::new(InflightOperations::default());
    let late = given_up(&inflight, Touch::one(3));
    let waits = park(&inflight, 9, Touch::one(3));
    let looks = [1, 2].map(|_| inflight.look(|from| from.pid == 9));
    assert_eq!((looks, end(&waits)), ([0, 1], Some(libc::EINTR)));
    assert_eq!(inflight.given_up_count.load(SeqCst), 1, "only what goes on");
    drop(late);
    assert!(waits.try_recv().is_err(), "it never begins");
    assert_eq!(inflight.given_up_count.load(SeqCst), 0);
}

#[test]
fn with_the_mount_the_wait_ends() {
    let inflight = Arc::new(InflightOperations::default());
    let late = given_up(&inflight, Touch::one(3));
    let waits = park(&inflight, 9, Touch::one(3));
    inflight.end();
    assert_eq!(end(&waits), Some(libc::EIO));
    assert_eq!(end(&park(&inflight, 9, Touch::one(3))), Some(libc::EIO), "who comes later too");
    drop(late);
    assert!(waits.try_recv().is_err());
}
