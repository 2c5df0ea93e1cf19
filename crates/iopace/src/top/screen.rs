//! The terminal: taken, given back in every case, and the loop in between.
//!
//! Three threads tell the loop what happens: keys, signals, and what the daemon says; a fourth asks
//! the daemon what keys lead to. The loop alone draws, once for whatever has come in.

use super::app::{Act, App, Ask, Told};
use super::ask::carry_out;
use super::draw::draw;
use super::theme::Theme;
use crate::machine::Machine;
use crate::nice::progress;
use crate::output::Failure;
use iopace_core::time::Nanos;
use iopace_daemon::api::{EventReport, LiveReport};
use iopace_daemon::clock;
use iopace_daemon::control::LiveMessage;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::collections::VecDeque;
use std::io::{self, BufWriter, Stdout, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Messages that wait to be seen; whoever has more waits himself.
const MESSAGES_MAX: usize = 64;

/// What is shown of volumes of several hosts is so old at most.
const VOLUMES_EVERY: Duration = Duration::from_secs(2);

/// Questions that wait to be asked: one at a time is what a person can enter.
const ASKED_MAX: usize = 4;

/// Before it stops, it waits until nothing was asked for so long: a held Ctrl-Z, or the key and a
/// signal, ask several times, and what comes after `fg` would stop it again. A held key repeats
/// each 25 to 40 ms, and the thread that reads keys may be kept from a processor for some 10 ms.
const STOP_AFTER: Nanos = Nanos::from_millis(150);

/// Something that happened.
enum Message {
    Key(KeyEvent),
    /// The terminal has another size.
    Size,
    /// The terminal cannot be read.
    Deaf(io::Error),
    Signal(i32),
    Report(Box<LiveReport>),
    Event(EventReport),
    Lost(String),
    Told(Told),
    /// Volumes of several hosts.
    Volumes(Vec<String>),
    /// A thread has panicked.
    Died,
}

impl Message {
    fn is_to_suspend(&self) -> bool {
        match self {
            Message::Key(key) => {
                key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('z')
            }
            Message::Signal(signal) => *signal == SIGTSTP,
            _ => false,
        }
    }
}

/// The terminal while it is ours; given back when dropped.
struct Screen(Terminal<CrosstermBackend<BufWriter<Stdout>>>);

impl Screen {
    fn take() -> io::Result<Screen> {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            usual(panic);
        }));
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(stdout())));
        terminal.map(Screen).inspect_err(|_| give_back())
    }

    fn draw(&mut self, app: &mut App, theme: Theme) -> io::Result<()> {
        let drawn = self.0.draw(|frame| {
            let area = frame.area();
            draw(app, theme, frame.buffer_mut(), area);
        });
        drawn.map(|_| ())
    }

    /// Back to the shell until it says to go on.
    /// What has come in besides is for later.
    fn suspend(
        &mut self,
        messages: &Receiver<Message>,
        later: &mut VecDeque<Message>,
    ) -> io::Result<()> {
        let mut at = clock::now() + STOP_AFTER;
        while let Some(left) = clock::until(at).filter(|left| !left.is_zero()) {
            match messages.recv_timeout(left) {
                Ok(message) if message.is_to_suspend() => at = clock::now() + STOP_AFTER,
                // Whoever is to end does not stop before.
                Ok(message @ Message::Signal(signal)) if signal != SIGCONT => {
                    later.push_back(message);
                    return Ok(());
                }
                Ok(message) => later.push_back(message),
                Err(_) => break,
            }
        }
        give_back();
        low_level::raise(SIGSTOP)?;
        self.resume()
    }

    /// Takes the terminal again; whoever had it may have changed all of it.
    fn resume(&mut self) -> io::Result<()> {
        enter()?;
        // (`clear` would ask where the cursor is, and the thread that reads keys has the answer.)
        let size = self.0.size()?;
        self.0.resize(Rect::from((Position::ORIGIN, size)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether it is ours: giving it back twice would put the cursor onto what was printed between, the
/// message of a panic.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| give_back())
}

/// The terminal as it was. Nothing can be done about errors: it may be gone.
fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Shows what the daemon does until a key or a signal ends it. `delay` is the shortest time between
/// two reports that are shown.
///
/// # Errors
/// The terminal cannot be used.
pub fn run(
    machine: &Machine,
    mut app: App,
    delay: Duration,
    count: Option<u64>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("the terminal cannot be used: {error}"));
    let (sender, messages) = sync_channel(MESSAGES_MAX);
    let (asks, asked) = sync_channel(ASKED_MAX);
    // Before the terminal is taken: from here on no signal ends the program without giving it back.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT]);
    let signals = signals.map_err(failed)?;
    let mut screen = Screen::take().map_err(failed)?;
    listen(machine, signals, asked, sender);
    let ended = show(&mut screen, &mut app, &messages, &asks, (delay, count));
    drop(screen);
    match ended.map_err(failed)? {
        Some(signal) => {
            // Whoever waits for this program learns which signal has ended it.
            let _ = low_level::emulate_default_handler(signal);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Starts the threads.
fn listen(
    machine: &Machine,
    mut signals: Signals,
    asked: Receiver<Ask>,
    sender: SyncSender<Message>,
) {
    let told = sender.clone();
    spawn(sender.clone(), move || {
        for signal in signals.forever() {
            if told.send(Message::Signal(signal)).is_err() {
                return;
            }
        }
    });
    let told = sender.clone();
    spawn(sender.clone(), move || {
        loop {
            let message = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Message::Key(key),
                Ok(Event::Resize(..)) => Message::Size,
                Ok(_) => continue,
                Err(error) => Message::Deaf(error),
            };
            let is_last = matches!(message, Message::Deaf(_));
            if told.send(message).is_err() || is_last {
                return;
            }
        }
    });
    let (told, mut follow) = (sender.clone(), machine.follow());
    spawn(sender.clone(), move || {
        loop {
            let message = match follow.next_message() {
                Ok(LiveMessage::Report(report)) => Message::Report(report),
                Ok(LiveMessage::Event(event)) => Message::Event(event),
                Err(error) => Message::Lost(error.to_string()),
            };
            if told.send(message).is_err() {
                return;
            }
        }
    });
    let (told, members) = (sender.clone(), machine.clone());
    spawn(sender.clone(), move || watch_volumes(&members, &told));
    let (told, machine) = (sender.clone(), machine.clone());
    spawn(sender, move || {
        for ask in asked {
            if told.send(Message::Told(carry_out(&machine, ask))).is_err() {
                return;
            }
        }
    });
}

/// Tells what is known of volumes that daemons share with other hosts, if there are any.
fn watch_volumes(machine: &Machine, told: &SyncSender<Message>) {
    loop {
        let volumes = crate::cluster::volumes(machine);
        let has_none = volumes.is_empty();
        if told.send(Message::Volumes(volumes)).is_err() || has_none {
            return;
        }
        // SLEEP: the pause between two looks at what changes within seconds.
        thread::sleep(VOLUMES_EVERY);
    }
}

/// Says that a thread has panicked.
struct Mourner(SyncSender<Message>);

impl Drop for Mourner {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Message::Died);
        }
    }
}

