//! What is shown and what keys do: no terminal, no socket.

use super::menu::{Choice, Menu};
use super::rows::{Order, Row, rows};
use crate::cli::{Sort, View};
use iopace_daemon::api::{EventReport, LiveDevice, LiveReport, SchedulerSpec};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A message that is no error goes after so many reports.
const NOTE_REPORTS: u8 = 10;
/// An answer is not replaced by news before so many reports: it is what was asked for.
const ANSWER_REPORTS: u8 = 3;

/// Longest text of a prompt.
const PROMPT_MAX: usize = 60;

/// What is asked of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The weight of a group on a device.
    Weight {
        /// The device.
        device: String,
        /// The group.
        group: String,
        /// What was entered.
        weight: String,
    },
    /// The schedulers that there are, to choose one for this device.
    Schedulers(String),
    /// Another scheduler, or none inserted.
    Exchange {
        /// The device.
        device: String,
        /// Which one.
        algorithm: Option<String>,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The schedulers, for this device.
    Schedulers(String, Vec<SchedulerSpec>),
    /// It is done; what holds now.
    Done(String),
    /// It was refused, or could not be asked.
    Failed(String),
}

/// What a key leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing but another picture.
    Nothing,
    /// The end.
    Quit,
    /// Back to the shell for a while.
    Suspend,
    /// A question.
    Ask(Ask),
}

/// Where keys go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// To the table.
    #[default]
    Table,
    /// To the filter.
    Filter,
    /// To the weight of this group on this device.
    Weight(String, String, String),
    /// To a list over the table.
    Menu(Menu),
    /// The keys are explained.
    Help,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it says.
    pub text: String,
    /// Whether something went wrong; it stays until the next key then.
    pub is_error: bool,
    /// Reports since.
    age: u8,
}

/// Everything that is shown.
#[derive(Clone, Debug, Default)]
pub struct App {
    /// The device that was chosen; the first one if it is not there.
    pub device: Option<String>,
    /// Groups or tasks.
    pub view: View,
    /// Groups as a list.
    pub is_flat: bool,
    /// What comes first.
    pub sort: Sort,
    /// The other way around.
    pub is_reversed: bool,
    /// Only names with this text.
    pub filter: String,
    /// Where keys go.
    pub mode: Mode,
    /// The picture stands still.
    pub is_paused: bool,
    /// The last message.
    pub note: Option<Note>,
    /// Lines about programs under `iopace nice`, and about volumes of several hosts.
    pub nice: Vec<String>,
    /// See above.
    pub volumes: Vec<String>,
    /// Why there is no connection at this moment.
    pub lost: Option<String>,
    /// The row that was chosen, by its key.
    pub selected: Option<String>,
    /// The first row that is shown.
    pub first: usize,
    /// Rows that have room; set by drawing.
    pub page: usize,
    shown: Option<LiveReport>,
    /// What came while the picture stood still.
    waiting: Option<LiveReport>,
}

impl App {
    /// The report that is shown.
    pub fn report(&self) -> Option<&LiveReport> {
        self.shown.as_ref()
    }

    /// The device that is shown, and its place.
    pub fn shown(&self) -> Option<(usize, &LiveDevice)> {
        let devices = &self.shown.as_ref()?.devices;
        let chosen = self.device.as_deref();
        let at = devices.iter().position(|device| Some(&*device.device) == chosen);
        let at = at.unwrap_or(0);
        devices.get(at).map(|device| (at, device))
    }

    /// The rows of the table.
    pub fn rows(&self) -> Vec<Row> {
        let order = Order {
            sort: self.sort,
            is_reversed: self.is_reversed,
            is_flat: self.is_flat,
            filter: &self.filter,
        };
        self.shown().map(|(_, device)| rows(device, self.view, order)).unwrap_or_default()
    }

    /// The place of the row that is chosen: the first one if it is not there.
    pub fn chosen(&self, rows: &[Row]) -> usize {
        rows.iter().position(|row| Some(&row.key) == self.selected.as_ref()).unwrap_or(0)
    }

