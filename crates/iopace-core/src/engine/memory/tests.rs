//! Memory without an engine; a queue beside it has a disk that takes no time.

use super::*;
use crate::engine::Output;
use crate::engine::queue::Dispatch;
use crate::flush::DIRTY_EXPIRE;
use crate::pace::Thresholds;
use crate::request::{Cover, Op, Outcome, Tag, TaskId};

const PAGE: u64 = crate::units::PAGE;

impl Memory {
    /// Runs that limits of groups hold up, and those in line.
    pub(in crate::engine) fn runs_count(&self) -> (usize, u32) {
        (self.parked.count(), self.in_line.requests_count)
    }
}

struct World {
    memory: Memory,
    queue: Queue,
    cx: Context,
}

impl World {
    /// With room for so many dirty pages.
    fn new(pages: u64) -> World {
        let (background, limit) = (Bytes(pages * PAGE), Bytes(pages * PAGE));
        let config = Config { memory: Thresholds { background, limit }, ..Config::default() };
        let (memory, queue) = (Memory::new(&config), Queue::new(&config));
        World { memory, queue, cx: Context::new(true) }
    }

    fn comes(&mut self, task: u64, offset: u64, len: u64) {
        let World { memory, queue, cx } = self;
        let extent = piece(offset, len);
        let submit = submit(task, Op::Write, extent);
        memory.dirtied(queue, cx, submit, extent.into());
    }

    fn resumed(&mut self) -> Option<Resume> {
        match self.cx.outputs.take() {
            Some(Output::Resume(resume)) => Some(resume),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn wrote(&mut self, resume: &Resume, ok: bool) {
        let World { memory, queue, cx } = self;
        memory.wrote(queue, cx, resume.id, ok);
    }

    /// A write of one page, into memory at once.
    fn write(&mut self, page: u64) {
        self.comes(page, page * PAGE, PAGE);
        let resume = self.resumed().expect("there is room");
        self.wrote(&resume, true);
    }

    /// One look of the engine at memory.
    fn look(&mut self) {
        let World { memory, queue, cx } = self;
        memory.wake_writes(queue, cx);
        memory.write_back(queue, cx);
    }

    /// The next request is at the disk and back: whether it was write-back.
    fn carry_out(&mut self) -> Option<bool> {
        let World { memory, queue, cx } = self;
        let Some(Dispatch::Start(id)) = queue.dispatch(cx) else { return None };
        let start = queue.start(cx, id);
        if let Some(ended) = queue.complete(cx, id, Outcome::Ok) {
            memory.written_back(queue, cx, ended);
        }
        Some(start.write_back)
    }

    fn dirty(&self) -> u64 {
        self.memory.flusher().dirty(GroupId::ROOT).device.0 / PAGE
    }
}

fn submit(task: u64, op: Op, extent: Extent) -> Submit {
    let (tag, task, group) = (Tag(task), TaskId(task), GroupId::ROOT);
    Submit { tag, task, group, op, extent, fua: false, sync: true }
}

#[test]
fn a_write_is_dirty_once_it_is_in_memory_and_not_if_it_failed() {
    let mut world = World::new(64);
    world.comes(1, 0, PAGE);
    let resume = world.resumed().expect("it may go on");
    assert!(resume.last && resume.paused == Nanos::ZERO);
    world.wrote(&resume, true);
    assert_eq!((world.dirty(), world.memory.live_count()), (1, 0));
    world.comes(1, PAGE, PAGE);
    let resume = world.resumed().expect("it may go on");
    assert_eq!(world.dirty(), 2, "promised");
    world.wrote(&resume, false);
    assert_eq!(world.dirty(), 1);
}

#[test]
fn writes_of_a_task_go_one_after_the_other_in_portions_that_fit() {
    let mut world = World::new(4);
    world.comes(1, 0, 2 * PAGE);
    world.comes(1, 8 * PAGE, PAGE);
    let first = world.resumed().expect("a quarter of the limit");
    assert_eq!((first.extent, first.last), (piece(0, PAGE), false));
    assert!(world.resumed().is_none(), "the second is behind the first");
    world.wrote(&first, true);
    let rest = world.resumed().expect("the rest of the first");
    assert_eq!((rest.extent, rest.last), (piece(PAGE, PAGE), true));
    world.wrote(&rest, true);
    assert_eq!(world.resumed().map(|resume| resume.extent), Some(piece(8 * PAGE, PAGE)));
}

#[test]
fn a_write_without_room_waits_for_write_back() {
    let mut world = World::new(4);
    (0..4).for_each(|page| world.write(page));
    world.comes(9, 9 * PAGE, PAGE);
    assert!(world.resumed().is_none());
    assert_eq!(world.memory.reason(), Reason::Memory);
    world.look();
    assert_eq!(world.carry_out(), Some(true));
    let mut said = std::iter::from_fn(|| world.cx.outputs.take());
    assert!(said.any(|output| matches!(output, Output::Resume(_))));
    assert!(world.dirty() <= 4);
}

#[test]
fn a_page_is_written_back_when_it_is_old_and_said_to_be_clean() {
    let mut world = World::new(64);
    world.write(3);
    world.look();
    assert_eq!(world.carry_out(), None, "it is young, and little");
    world.cx.now = world.memory.next(world.cx.now);
    assert_eq!(world.cx.now, Instant::ZERO + DIRTY_EXPIRE);
    world.look();
    assert_eq!(world.memory.runs_count(), (0, 1));
    assert_eq!(world.carry_out(), Some(true));
    let page = Area::from(piece(3 * PAGE, PAGE));
    let said = world.cx.outputs.take();
    assert!(matches!(said, Some(Output::Cleaned(area)) if area == page), "{said:?}");
    assert!(world.memory.flusher().is_clean(page) && world.dirty() == 0);
    assert_eq!(world.memory.runs_count(), (0, 0));
}

#[test]
fn a_flush_stands_behind_the_write_back_of_what_it_covers() {
    let mut world = World::new(64);
    let flush = submit(1, Op::Flush, piece(0, 0));
    assert_eq!(world.memory.sync(&mut world.cx, &flush, &Cover::All), Some(false), "all is clean");
    world.write(3);
    assert_eq!(world.memory.sync(&mut world.cx, &flush, &Cover::All), None);
    let elsewhere = Cover::Piece(piece(0, PAGE).into());
    assert_eq!(world.memory.sync(&mut world.cx, &flush, &elsewhere), Some(false));
    world.look();
    assert_eq!((world.memory.live_count(), world.queue.live_count()), (1, 1));
    assert_eq!(world.carry_out(), Some(true));
    world.look();
    assert_eq!((world.memory.live_count(), world.queue.live_count()), (0, 1));
    assert_eq!(world.carry_out(), Some(false), "the flush itself");
}

#[test]
fn what_is_void_is_not_written_back() {
    let mut world = World::new(64);
    world.write(3);
    let World { memory, queue, cx } = &mut world;
    memory.discard(queue, cx, piece(0, 64 * PAGE).into());
    assert_eq!((world.dirty(), world.memory.next(Instant::ZERO)), (0, Instant::NEVER));
}
