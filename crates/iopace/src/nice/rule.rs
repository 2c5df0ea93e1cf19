//! A program that is of class idle in mounts whenever it runs: a rule, and a group that it names.
//!
//! Both are in the configuration file of the daemon, which reads it anew. Where it does not take
//! it, the file is as before.

use super::failed;
use super::mounts::group_name;
use crate::cli::NiceArgs;
use crate::configuration::{Document, Saver};
use crate::output::{Failure, note, print};
use crate::paths::controls;
use iopace_daemon::control::{Client, ClientError};
use rustix::process::{Pid, Signal, kill_process};
use std::thread;
use std::time::Duration;

/// So often a daemon is asked whether it goes by its file, and the time between.
const LOOKS: (u32, Duration) = (100, Duration::from_millis(50));

/// Writes the rule and the group.
///
/// # Errors
/// No mount here has a configuration file, a rule of somebody else names the program, or it has
/// goals that need a clock.
pub(super) fn install(args: &NiceArgs, program: &str) -> Result<(), Failure> {
    if args.by.is_some() || args.keep_p99.is_some() || args.size.is_some() {
        return Err(failed(format!(
            "a rule of a mount knows --limit only: run it as 'iopace nice {program}', or install \
             the service that runs it, as '{program}.service'"
        )));
    }
    not_elsewhere(args)?;
    let group = group_of(program);
    let mut lines = vec![("io.ioprio_class", "default IDLE".to_owned())];
    lines.extend(args.limit.map(|rate| ("io.max", format!("default bps={}", rate.0))));
    let mut all = Vec::new();
    for client in clients(args)? {
        // All are opened before any is changed.
        let saver = Saver::open(&client, true)?.expect("asked for");
        saver.check(|document| {
            document.add_rule(program, &group)?;
            document.set_group(&group, &lines)
        })?;
        all.push((client, saver));
    }
    for (client, saver) in all {
        let shown: Vec<String> =
            lines.iter().map(|(file, text)| format!("  \"{file}\" = \"{text}\"\n")).collect();
        let path = saver.path().display();
        print(&format!(
            "writes to {path}:\n  in each mount the rule program={program}:{group}\n  \
             [group.\"{group}\"]\n{}",
            shown.concat()
        ))?;
        change(&client, saver, (program, &group, Some(&lines)), |document| {
            document.add_rule(program, &group)?;
            document.set_group(&group, &lines)
        })?;
    }
    Ok(())
}

/// Takes both away again.
///
/// # Errors
/// There is no such rule.
pub(super) fn remove(args: &NiceArgs, program: &str) -> Result<(), Failure> {
    not_elsewhere(args)?;
    let group = group_of(program);
    let rule = rule_of(program, &group);
    let mut all = Vec::new();
    for client in clients(args)? {
        let mounts = client.mounts().map_err(failed)?;
        if mounts.iter().any(|mount| mount.rules.contains(&rule)) {
            let saver = Saver::open(&client, true)?.expect("asked for");
            all.push((client, saver));
        }
    }
    let is_found = !all.is_empty();
    for (client, saver) in all {
        let path = saver.path().display();
        print(&format!("removes from {path}: the rule {rule} and [group.\"{group}\"]\n"))?;
        change(&client, saver, (program, &group, None), |document| {
            document.remove_rule(program, &group);
            document.unset_group(&group);
            Ok(())
        })?;
    }
    match is_found {
        true => Ok(()),
        false => Err(failed(format!("no mount here has the rule {rule}"))),
    }
}

fn not_elsewhere(args: &NiceArgs) -> Result<(), Failure> {
    match args.root {
        Some(_) => Err(Failure::usage("--root is for services: a program is in running daemons")),
        None => Ok(()),
    }
}

/// The group of a program.
fn group_of(program: &str) -> String {
    format!("/nice-{}", group_name(program))
}

/// The rule as a daemon tells it.
fn rule_of(program: &str, group: &str) -> String {
    format!("program={program}:{group}")
}

/// The daemons of ours with mounts and a configuration file; a mount without one ends with its
/// daemon, and so would a rule.
fn clients(args: &NiceArgs) -> Result<Vec<Client>, Failure> {
    let clients = controls(args.control.as_deref()).into_iter().map(Client::new);
    let is_mounted = |client: &Client| client.mounts().is_ok_and(|mounts| !mounts.is_empty());
    let has_file =
        |client: &Client| client.only_own().status().is_ok_and(|status| status.config.is_some());
    let (found, others): (Vec<Client>, Vec<Client>) =
        clients.filter(is_mounted).partition(has_file);
    if !found.is_empty() && !others.is_empty() {
        note(format_args!(
            "iopace nice: {} without a configuration file of ours is left out",
            if others.len() == 1 { "a daemon" } else { "more daemons" }
        ));
    }
    match (found.is_empty(), others.is_empty()) {
        (false, _) => Ok(found),
        (true, true) => Err(failed(
            "a program without a service needs a mount of iopace with a configuration file: \
             'iopace setup DIR' makes both",
        )),
        (true, false) => Err(failed(
            "a rule would end with the mount, which has no configuration file: 'iopace unmount' \
             it, then 'iopace setup DIR' makes both",
        )),
    }
}

/// Changes the file of a daemon and has it go by that; if it does not, the file is as before.
fn change(
    client: &Client,
    saver: Saver,
    (program, group, lines): (&str, &str, Option<&[(&str, String)]>),
    edit: impl FnOnce(&mut Document) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !saver.write(edit)? {
        return print(&format!("{} says so already\n", saver.path().display()));
    }
    let rule = rule_of(program, group);
    let goes_by_it = || -> Result<bool, ClientError> {
        let mounts = client.mounts()?;
        if mounts.iter().any(|mount| mount.rules.contains(&rule) != lines.is_some()) {
            return Ok(false);
        }
        for (file, line) in lines.into_iter().flatten() {
            let told = client.group_files(group, Some(file), None)?;
            let set = line.trim_start_matches("default ");
            if !told.iter().any(|one| one.text.contains(set)) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let applied = hang_up(client).and_then(|()| {
        for _ in 0..LOOKS.0 {
            if goes_by_it().map_err(failed)? {
                return Ok(());
            }
            // SLEEP: between two looks at the rules.
            thread::sleep(LOOKS.1);
        }
        Err(failed("the daemon does not take it: see its log"))
    });
    match applied {
        Ok(()) => print("holds now\n"),
        Err(failure) => match saver.put_back() {
            Ok(()) => Err(failure.but("its file is as before")),
            Err(error) => Err(failure.but(&error.message)),
        },
    }
}

/// Has a daemon read its file.
fn hang_up(client: &Client) -> Result<(), Failure> {
    let pid = client.only_own().status().map_err(failed)?.pid;
    let pid =
        i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| failed("no process"))?;
    kill_process(pid, Signal::HUP).map_err(failed)
}