    /// A report has come.
    pub fn take_report(&mut self, report: LiveReport) {
        self.lost = None;
        if let Some(note) = &mut self.note {
            note.age = note.age.saturating_add(1);
            if !note.is_error && note.age > NOTE_REPORTS {
                self.note = None;
            }
        }
        let place = if self.is_paused { &mut self.waiting } else { &mut self.shown };
        *place = Some(report);
    }

    /// Something happened at a device.
    pub fn take_event(&mut self, event: &EventReport) {
        // An error was not read yet; nor an answer, perhaps.
        let is_kept = |note: &Note| note.is_error || note.age < ANSWER_REPORTS;
        if !self.note.as_ref().is_some_and(is_kept) {
            let text = format!("{}: {}: {}", event.device, event.kind, event.text);
            self.note = Some(Note { text, is_error: false, age: ANSWER_REPORTS });
        }
    }

    /// The daemon is gone, or a try to come back failed.
    pub fn take_lost(&mut self, why: String) {
        if self.lost.replace(why).is_none() && !self.note.as_ref().is_some_and(|note| note.is_error)
        {
            self.note = None;
        }
    }

    /// An answer has come.
    pub fn take_told(&mut self, told: Told) {
        match told {
            Told::Done(text) => self.say(text),
            Told::Failed(text) => self.fail(text),
            Told::Schedulers(device, specs) => {
                let devices = self.shown.iter().flat_map(|report| &report.devices);
                let at = devices.into_iter().find(|one| one.device == device);
                let now = at.filter(|at| at.inserted).map(|at| at.scheduler.clone());
                // Whoever has gone on to something else is not to be disturbed.
                if self.mode == Mode::Table {
                    self.note = None;
                    self.mode = Mode::Menu(Menu::schedulers(&device, specs, now.as_deref()));
                }
            }
        }
    }

    /// Shows a message.
    pub fn say(&mut self, text: String) {
        self.note = Some(Note { text, is_error: false, age: 0 });
    }

