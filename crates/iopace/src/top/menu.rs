//! A list over the table, to choose from: a column to sort by, a device, a scheduler.

use crate::cli::Sort;
use iopace_daemon::api::SchedulerSpec;
use ratatui::crossterm::event::KeyCode;

/// What an entry stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// What comes first.
    Sort(Sort),
    /// Another device.
    Device(String),
    /// The scheduler of a device; none: that which it has when none is inserted.
    Scheduler(String, Option<String>),
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub about: String,
    choice: Choice,
}

/// The list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Menu {
    /// What is chosen here.
    pub title: String,
    /// The entries.
    pub entries: Vec<Entry>,
    /// The one under the bar.
    pub at: usize,
}

impl Menu {
    /// Columns to sort by.
    pub fn sorts(sorts: impl Iterator<Item = Sort>, now: Sort) -> Menu {
        let entry = |sort: Sort| Entry {
            name: sort.word().into(),
            about: String::new(),
            choice: Choice::Sort(sort),
        };
        Menu::new("sort by".into(), sorts.map(entry).collect(), |choice| {
            *choice == Choice::Sort(now)
        })
    }

    /// Devices, each with what it is.
    pub fn devices(names: Vec<(String, String)>, now: &str) -> Menu {
        let entry = |(name, about): (String, String)| {
            let choice = Choice::Device(name.clone());
            Entry { name, about, choice }
        };
        let entries = names.into_iter().map(entry).collect();
        let is_now = |choice: &Choice| matches!(choice, Choice::Device(name) if name == now);
        Menu::new("device".into(), entries, is_now)
    }

    /// Schedulers for a device, of which one may be inserted now.
    pub fn schedulers(device: &str, specs: Vec<SchedulerSpec>, now: Option<&str>) -> Menu {
        let entry = |spec: SchedulerSpec| {
            let choice = Choice::Scheduler(device.into(), Some(spec.name.clone()));
            Entry { name: spec.name, about: spec.summary, choice }
        };
        let mut entries: Vec<Entry> = specs.into_iter().map(entry).collect();
        if let Some(now) = now {
            entries.push(Entry {
                name: "(none)".into(),
                about: format!("take {now} out: the device goes on with the default, auto"),
                choice: Choice::Scheduler(device.into(), None),
            });
        }
        let is_now = |choice: &Choice| match choice {
            Choice::Scheduler(_, Some(name)) => Some(&**name) == now,
            _ => false,
        };
        Menu::new(format!("scheduler of {device}"), entries, is_now)
    }

    fn new(title: String, entries: Vec<Entry>, is_now: impl Fn(&Choice) -> bool) -> Menu {
        let at = entries.iter().position(|entry| is_now(&entry.choice)).unwrap_or(0);
        Menu { title, entries, at }
    }

    /// What is under the bar.
    pub fn chosen(&self) -> Option<&Choice> {
        self.entries.get(self.at).map(|entry| &entry.choice)
    }

    /// Moves the bar.
    pub fn step(&mut self, code: KeyCode) {
        let last = self.entries.len().saturating_sub(1);
        self.at = match code {
            KeyCode::Up | KeyCode::Char('k') => self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (self.at + 1).min(last),
            KeyCode::Home | KeyCode::PageUp => 0,
            KeyCode::End | KeyCode::PageDown => last,
            _ => self.at,
        };
    }
}
