//! What is seen at several sizes, and what keys do.

use super::app::{Act, App, Ask, Told};
use super::draw::draw;
use super::samples;
use super::theme::Theme;
use crate::cli::{Sort, View};
use iopace_daemon::api::{EventReport, SchedulerSpec};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

fn app() -> App {
    let mut app = App::default();
    app.take_report(samples::report());
    app
}

fn terminal(app: &mut App, theme: Theme, (width, height): (u16, u16)) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        draw(app, theme, frame.buffer_mut(), area);
    });
    drawn.expect("in memory");
    terminal
}

fn picture(app: &mut App, size: (u16, u16)) -> String {
    terminal(app, Theme::Plain, size).backend().to_string()
}

fn press(app: &mut App, codes: impl IntoIterator<Item = KeyCode>) -> Act {
    let press = |act, code: KeyCode| match app.press(KeyEvent::new(code, KeyModifiers::NONE)) {
        Act::Nothing => act,
        other => other,
    };
    codes.into_iter().fold(Act::Nothing, press)
}

fn enter(app: &mut App, text: &str) -> Act {
    press(app, text.chars().map(KeyCode::Char))
}

fn schedulers() -> Told {
    let spec = |(name, summary): (&str, &str)| SchedulerSpec {
        default: false,
        name: name.into(),
        summary: summary.into(),
        params: Vec::new(),
        counters: Vec::new(),
        loaded: None,
    };
    let all = [
        ("fifo", "in order of arrival"),
        (
            "rr",
            "round robin over tasks: a slice of time and bytes each, with anticipation, as FreeBSD \
             had it in 2009",
        ),
        ("fair", "device time by weight, for nested groups and the tasks in them"),
    ];
    Told::Schedulers("disk".into(), all.into_iter().map(spec).collect())
}

#[test]
fn groups_and_tasks_are_seen_at_any_size() {
    for (name, size) in [("80x24", (80, 24)), ("120x40", (120, 40)), ("40x12", (40, 12))] {
        let mut app = app();
        insta::assert_snapshot!(format!("groups_{name}"), picture(&mut app, size));
        press(&mut app, [KeyCode::Tab]);
        insta::assert_snapshot!(format!("tasks_{name}"), picture(&mut app, size));
    }
    insta::assert_snapshot!("groups_64x16", picture(&mut app(), (64, 16)));
}

#[test]
fn lists_prompts_and_messages_are_seen() {
    let size = (80, 24);
    let mut app = app();
    app.take_told(schedulers());
    insta::assert_snapshot!("schedulers", picture(&mut app, size));
    press(&mut app, [KeyCode::Esc, KeyCode::Char('s')]);
    insta::assert_snapshot!("sorts", picture(&mut app, size));
    press(&mut app, [KeyCode::Esc]);
    enter(&mut app, "?");
    insta::assert_snapshot!("help", picture(&mut app, size));
    enter(&mut app, "?/web");
    insta::assert_snapshot!("filter", picture(&mut app, size));
    press(&mut app, [KeyCode::Enter, KeyCode::Down, KeyCode::Down]);
    enter(&mut app, "w25");
    insta::assert_snapshot!("weight", picture(&mut app, size));
    press(&mut app, [KeyCode::Esc, KeyCode::Esc]);
    let text = "io.weight, line 1: 20000 is no weight; a weight is a whole number from 1 to 10000, \
                usually 100";
    app.take_told(Told::Failed(text.into()));
    insta::assert_snapshot!("error", picture(&mut app, size));
}

#[test]
fn a_daemon_that_is_gone_is_seen_and_one_that_does_nothing_too() {
    let mut app = app();
    app.take_lost("no daemon listens at /run/iopace/iopace.ctl".into());
    insta::assert_snapshot!("lost", picture(&mut app, (80, 24)));
    app.take_report(samples::report());
    assert_eq!(app.lost, None);
    enter(&mut app, "d");
    insta::assert_snapshot!("idle", picture(&mut app, (80, 24)));
    press(&mut app, [KeyCode::Tab]);
    assert!(picture(&mut app, (80, 24)).contains("no tasks seen yet"));
    let first = picture(&mut App::default(), (80, 24));
    assert!(first.contains("waiting for the first report"), "{first}");
}

