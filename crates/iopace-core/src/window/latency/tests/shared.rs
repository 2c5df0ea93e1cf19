//! Hosts at one volume that serves one request after the other in order of arrival.

use super::super::*;
use crate::time::Nanos;
use crate::window::tests::requests::{done, started};
use crate::window::{HostShare, WindowSize};
use std::collections::VecDeque;

/// A request takes so long.
const SERVICE: Nanos = Nanos::from_micros(100);

const TARGET: Option<Nanos> = Some(Nanos::from_millis(2));

fn share(beta: u64) -> HostShare {
    let (beta, held_for) = (WindowSize(beta), Nanos::from_secs(1_000));
    HostShare { beta, target: TARGET, size: None, held_for, is_quiet: false }
}

fn sized(size: u64) -> HostShare {
    HostShare { size: Some(WindowSize(size)), ..share(256) }
}

/// A host: its window, the most that it has at a time, and what was done.
struct Member {
    window: Latency,
    wants: u32,
    in_flight: u32,
    done_count: u64,
    /// Requests at the volume, summed up over time.
    held: u128,
}

struct Volume {
    now: Instant,
    queue: VecDeque<(usize, Instant)>,
    members: Vec<Member>,
}

impl Volume {
    fn new(shares: &[HostShare]) -> Volume {
        let member = |share: &HostShare| {
            let mut window = Latency::new(256);
            window.set_share(Instant::ZERO, Some(*share));
            Member { window, wants: 1_000, in_flight: 0, done_count: 0, held: 0 }
        };
        let members = shares.iter().map(member).collect();
        Volume { now: Instant::ZERO, queue: VecDeque::new(), members }
    }

    fn run(&mut self, length: Nanos) {
        let end = self.now + length;
        for member in &mut self.members {
            (member.done_count, member.held) = (0, 0);
        }
        while self.now < end {
            for (number, member) in self.members.iter_mut().enumerate() {
                let room = |member: &Member| member.window.has_room(member.in_flight);
                while member.in_flight < member.wants && room(member) {
                    member.in_flight += 1;
                    member.window.on_start(self.now, &started(true));
                    self.queue.push_back((number, self.now));
                }
                member.held += u128::from(member.in_flight) * u128::from(SERVICE.0);
            }
            self.now = self.now + SERVICE;
            let Some((number, since)) = self.queue.pop_front() else { continue };
            let member = &mut self.members[number];
            member.in_flight -= 1;
            member.done_count += 1;
            member.window.on_done(self.now, &done(true, since.0));
        }
    }

    /// The part of each in all that was done, in thousandths.
    fn parts(&self) -> Vec<u64> {
        let all: u64 = self.members.iter().map(|member| member.done_count).sum();
        self.members.iter().map(|member| member.done_count * 1_000 / all).collect()
    }
}

#[test]
fn p10_a_size_is_held_over_time() {
    // 1, 1.3, 2.5, 7.9 and 20 requests.
    let sizes = [256u64, 333, 640, 2_022, 5_120];
    let mut volume = Volume::new(&sizes.map(sized));
    volume.run(Nanos::from_secs(1));
    volume.run(Nanos::from_secs(10));
    let all: u64 = sizes.iter().sum();
    for (member, size) in volume.members.iter().zip(sizes) {
        let mean = (member.held * 256 / u128::from(Nanos::from_secs(10).0)) as u64;
        assert!(mean.abs_diff(size) * 100 <= size, "{mean} of {size}");
        let (done, due) = (member.done_count, 100_000 * size / all);
        assert!(done.abs_diff(due) * 100 <= due, "{done} of {due}");
    }
}

#[test]
fn p10_what_was_not_used_is_no_credit() {
    let mut volume = Volume::new(&[sized(640), sized(640)]);
    volume.members[0].wants = 0;
    volume.run(Nanos::from_secs(5));
    volume.members[0].wants = 1_000;
    volume.run(Nanos::from_millis(50));
    let parts = volume.parts();
    assert!((480..=520).contains(&parts[0]), "{parts:?}");
}

#[test]
fn p11_shares_follow_the_betas_whatever_the_windows_were() {
    let betas = [256u64, 512, 768, 1_024];
    let begin = [50, 1, 9, 200].map(|size| HostShare { held_for: Nanos(1), ..sized(size * 256) });
    let mut volume = Volume::new(&begin);
    for (member, beta) in volume.members.iter_mut().zip(betas) {
        member.window.set_share(Instant::ZERO, Some(share(beta)));
    }
    volume.run(Nanos::from_secs(20));
    volume.run(Nanos::from_secs(5));
    for (part, due) in volume.parts().into_iter().zip([100u64, 200, 300, 400]) {
        assert!(part.abs_diff(due) * 20 <= due, "{part} of {due}");
    }
    // The queue is longer than the target pays for by the betas: 20 requests and 10.
    let held: u128 = volume.members.iter().map(|member| member.held).sum();
    let mean = held / u128::from(Nanos::from_secs(5).0);
    assert!((25..=35).contains(&mean), "{mean}");
}

#[test]
fn p11_who_begins_adds_no_more_than_its_beta() {
    let mut volume = Volume::new(&[share(512), share(512)]);
    volume.members[1].wants = 0;
    volume.run(Nanos::from_secs(5));
    assert_eq!(volume.members[1].window.depth(), 3);
    // A window that is not made use of is no surprise later either.
    volume.members[0].wants = 2;
    volume.run(Nanos::from_secs(5));
    assert!(volume.members[0].window.depth() <= 8, "{}", volume.members[0].window.depth());
}

#[test]
fn p12_a_size_is_held_for_as_long_as_told() {
    let told = HostShare { held_for: Nanos::from_secs(2), ..sized(25_600) };
    let mut volume = Volume::new(&[told]);
    volume.run(Nanos::from_millis(1_990));
    let size = |volume: &Volume| volume.members[0].window.queue_totals().expect("shared").size;
    assert_eq!(size(&volume), WindowSize(25_600));
    volume.run(Nanos::from_secs(3));
    assert!(size(&volume) < WindowSize(6_400), "{:?}", size(&volume));
}

#[test]
fn the_first_of_a_burst_says_how_long_it_takes_alone_and_others_do_not() {
    let quiet = HostShare { is_quiet: true, target: None, ..share(256) };
    let mut volume = Volume::new(&[quiet]);
    volume.run(Nanos::from_secs(1));
    let alone = |volume: &Volume| volume.members[0].window.queue_totals().expect("shared").alone;
    assert_eq!(alone(&volume), Some(SERVICE));
    let mut volume = Volume::new(&[HostShare { is_quiet: false, ..quiet }]);
    volume.run(Nanos::from_secs(1));
    assert_eq!(alone(&volume), None);
}

#[test]
fn without_others_it_is_the_law_for_one_again() {
    let mut window = Latency::new(64);
    window.set_share(Instant::ZERO, Some(sized(640)));
    assert_eq!((window.depth(), window.queue_totals().is_some()), (2, true));
    window.set_share(Instant::ZERO, None);
    assert_eq!((window.depth(), window.queue_totals()), (2, None));
    window.set_depth(32);
    assert_eq!(window.depth(), 32);
}
