//! `iopace unmount`: out of sight, durable, and let go by its daemon.

pub mod helper;

use crate::cli::UnmountArgs;
use crate::mount::quoted_path;
use crate::output::{Failure, note, note_over, print};
use crate::paths::runtime_dirs;
use crate::units;
use iopace_daemon::control::Client;
use iopace_daemon::fuse::mounting::detach::MountId;
use iopace_daemon::fuse::mounting::probe::{Answer, probe};
use iopace_daemon::fuse::mounting::{UnmountError, abort, namespaces, unless_used, users};
use iopace_daemon::fuse::record::{self, Record, Seen};
use iopace_daemon::limits::PROBE_PATIENCE;
use iopace_daemon::mount_table::{self, Entry};
use rustix::process::geteuid;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How often it is looked whether the daemon has let go.
const STEP: Duration = Duration::from_millis(50);

/// The harm that may come of it.
const LAZILY: &str =
    "not for databases: whoever opens the directory meanwhile works beside them, past iopace";

/// How long it is waited if nothing is said.
const WAIT_SECONDS: u64 = 60;

/// Unmounts and waits.
///
/// # Errors
/// Nothing is mounted there, it is in use, may not be unmounted, or is not durable in time.
pub fn run(args: &UnmountArgs) -> Result<(), Failure> {
    // Before the table is read: one that is mounted in between is not taken for one out of sight.
    let mut unseen = if args.all { record::held(&runtime_dirs(None)) } else { Vec::new() };
    let table = mounted()?;
    let Some(dir) = &args.dir else {
        unseen.retain(|one| is_detached(one, &table));
        return unmount_all(args, &unseen, &table);
    };
    let path = mount_table::resolve(dir, &table)
        .map_err(|error| Failure::new(format!("{}: {error}", dir.display())))?;
    match mount_table::at(&table, &path).filter(|entry| entry.is_ours()) {
        Some(entry) => unmount_seen(entry, args),
        None => match detached(&path) {
            Some((connection, seen)) => end_unseen(&path, (connection, &seen), args, &table),
            None => Err(Failure::new(none_there(&path, &table))),
        },
    }
}

fn mounted() -> Result<Vec<Entry>, Failure> {
    mount_table::read().map_err(|error| {
        Failure::new(format!("/proc/self/mountinfo cannot be read: {error}; is /proc mounted?"))
    })
}

/// A mount that is not seen here, with a daemon that has it in hand still.
fn end_unseen(
    path: &Path,
    (connection, seen): (u32, &Seen),
    args: &UnmountArgs,
    table: &[Entry],
) -> Result<(), Failure> {
    let (shown, pid) = (path.display(), seen.record.pid);
    if args.force {
        // The number is free for the next mount as soon as ours is gone.
        if let Some(other) = table.iter().find(|one| one.connection() == connection) {
            let other = other.mountpoint.display();
            return Err(Failure::new(format!(
                "{shown}: is unmounted already, and its connection is that of {other} by now; wait \
                 for its daemon without --force"
            )));
        }
        cut(path, connection)?;
    } else if let Some(entry) = namespaces::seen_by(pid, connection, &seen.record) {
        let at = quoted_path(&entry.mountpoint);
        return Err(Failure::new(format!(
            "{shown}: is mounted in the mount namespace of its daemon (pid {pid}), not in this \
             one; unmount it there: 'nsenter -t {pid} -m iopace unmount {at}'"
        )));
    } else if args.lazy && args.wait.is_none() {
        return lives_on(path, Some(seen));
    } else {
        let by = namespaces::seen_elsewhere(connection, &seen.record)
            .map_or(String::new(), |pid| {
                format!(", but for the mount namespace of pid {pid}, which keeps it")
            });
        let seconds = patience(args).as_secs();
        note(format_args!(
            "{shown}: is out of sight already{by}: waiting for its daemon (pid {pid}), at most \
             {seconds} s"
        ));
    }
    wait(path, Some(seen), mount_table::device_of(connection), patience(args))
}

/// What was unmounted lazily is served as long as somebody uses it.
fn lives_on(path: &Path, seen: Option<&Seen>) -> Result<(), Failure> {
    let shown = path.display();
    match seen {
        Some(seen) if seen.is_held() => print(&format!(
            "{shown}: is out of sight; its daemon (pid {}) serves its users until they have closed \
             what they have, see 'iopace mount'\n",
            seen.record.pid
        )),
        Some(_) => print(&format!("{shown}: unmounted\n")),
        None => print(&format!("{shown}: unmounted; its daemon cannot be seen from here\n")),
    }
}