#[test]
fn no_size_is_too_much() {
    for width in 1..140 {
        for height in [1, 2, 11, 16, 17, 24] {
            let mut app = app();
            app.take_told(Told::Failed("word ".repeat(200)));
            picture(&mut app, (width, height));
            app.take_told(schedulers());
            picture(&mut app, (width, height));
            enter(&mut app, "q?");
            press(&mut app, [KeyCode::Tab]);
            picture(&mut app, (width, height));
        }
    }
}

#[test]
fn a_weight_is_asked_for_the_row_that_is_chosen() {
    let mut app = app();
    app.page = 10;
    assert_eq!(enter(&mut app, "w"), Act::Nothing);
    assert!(app.note.as_ref().is_some_and(|note| note.is_error), "the root has none");
    press(&mut app, [KeyCode::Down, KeyCode::Down]);
    assert_eq!(app.selected.as_deref(), Some("/vms/db"));
    // Another report does not move it, nor take away what is being entered.
    enter(&mut app, "w30x");
    app.take_report(samples::report());
    let ask = press(&mut app, [KeyCode::Backspace, KeyCode::Char('0'), KeyCode::Enter]);
    let (device, group) = ("disk".into(), "/vms/db".into());
    assert_eq!(ask, Act::Ask(Ask::Weight { device, group, weight: "300".into() }));
    assert_eq!(press(&mut app, [KeyCode::Char('w'), KeyCode::Enter]), Act::Nothing, "no text");
    enter(&mut app, "w7");
    assert_eq!(press(&mut app, [KeyCode::Esc, KeyCode::Enter]), Act::Nothing, "undone");
    // A task's weight is that of its group.
    press(&mut app, [KeyCode::Tab, KeyCode::End]);
    enter(&mut app, "w5");
    let ask = press(&mut app, [KeyCode::Enter]);
    assert!(matches!(ask, Act::Ask(Ask::Weight { group, .. }) if group == "/vms/web"));
}

#[test]
fn a_scheduler_is_chosen_from_those_that_there_are() {
    let mut app = app();
    assert_eq!(enter(&mut app, "S"), Act::Ask(Ask::Schedulers("disk".into())));
    app.take_told(schedulers());
    // The bar stands on the one at work.
    let ask = press(&mut app, [KeyCode::Up, KeyCode::Enter]);
    let exchange = |algorithm: Option<&str>| {
        let algorithm = algorithm.map(str::to_owned);
        Act::Ask(Ask::Exchange { device: "disk".into(), algorithm })
    };
    assert_eq!(ask, exchange(Some("rr")));
    app.take_told(schedulers());
    assert_eq!(press(&mut app, [KeyCode::End, KeyCode::Enter]), exchange(None));
    // A list that comes late does not take the keys from a prompt.
    enter(&mut app, "/a");
    app.take_told(schedulers());
    enter(&mut app, "b");
    assert_eq!(app.filter, "ab");
}

#[test]
fn sorting_filter_and_devices_follow_the_keys() {
    let mut app = app();
    assert_eq!(app.sort, Sort::Total);
    enter(&mut app, ">>");
    assert_eq!(app.sort, Sort::Write);
    enter(&mut app, "<<<<<");
    assert_eq!(app.sort, Sort::Waited, "around the edge");
    press(&mut app, [KeyCode::Char('s'), KeyCode::Home, KeyCode::Enter]);
    assert_eq!(app.sort, Sort::Name);
    enter(&mut app, "s>q");
    assert_eq!(app.sort, Sort::Name, "closed");
    press(&mut app, [KeyCode::Char('s'), KeyCode::End, KeyCode::Up, KeyCode::Enter, KeyCode::Tab]);
    assert_eq!((app.view, app.sort), (View::Tasks, Sort::Total), "tasks have no dirty memory");
    enter(&mut app, "/q");
    assert_eq!(app.filter, "q", "keys are letters here");
    press(&mut app, [KeyCode::Enter]);
    assert!(app.rows().is_empty());
    press(&mut app, [KeyCode::Esc, KeyCode::Char('d')]);
    assert_eq!(app.shown().map(|(at, _)| at), Some(1));
    assert_eq!(enter(&mut app, "q"), Act::Quit);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    enter(&mut app, "/");
    assert_eq!(app.press(control), Act::Quit, "also from a prompt");
}

