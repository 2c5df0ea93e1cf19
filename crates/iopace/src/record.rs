//! `iopace record`: each request that a device of a running daemon gets, in a file.
//!
//! The daemon sends what has ended; the file is written here, with the rights of the user.

use crate::cli::RecordArgs;
use crate::output::{Failure, note, note_over, print};
use crate::target;
use crate::units::shell_word;
use iopace_daemon::api::{DeviceReport, GroupReport, RecordPiece, RecordRequest};
use iopace_daemon::control::{Client, ClientError};
use iopace_sim::recorded::REQUESTS_MAX;
use iopace_sim::recorded::format::{
    Device, End, Flags, Group, Header, RecordedPace, Request, Scheduler, Window, end_line, find_op,
    group_line, push_request, task_line,
};
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Carries out the command.
///
/// # Errors
/// No daemon, no such device, or a file that is there or cannot be written.
pub fn run(args: &RecordArgs) -> Result<(), Failure> {
    let (client, device) = target::only(args.control.as_deref(), args.device.as_deref())?;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{}.rec", file_name(&device.name))),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(format!("no signal handler: {error}")))?;
    }
    let groups = groups(&client, &device.name)?;
    let mut file = Writing::begin(&path, args.force, header(&device, groups))?;
    let mut stream = client.record(&device.name, args.length).map_err(Failure::new)?;
    let shows_progress = io::stderr().is_terminal();
    let mut lost = None;
    while !file.is_over && !file.is_full() && !stop.load(Relaxed) {
        match stream.next_piece() {
            Ok(piece) => file.piece(&piece)?,
            // What has come is kept.
            Err(error) => {
                lost = Some(error);
                break;
            }
        }
        if shows_progress {
            let [at_s, length_s] = [file.at_ns, args.length.0].map(|ns| ns / 1_000_000_000);
            note_over(format_args!("{at_s} of {length_s} s, {} requests", file.count));
        }
    }
    if shows_progress {
        note_over(format_args!(""));
    }
    drop(stream);
    if file.is_full() {
        note(format_args!("ended early: a file has at most {REQUESTS_MAX} requests"));
    }
    // A file without an end was cut off.
    if lost.is_none() {
        file.end()?;
    }
    told(&client, &device, &file)?;
    lost.map_or(Ok(()), |error: ClientError| {
        Err(Failure::new(error).but("what was recorded before is in the file"))
    })
}

/// Tells the user what was written, and what is not in it.
fn told(client: &Client, before: &DeviceReport, file: &Writing) -> Result<(), Failure> {
    let (name, path) = (&before.name, file.path.display());
    let left_out = file.left_out_count;
    if left_out > 0 {
        note(format_args!(
            "warning: {left_out} requests were left out: they came faster than they could be \
             written; a replay lacks them"
        ));
    }
    let is_other = |after: &DeviceReport| {
        let (before, after) = (&before.scheduler, &after.scheduler);
        before.algorithm != after.algorithm || before.params != after.params
    };
    if client.device(name).is_ok_and(|after| is_other(&after)) {
        note(format_args!(
            "warning: the scheduler of {name} was changed meanwhile; the file names the first"
        ));
    }
    let seconds = file.at_ns as f64 / 1e9;
    let word = shell_word(&path.to_string());
    let count = file.count;
    print(&match count {
        0 => format!("{path}: nothing ended on {name} in {seconds:.1} s\n"),
        _ => format!(
            "{path}: {count} requests of {name} in {seconds:.1} s; replay them with 'iopace sim \
             replay {word}'\n"
        ),
    })
}

/// A device's name as that of a file.
fn file_name(device: &str) -> String {
    let name: String = device.chars().map(|c| if c == '/' { '-' } else { c }).collect();
    name.trim_start_matches(['-', '.']).to_owned()
}

/// The groups that there are, with what is set for them on the device, or for their cgroups.
fn groups(client: &Client, device: &str) -> Result<Vec<Group>, Failure> {
    let others = client.devices().map_err(Failure::new)?.into_iter().map(|other| other.name);
    let others: BTreeSet<String> = others.filter(|name| name != device).collect();
    let is_of_other = |line: &&str| {
        let first = line.split_whitespace().next();
        first.is_some_and(|word| others.contains(word))
    };
    let of_device = |text: &String| {
        let lines = text.lines().filter(|line| !is_of_other(line)).map(|line| format!("{line}\n"));
        lines.collect::<String>()
    };
    let all = client.groups("/").map_err(Failure::new)?;
    let all = all.into_iter().enumerate().map(|(number, report)| {
        let GroupReport { group, files, cgroup_files, .. } = report;
        let mut all = cgroup_files;
        all.extend(files);
        let files = all.iter().map(|(file, text)| (file.clone(), of_device(text)));
        let files = files.filter(|(_, text)| !text.is_empty()).collect();
        Group { number: number as u64, path: group, files }
    });
    Ok(all.collect())
}