/// All mounts, but those of others for who is not root. The latest may lie in those before it.
/// Those that are out of sight already have daemons with data to write, perhaps.
fn unmount_all(args: &UnmountArgs, unseen: &[(u32, Seen)], table: &[Entry]) -> Result<(), Failure> {
    let own = geteuid();
    let may = |entry: &&Entry| own.is_root() || entry.uid() == Some(own.as_raw());
    let ours: Vec<&Entry> = table.iter().filter(|entry| entry.is_ours()).filter(may).collect();
    if ours.is_empty() && unseen.is_empty() {
        return print("nothing is mounted by iopace\n");
    }
    let seen = ours.into_iter().rev().map(|entry| unmount_seen(entry, args));
    let unseen = unseen.iter().map(|one @ (connection, seen)| {
        // What was seen before may take long to end; numbers are given again meanwhile.
        let table = mounted()?;
        match is_detached(one, &table) {
            true => end_unseen(&seen.record.mountpoint, (*connection, seen), args, &table),
            false => Ok(()),
        }
    });
    let mut failed = None;
    for failure in seen.chain(unseen).filter_map(Result::err) {
        if let Some(Failure { message, .. }) = failed.replace(failure) {
            note(format_args!("error: {message}"));
        }
    }
    failed.map_or(Ok(()), Err)
}

fn patience(args: &UnmountArgs) -> Duration {
    Duration::from_secs(args.wait.unwrap_or(WAIT_SECONDS))
}

/// A mount that is out of sight already, but still served by its daemon.
fn detached(path: &Path) -> Option<(u32, Seen)> {
    let held = record::held(&runtime_dirs(None));
    held.into_iter().find(|(_, seen)| seen.record.mountpoint == path)
}

/// Whether a mount with a daemon that lives is nowhere to be seen, and ours to end.
fn is_detached((connection, seen): &(u32, Seen), table: &[Entry]) -> bool {
    let own = geteuid();
    (own.is_root() || seen.owner() == Some(own.as_raw()))
        && table.iter().all(|entry| !seen.record.is_of(*connection, entry))
        && namespaces::seen_by(seen.record.pid, *connection, &seen.record).is_none()
}

fn none_there(path: &Path, table: &[Entry]) -> String {
    let ours = table.iter().filter(|entry| entry.is_ours());
    let ours: Vec<String> = ours.map(|entry| entry.mountpoint.display().to_string()).collect();
    let known = match &*ours {
        [] => "nothing is mounted by iopace".into(),
        ours => format!("there are: {}", ours.join(", ")),
    };
    format!("{}: iopace is not mounted there; {known}", path.display())
}

fn unmount_seen(entry: &Entry, args: &UnmountArgs) -> Result<(), Failure> {
    let (path, patience) = (&entry.mountpoint, patience(args));
    let shown = path.display();
    let seen = record::find(&runtime_dirs(entry.uid()), entry);
    let id = MountId::of(entry);
    let within = |lazily| within(patience, move || id.unmount(lazily));
    if probe(path, PROBE_PATIENCE) == Answer::Dead {
        refused(path, within(true))?;
        return print(&format!("{shown}: its daemon was killed; the mount is cleared away\n"));
    }
    let done = match args.force {
        // One that does not answer cannot be unmounted in order.
        true => Some(Err(UnmountError::Busy)),
        false => unless_used(|| within(false)),
    };
    if !matches!(done, Some(Err(UnmountError::Busy))) {
        refused(path, done)?;
        return wait(path, seen.as_ref(), entry.device, patience);
    }
    let looked = users::users(entry.device);
    let named = looked.named();
    if !args.force && !args.lazy {
        let at = quoted_path(path);
        return Err(Failure::new(format!(
            "{shown}: is in use by {named}; nothing was done: end that first, or cut it off \
             ('iopace unmount --force {at}'), or let it end with its last user ('iopace unmount \
             --lazy {at}'; {LAZILY})"
        )));
    }
    if args.lazy {
        note(format_args!(
            "warning: {shown} is in use by {named}: unmounted lazily, they go on through it; \
             {LAZILY}"
        ));
    } else if !looked.users.is_empty() {
        note(format_args!("warning: {shown} is in use by {named}: cut off"));
    }
    let done = match args.force {
        true => self::within(patience, move || id.cut()),
        false => within(true),
    };
    refused(path, done)?;
    match args.lazy && args.wait.is_none() {
        true => lives_on(path, seen.as_ref()),
        false => wait(path, seen.as_ref(), entry.device, patience),
    }
}