    fn fail(&mut self, text: String) {
        self.note = Some(Note { text, is_error: true, age: 0 });
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Act {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Act::Quit,
                KeyCode::Char('z') => Act::Suspend,
                _ => Act::Nothing,
            };
        }
        self.note = None;
        match std::mem::take(&mut self.mode) {
            Mode::Table => self.press_table(key.code),
            Mode::Help => match key.code {
                KeyCode::Char('q') => Act::Quit,
                _ => Act::Nothing,
            },
            Mode::Filter => {
                match key.code {
                    KeyCode::Enter => return Act::Nothing,
                    KeyCode::Esc => {
                        self.filter.clear();
                        return Act::Nothing;
                    }
                    code => edit(&mut self.filter, code),
                }
                self.mode = Mode::Filter;
                Act::Nothing
            }
            Mode::Weight(device, group, mut weight) => match key.code {
                KeyCode::Enter if weight.trim().is_empty() => Act::Nothing,
                KeyCode::Enter => {
                    let weight = weight.trim().to_owned();
                    self.ask(Ask::Weight { device, group, weight })
                }
                KeyCode::Esc => Act::Nothing,
                code => {
                    edit(&mut weight, code);
                    self.mode = Mode::Weight(device, group, weight);
                    Act::Nothing
                }
            },
            Mode::Menu(menu) => self.press_menu(menu, key.code),
        }
    }

    fn ask(&mut self, ask: Ask) -> Act {
        self.say("asking the daemon".into());
        Act::Ask(ask)
    }

    fn press_menu(&mut self, mut menu: Menu, code: KeyCode) -> Act {
        match code {
            KeyCode::Esc | KeyCode::Char('q') => return Act::Nothing,
            KeyCode::Enter => {
                return match menu.chosen() {
                    Some(Choice::Sort(sort)) => {
                        self.sort = *sort;
                        Act::Nothing
                    }
                    Some(Choice::Device(device)) => {
                        self.choose_device(device.clone());
                        Act::Nothing
                    }
                    Some(Choice::Scheduler(device, algorithm)) => {
                        let (device, algorithm) = (device.clone(), algorithm.clone());
                        self.ask(Ask::Exchange { device, algorithm })
                    }
                    None => Act::Nothing,
                };
            }
            code => menu.step(code),
        }
        self.mode = Mode::Menu(menu);
        Act::Nothing
    }

    fn press_table(&mut self, code: KeyCode) -> Act {
        match code {
            KeyCode::Char('q') => return Act::Quit,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('t') => self.is_flat = !self.is_flat,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('s') => {
                self.mode = Mode::Menu(Menu::sorts(Sort::of(self.view), self.sort));
            }
            KeyCode::Char('<' | ',') => self.sort_by_next(Sort::of(self.view).rev().collect()),
            KeyCode::Char('>' | '.') => self.sort_by_next(Sort::of(self.view).collect()),
            KeyCode::Tab => self.turn(),
            KeyCode::Char('d') => self.press_device(),
            KeyCode::Char('w') => self.press_weight(),
            KeyCode::Char('S') => {
                if let Some(device) = self.shown().map(|(_, device)| device.device.clone()) {
                    return self.ask(Ask::Schedulers(device));
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.step(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(|at, _| at + 1),
            KeyCode::PageUp => self.step(usize::saturating_sub),
            KeyCode::PageDown => self.step(|at, page| at + page),
            KeyCode::Home => self.step(|_, _| 0),
            KeyCode::End => self.step(|_, _| usize::MAX),
            _ => {}
        }
        Act::Nothing
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if !self.is_paused {
            self.shown = self.waiting.take().or(self.shown.take());
        }
    }

    /// The other table.
    fn turn(&mut self) {
        self.view = match self.view {
            View::Groups => View::Tasks,
            View::Tasks => View::Groups,
        };
        (self.selected, self.first) = (None, 0);
        if !Sort::of(self.view).any(|sort| sort == self.sort) {
            self.sort = Sort::default();
        }
    }

    fn sort_by_next(&mut self, sorts: Vec<Sort>) {
        let at = sorts.iter().position(|sort| *sort == self.sort);
        self.sort = sorts[at.map_or(0, |at| (at + 1) % sorts.len())];
    }

    fn choose_device(&mut self, device: String) {
        self.device = Some(device);
        (self.selected, self.first) = (None, 0);
    }

    fn press_device(&mut self) {
        let Some((at, shown)) = self.shown() else { return };
        let now = shown.device.clone();
        let devices = self.shown.iter().flat_map(|report| &report.devices);
        let names: Vec<(String, String)> =
            devices.map(|one| (one.device.clone(), one.kind.clone())).collect();
        match names.len() {
            1 => self.say(format!("{now} is the only device")),
            2 => self.choose_device(names[1 - at].0.clone()),
            _ => self.mode = Mode::Menu(Menu::devices(names, &now)),
        }
    }

    fn press_weight(&mut self) {
        let Some((_, device)) = self.shown() else { return };
        let device = device.device.clone();
        let rows = self.rows();
        let Some(row) = rows.get(self.chosen(&rows)) else { return };
        let group = row.group.clone();
        if group == "/" {
            let text = "the root shares with nobody: choose a group below it with the arrow keys";
            self.fail(text.into());
        } else {
            self.mode = Mode::Weight(device, group, String::new());
        }
    }

    /// Chooses another row, given the place of the one that is chosen and the rows on a page.
    fn step(&mut self, to: impl Fn(usize, usize) -> usize) {
        let rows = self.rows();
        let to = to(self.chosen(&rows), self.page.max(1)).min(rows.len().saturating_sub(1));
        self.selected = rows.get(to).map(|row| row.key.clone());
    }
}

/// Changes a text at its end.
fn edit(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Char(letter) if text.chars().count() < PROMPT_MAX => text.push(letter),
        _ => {}
    }
}