#[test]
fn a_picture_that_stands_still_goes_on_with_the_newest() {
    let mut app = app();
    enter(&mut app, "p");
    for sequence in [200, 201] {
        app.take_report(iopace_daemon::api::LiveReport { sequence, ..samples::report() });
    }
    assert_eq!(app.report().map(|report| report.sequence), Some(187));
    assert!(picture(&mut app, (80, 24)).contains("PAUSED"));
    enter(&mut app, "p");
    assert_eq!(app.report().map(|report| report.sequence), Some(201));
    enter(&mut app, "pp");
    assert_eq!(app.report().map(|report| report.sequence), Some(201), "nothing new");
}

#[test]
fn messages_go_by_themselves_and_errors_with_a_key() {
    let mut app = app();
    let event = EventReport {
        device: "disk".into(),
        age_ns: 0,
        kind: "exchanged".into(),
        text: "fifo for rr".into(),
    };
    app.take_told(Told::Done("disk has scheduler rr now".into()));
    app.take_event(&event);
    assert!(picture(&mut app, (80, 24)).contains("disk has scheduler rr now"), "the answer stays");
    press(&mut app, [KeyCode::Up]);
    app.take_event(&event);
    assert!(picture(&mut app, (80, 24)).contains("disk: exchanged: fifo for rr"));
    app.take_lost("gone".into());
    assert!(picture(&mut app, (80, 24)).contains("gone; it is tried again"), "that comes first");
    app.take_report(samples::report());
    app.take_told(Told::Failed("refused".into()));
    app.take_event(&event);
    for _ in 0..50 {
        app.take_report(samples::report());
    }
    assert!(picture(&mut app, (80, 24)).contains("error: refused"), "it was not read yet");
    press(&mut app, [KeyCode::Up]);
    app.take_event(&event);
    for _ in 0..50 {
        app.take_report(samples::report());
    }
    assert!(!picture(&mut app, (80, 24)).contains("exchanged"));
}

#[test]
fn the_chosen_row_stays_in_sight() {
    let mut app = app();
    let size = (80, 16);
    for expected in ["/vms/db", "/vms/web", "/vms/web/a-part", "/backup"] {
        while app.selected.as_deref() != Some(expected) {
            picture(&mut app, size);
            press(&mut app, [KeyCode::Down]);
        }
        let terminal = terminal(&mut app, Theme::Plain, size);
        assert_eq!(reversed(terminal.backend().buffer()).len(), 3, "title, titles, {expected}");
    }
    press(&mut app, [KeyCode::Home]);
    picture(&mut app, size);
    assert_eq!((app.selected.as_deref(), app.first), (Some("/"), 0));
}

/// The lines whose first cell is reversed.
fn reversed(buffer: &Buffer) -> Vec<u16> {
    let is_reversed = |y: &u16| buffer[(0, *y)].modifier.contains(Modifier::REVERSED);
    (0..buffer.area.height).filter(is_reversed).collect()
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let colours = |theme| {
        let mut app = app();
        app.take_lost("gone".into());
        let terminal = terminal(&mut app, theme, (120, 40));
        let cells = terminal.backend().buffer().content().to_vec();
        let is_plain = |colour| colour == Color::Reset;
        let coloured = cells.iter().filter(|cell| !is_plain(cell.fg) || !is_plain(cell.bg)).count();
        let text: String = cells.iter().map(|cell| cell.symbol()).collect();
        (coloured, text)
    };
    let (none, plain) = colours(Theme::Plain);
    let (eight, of_eight) = colours(Theme::Eight);
    let (palette, of_palette) = colours(Theme::Palette);
    assert_eq!(none, 0);
    assert!(eight > 100 && palette > eight, "{eight} {palette}");
    assert!(plain == of_eight && plain == of_palette, "the letters say the same");
}