/// Unmounting writes back what was changed through mappings; `None`: it takes too long. Somebody
/// else may have unmounted it since: what is to be seen at its place then stays.
fn within(
    patience: Duration,
    unmount: impl FnOnce() -> Result<(), UnmountError> + Send + 'static,
) -> Option<Result<(), UnmountError>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || sender.send(unmount()));
    match receiver.recv_timeout(patience).ok()? {
        Err(UnmountError::NotMounted) => Some(Ok(())),
        done => Some(done),
    }
}

fn refused(path: &Path, done: Option<Result<(), UnmountError>>) -> Result<(), Failure> {
    let shown = path.display();
    match done {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Failure::new(format!("{shown}: cannot be unmounted: {error}"))),
        None => Err(Failure::new(format!(
            "{shown}: does not end in time; cut it with 'iopace unmount --force {}'",
            quoted_path(path)
        ))),
    }
}

fn cut(path: &Path, connection: u32) -> Result<(), Failure> {
    match abort::abort(connection) {
        // Nobody used it: it has ended by itself.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("{}: cannot be cut: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Waits until the daemon has made everything durable and let go of the directory.
fn wait(
    path: &Path,
    seen: Option<&Seen>,
    device: (u32, u32),
    patience: Duration,
) -> Result<(), Failure> {
    let shown = path.display();
    let Some(seen) = seen else {
        return print(&format!("{shown}: unmounted; its daemon cannot be seen from here\n"));
    };
    let shows = std::io::stderr().is_terminal();
    let steps = patience.as_millis() / STEP.as_millis();
    for step in 0..steps {
        if !seen.is_held() {
            if shows && step > 0 {
                note_over(format_args!(""));
            }
            return print(&format!("{shown}: unmounted\n"));
        }
        // Once in a second.
        if shows && step % 20 == 10 {
            note_over(format_args!("{}", progress(&seen.record)));
        }
        thread::sleep(STEP);
    }
    if shows {
        note_over(format_args!(""));
    }
    let looked = users::users(device);
    let by = match looked.users.is_empty() && looked.is_whole() {
        true => String::new(),
        false => format!(" (by {})", looked.named()),
    };
    Err(Failure::new(format!(
        "{shown}: unmounted, but its daemon (pid {}) has not let go after {} s: {}{by}; wait on \
         with the same command, or cut it with 'iopace unmount --force {}'",
        seen.record.pid,
        patience.as_secs(),
        progress(&seen.record),
        quoted_path(path)
    )))
}

/// What is still to be written, as far as the daemon says.
fn progress(record: &Record) -> String {
    let seen = record.control.as_ref().and_then(|path| {
        let client = Client::new(path);
        let pace = client.device(&record.device).ok()?.pace;
        let mounts = client.mounts().unwrap_or_default();
        let own = mounts.iter().find(|mount| mount.device == record.device);
        let open_count = own.map_or(0, |mount| mount.open_count);
        Some(left(open_count, pace.map_or(0, |pace| pace.picture.dirty_bytes)))
    });
    seen.unwrap_or_else(|| "it is still in use, or being made durable".into())
}

/// What keeps a daemon: who has files open may write to them, so that comes first.
fn left(open_count: usize, dirty_bytes: u64) -> String {
    let open = match open_count {
        0 => None,
        1 => Some("1 file of it is still open".to_owned()),
        count => Some(format!("{count} files of it are still open")),
    };
    let dirty = format!("{} are still to be written", units::size(dirty_bytes));
    match (open, dirty_bytes) {
        (None, 0) => "it is still in use, or being made durable".into(),
        (None, _) => dirty,
        (Some(open), 0) => open,
        (Some(open), _) => format!("{open}, {dirty}"),
    }
}

#[cfg(test)]
mod tests {
    use super::left;

    #[test]
    fn open_files_are_named_before_what_is_dirty() {
        assert_eq!(left(1, 0), "1 file of it is still open");
        assert_eq!(left(2, 4096), "2 files of it are still open, 4 KiB are still to be written");
        assert_eq!(left(0, 4096), "4 KiB are still to be written");
        assert_eq!(left(0, 0), "it is still in use, or being made durable");
    }
}