fn header(device: &DeviceReport, groups: Vec<Group>) -> Header {
    let (scheduler, queue) = (&device.scheduler, &device.queue);
    Header {
        device: Device {
            name: device.name.clone(),
            kind: device.kind.clone(),
            model: device.model.clone(),
            size_bytes: device.size_bytes,
        },
        scheduler: Scheduler {
            name: scheduler.algorithm.clone(),
            params: scheduler.params.clone(),
        },
        window: Window { policy: device.window.policy.clone(), depth: queue.window_depth },
        nr_requests: queue.nr_requests,
        pace: device.pace.as_ref().map(|pace| RecordedPace {
            policy: pace.policy.clone(),
            pause_ns: pace.pause_target_ns,
            background_bytes: pace.background_bytes,
            limit_bytes: pace.picture.limit_bytes,
        }),
        groups,
    }
}

/// The file while it is written.
struct Writing {
    path: PathBuf,
    file: BufWriter<File>,
    /// The numbers of groups in the file, by path.
    numbers: BTreeMap<String, u64>,
    /// The same by the daemon's number.
    groups: BTreeMap<u64, u64>,
    count: u64,
    at_ns: u64,
    left_out_count: u64,
    is_over: bool,
}

impl Writing {
    fn begin(path: &Path, force: bool, header: Header) -> Result<Writing, Failure> {
        let mut options = OpenOptions::new();
        // No link is followed, and no pipe waited for, that others may have put there; what is in
        // it is as private as the socket that it comes from.
        options.write(true).create(true).create_new(!force).mode(0o600);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let path = path.display();
                let message = "is there already: name another file with -o, or write over it with";
                Failure::usage(format!("{path} {message} --force"))
            }
            _ => failed(path, &error),
        })?;
        let is_file = file.metadata().map_err(|error| failed(path, &error))?.is_file();
        if !is_file {
            let path = path.display();
            return Err(Failure::usage(format!("{path} is no regular file: name another with -o")));
        }
        file.set_len(0).map_err(|error| failed(path, &error))?;
        let numbered = header.groups.iter().map(|group| (group.path.clone(), group.number));
        let mut writing = Writing {
            path: path.into(),
            file: BufWriter::new(file),
            numbers: numbered.collect(),
            groups: BTreeMap::new(),
            count: 0,
            at_ns: 0,
            left_out_count: 0,
            is_over: false,
        };
        writing.put(&header.text())?;
        Ok(writing)
    }

    /// Whether a replay takes no more.
    fn is_full(&self) -> bool {
        self.count >= REQUESTS_MAX as u64
    }

    fn put(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|error| failed(&self.path, &error))
    }

    fn piece(&mut self, piece: &RecordPiece) -> Result<(), Failure> {
        let mut text = String::new();
        for task in &piece.tasks {
            text += &task_line(task.number, &task.name);
        }
        for group in &piece.groups {
            let next = self.numbers.len() as u64;
            let number = *self.numbers.entry(group.name.clone()).or_insert_with(|| {
                let new = Group { number: next, path: group.name.clone(), ..Group::default() };
                text += &group_line(&new);
                next
            });
            self.groups.insert(group.number, number);
        }
        for one in &piece.requests {
            if self.is_full() {
                break;
            }
            if let Some(one) = self.request(one) {
                push_request(&mut text, &one);
                self.count += 1;
            }
        }
        (self.at_ns, self.left_out_count) = (piece.at_ns, piece.left_out_count);
        self.is_over = piece.end;
        self.put(&text)?;
        self.file.flush().map_err(|error| failed(&self.path, &error))
    }

    /// None for one that a daemon of another version knows.
    fn request(&self, one: &RecordRequest) -> Option<Request> {
        Some(Request {
            arrived_ns: one.arrived_ns,
            started_ns: one.started_ns,
            done_ns: one.done_ns,
            op: find_op(&one.op)?,
            flags: Flags::parse(&one.flags)?,
            task: one.task,
            group: *self.groups.get(&one.group.into())?,
            space: one.space,
            offset: one.offset,
            length: one.length,
        })
    }

    fn end(&mut self) -> Result<(), Failure> {
        let (length_ns, left_out_count) = (self.at_ns, self.left_out_count);
        self.put(&end_line(End { length_ns, left_out_count }))?;
        self.file.flush().map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_name_of_its_device_and_is_in_this_directory() {
        let names = [("disk", "disk"), ("/srv/data", "srv-data"), ("../etc", "etc"), (".x", "x")];
        for (device, name) in names {
            assert_eq!(file_name(device).trim_start_matches(['-', '.']), name, "{device}");
        }
    }
}