fn spawn(sender: SyncSender<Message>, run: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        let _mourner = Mourner(sender);
        run();
    });
}

/// Shows until the end; the signal that ended it.
fn show(
    screen: &mut Screen,
    app: &mut App,
    messages: &Receiver<Message>,
    asks: &SyncSender<Ask>,
    (delay, count): (Duration, Option<u64>),
) -> io::Result<Option<i32>> {
    let theme = Theme::of_terminal();
    let mut next = super::batch::Next::default();
    let mut shown = 0;
    screen.draw(app, theme)?;
    let mut later = VecDeque::new();
    while let Some(first) = later.pop_front().or_else(|| messages.recv().ok()) {
        // Whatever has come in meanwhile is one picture.
        for message in std::iter::once(first).chain(messages.try_iter()) {
            match message {
                Message::Key(key) => match app.press(key) {
                    Act::Nothing => {}
                    Act::Quit => return Ok(None),
                    Act::Suspend => screen.suspend(messages, &mut later)?,
                    Act::Ask(ask) => {
                        if asks.try_send(ask).is_err() {
                            app.take_told(Told::Failed("the daemon is being asked still".into()));
                        }
                    }
                },
                Message::Size => {}
                Message::Deaf(error) => return Err(error),
                Message::Signal(SIGTSTP) => screen.suspend(messages, &mut later)?,
                Message::Signal(SIGCONT) => screen.resume()?,
                Message::Signal(signal) => return Ok(Some(signal)),
                Message::Report(report) => {
                    if next.is_due(&report, delay) {
                        app.take_report(*report);
                        app.nice = progress::all();
                        shown += 1;
                    }
                }
                Message::Event(event) => app.take_event(&event),
                Message::Lost(why) => app.take_lost(why),
                Message::Told(told) => app.take_told(told),
                Message::Volumes(volumes) => app.volumes = volumes,
                Message::Died => return Err(io::Error::other("a thread has panicked")),
            }
        }
        screen.draw(app, theme)?;
        if count.is_some_and(|count| shown >= count) {
            return Ok(None);
        }
    }
    Ok(None)
}
