//! `iopace container-hook`: annotations of a container become settings of its group, before its
//! first request.
//!
//! ```text
//!  podman, CRI-O, containerd ─► OCI runtime ─► hook: the state of the container ─┐
//!  containerd 1.6 ─► plugin of NRI 0.1: a request ───────────────────────────────┤ event.rs
//!                                                                                ▼
//!                     iopace.io/FILE = VALUE ─► lines, checked            annotations.rs
//!                                                                                ▼
//!                     cgroup of its first process, or of its pod ─► every daemon
//! ```
//!
//! A user who may start containers chooses names and values, so a container reaches no group but
//! its own: not that of whoever starts it, where they share a cgroup.

mod annotations;
mod event;

use crate::cli::ContainerHookArgs;
use crate::output::{Failure, note, print_json_line, warn};
use crate::paths::controls;
use crate::running::ask_all;
use event::{ContainerEvent, StartingContainer};
use iopace_daemon::api::{SettingWarning, WriteCgroup};
use iopace_daemon::control::{Client, ClientError};
use iopace_daemon::{cgroup_of, printable};
use serde::Serialize;

/// The answer to a request of NRI 0.1.
#[derive(Serialize)]
struct NriResult<'a> {
    plugin: &'static str,
    version: &'a str,
    error: &'a str,
}

/// Does for a container that starts what its annotations say.
///
/// # Errors
/// They do not hold, and have to.
pub fn run(args: &ContainerHookArgs) -> Result<(), Failure> {
    let event = ContainerEvent::read(std::io::stdin().lock());
    let (event, held) = match event {
        Ok(event) => {
            let held = event.start.as_ref().map_or(Ok(()), |start| {
                let of = |problem| format!("container {}: {problem}", printable::name(&start.id));
                hold(args, start).map_err(of)
            });
            (Some(event), held)
        }
        Err(problem) => (None, Err(problem)),
    };
    let refusal = held.as_ref().err().filter(|_| args.required);
    if let Some(version) = event.as_ref().and_then(|event| event.nri_version.as_deref()) {
        let error = refusal.map_or("", String::as_str);
        print_json_line(&NriResult { plugin: "iopace", version, error })?;
    }
    match (held, args.required) {
        (Ok(()), _) => Ok(()),
        (Err(problem), true) => {
            Err(Failure::new(format!("{problem}; the container is not started")))
        }
        (Err(problem), false) => {
            note(format_args!(
                "error: {problem}; the container starts without (--required keeps it from that)"
            ));
            Ok(())
        }
    }
}

/// Has all daemons hold the annotations of a container.
fn hold(args: &ContainerHookArgs, start: &StartingContainer) -> Result<(), String> {
    let files = annotations::lines(&start.annotations, &args.allow)?;
    if files.is_empty() {
        return Ok(());
    }
    let StartingContainer { id, pid, .. } = start;
    let path = cgroup_of(*pid)
        .ok_or_else(|| format!("its process {pid} is gone, or cannot be seen from here"))?;
    if cgroup_of(std::process::id()).is_some_and(|own| is_within(&own, &path)) {
        return Err(format!(
            "it shares the cgroup {} with who starts it, for whom its annotations would hold too: \
             start it in a cgroup of its own",
            printable::name(&path)
        ));
    }
    let write = WriteCgroup { pid: *pid, above: above(&path, id), files };
    let answers = ask_all(&controls(args.control.as_deref()), |socket| {
        Client::new(socket).write_cgroup(&write)
    });
    let (mut nobody, mut refusal, mut maps) = (None, None, false);
    for answer in answers {
        match answer {
            Ok(written) => {
                maps |= !written.groups.is_empty();
                for SettingWarning { device, text, command } in &written.warnings {
                    warn(device, text, command, args.control.as_deref());
                }
            }
            // What a killed daemon left behind does not hide the others.
            Err(error @ ClientError::NoDaemon(_)) => nobody = nobody.or(Some(error)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match (refusal, maps, nobody) {
        (Some(error), ..) => Err(error.to_string()),
        (None, true, _) => Ok(()),
        (None, false, Some(error)) => Err(error.to_string()),
        (None, false, None) => Err("no mount of a daemon that runs makes groups of cgroups: \
                                    'iopace mount DIR --rule map=cgroup:/units'"
            .into()),
    }
}

/// Whether a cgroup is another one, or below it.
fn is_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// How many cgroups above that of its first process is the one that its annotations are for: that
/// of its pod, as annotations are those of pods in Kubernetes, or the outermost of its own. (With
/// systemd, crun makes `libpod-ID.scope/container`.)
fn above(path: &str, id: &str) -> usize {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let Some(last) = names.len().checked_sub(1) else { return 0 };
    let pod = (0..last).rev().find(|&at| is_pod(&names[..=at]));
    let own = || names.iter().position(|name| is_of(name, id));
    pod.or_else(own).map_or(0, |at| last - at)
}

/// Whether the last cgroup is that of a pod of Kubernetes, with a driver of systemd or cgroupfs:
/// `kubepods-burstable-podUID.slice`, or `podUID` below `kubepods`.
fn is_pod(names: &[&str]) -> bool {
    let Some((name, above)) = names.split_last() else { return false };
    let of_systemd = name.starts_with("kubepods-") && name.ends_with(".slice");
    (of_systemd && name.contains("-pod"))
        || (name.starts_with("pod") && above.contains(&"kubepods"))
}

/// Whether a cgroup is that of a container by its name: `ID`, or `docker-ID.scope`.
fn is_of(name: &str, id: &str) -> bool {
    let in_scope = |scope: &str| scope.strip_suffix(id).is_some_and(|driver| driver.ends_with('-'));
    name == id || name.strip_suffix(".scope").is_some_and(in_scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_for_the_container_or_its_pod() {
        let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice";
        let cases = [
            ("/machine.slice/libpod-c0ffee.scope".to_owned(), 0),
            ("/machine.slice/libpod-c0ffee.scope/container".into(), 1),
            ("/machine.slice/libpod-c0ffee.scope/container/init.scope".into(), 2),
            ("/system.slice/docker-c0ffee.scope".into(), 0),
            ("/docker/c0ffee".into(), 0),
            ("/libpod_parent/libpod-c0ffee".into(), 0),
            (format!("{pod}/cri-containerd-c0ffee.scope"), 1),
            (format!("{pod}/crio-c0ffee.scope/container"), 2),
            ("/kubepods-pod1_2.slice/cri-containerd-c0ffee.scope".into(), 1),
            ("/kubepods/besteffort/pod1-2/c0ffee".into(), 1),
            // No pod, nor any cgroup above that has the container's name by chance.
            ("/user.slice/kubepods-burstable.slice/x".into(), 0),
            ("/podman.slice/x".into(), 0),
            ("/xc0ffee.scope/x".into(), 0),
            (pod.into(), 0),
            ("/".into(), 0),
        ];
        for (path, right) in cases {
            assert_eq!(above(&path, "c0ffee"), right, "{path}");
        }
        assert_eq!(above("/user.slice/user-0.slice/x.scope", "slice"), 0);
        assert_eq!(above("/user.slice/x.scope", ""), 0);
    }

    #[test]
    fn who_starts_a_container_is_not_within_it() {
        assert!(is_within("/a.slice", "/a.slice") && is_within("/a.slice/b", "/a.slice"));
        assert!(is_within("/a", "/") && is_within("/", "/"));
        assert!(!is_within("/a.slice/b", "/a.slice/b2") && !is_within("/a.slice2", "/a.slice"));
        assert!(!is_within("/a.slice", "/a.slice/b"));
    }
}
