//! Other users of the machine can put files where root's commands look: the commands neither wait
//! for them nor believe them.

mod common;

use common::{Place, Ran};
use std::process::{Command, Stdio};

/// A user who is not root.
const STRANGER: &str = "4242";

/// Whether a mount namespace and another user can be had.
fn has_namespaces() -> bool {
    let mut tried = Command::new("unshare");
    tried.args(["-m", "setpriv", "--reuid", STRANGER, "true"]);
    let tried = tried.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_possible = rustix::process::geteuid().is_root() && tried.is_ok_and(|s| s.success());
    if !is_possible {
        eprintln!("skipped: needs root, unshare and setpriv");
    }
    is_possible
}

/// Runs a shell in a mount namespace with a `/tmp` and a `/run` of its own; `$IOPACE` is the
/// binary.
fn shell(script: &str) -> Ran {
    let mut command = Command::new("unshare");
    let set_up = "exec 9<\"$1\"; IOPACE=/proc/$$/fd/9; mount -t tmpfs -o mode=1777 none /tmp && \
                  mount -t tmpfs -o mode=755 none /run || exit 99\n";
    let script = format!("{set_up}{script}");
    let binary = env!("CARGO_BIN_EXE_iopace");
    let words = ["-m", "--propagation", "private", "sh", "-c", &script, "sh", binary];
    let command = command.args(words).env_remove("XDG_RUNTIME_DIR").env_remove("IOPACE_CONTROL");
    Ran::from(command.stdin(Stdio::null()).output().expect("started"))
}

#[test]
fn a_fifo_where_records_are_looked_for_hangs_nobody() {
    if !has_namespaces() {
        return;
    }
    // Each command ends by itself; `timeout` says 124 of one that hangs.
    let ran = shell(&format!(
        "mkdir /tmp/d
         setpriv --reuid {STRANGER} --clear-groups sh -c '
           mkdir -m 700 /tmp/iopace-0 /tmp/x /tmp/x/iopace
           mkfifo /tmp/iopace-0/attach-loop0.json /tmp/iopace-0/mount-9.json
           mkfifo /tmp/x/iopace/attach-loop0.json /tmp/x/iopace/mount-9.json'
         for dir in '' /tmp/x; do
           for words in 'attach --list' 'detach --all' 'unmount /tmp/d' 'mount'; do
             XDG_RUNTIME_DIR=$dir timeout 60 $IOPACE $words </dev/null >/dev/null 2>&1
             echo \"$words: $?\"
           done
         done"
    ));
    let each = "attach --list: 0\ndetach --all: 0\nunmount /tmp/d: 1\nmount: 0\n";
    assert_eq!(ran.out, format!("{each}{each}"), "{ran:?}");
}

#[test]
fn a_forged_record_under_a_shared_folder_is_ignored() {
    if !has_namespaces() {
        return;
    }
    // A process of root's that the record names as the daemon: 'detach' would end it.
    let ran = shell(&format!(
        "sleep 600 & victim=$!
         ticks=$(cut -d' ' -f22 /proc/$victim/stat)
         cat >/tmp/record <<END
{{\"loop_device\": \"/dev/loop0\", \"image\": \"/tmp/x\", \"mountpoint\": \"/tmp/m\", \
          \"source\": null, \"device\": \"forged\", \"size_bytes\": 1, \"read_only\": false, \
          \"pid\": $victim, \"started_ticks\": $ticks, \"control\": \"/tmp/keep\", \"log\": null}}
END
         touch /tmp/keep
         setpriv --reuid {STRANGER} --clear-groups sh -c 'mkdir -m 700 /tmp/iopace-0
           cp /tmp/record /tmp/iopace-0/attach-loop0-1.json'
         $IOPACE attach --list
         $IOPACE attach --list -v 2>&1 | grep -c 'ignored: /tmp/iopace-0 belongs to the user 4242'
         # Also where his folder is said to be the place for run-time files.
         setpriv --reuid {STRANGER} --clear-groups sh -c 'mkdir -m 700 /tmp/x
           mv /tmp/iopace-0 /tmp/x/iopace'
         XDG_RUNTIME_DIR=/tmp/x $IOPACE detach --all
         ls /tmp/keep
         kill $victim && echo alive"
    ));
    assert_eq!(ran.out, "nothing is attached by iopace\n1\n/tmp/keep\nalive\n", "{ran:?}");
}

#[test]
fn a_run_time_folder_of_somebody_else_is_passed_over() {
    if !has_namespaces() {
        return;
    }
    let ran = shell(&format!(
        "setpriv --reuid {STRANGER} --clear-groups mkdir -m 700 /tmp/x
         export XDG_RUNTIME_DIR=/tmp/x
         mkfifo /run/told; exec 8<>/run/told
         {{ sh -c 'echo $$ >/run/pid; exec '$IOPACE' serve --emulate null --size 1MiB' 2>/run/log
            echo \"stop: ended $?\"; }} >/run/told &
         while read -r line <&8; do case $line in stop:*) break;; esac; done
         ls /tmp/x; ls /run/iopace
         $IOPACE sched status --format json | grep -c '\"name\": \"null\"'
         kill $(cat /run/pid); read -r line <&8; echo $line; cat /run/log >&2"
    ));
    assert_eq!(ran.out, "iopace.ctl\nnull.sock\n1\nstop: ended 0\n", "{ran:?}");
}

#[test]
fn a_name_with_escape_sequences_commands_no_terminal() {
    let place = Place::new();
    let name = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}K\u{202e}";
    let shown = r"\x1b[2J\x1b]0;title\x07\x9bK\u{202e}";
    std::fs::create_dir(place.path(name)).expect("made");
    let serving = place.serve(&["--emulate", "null", "--size", "1MiB"]);
    let runs = [
        place.run(&["unmount", name]),
        place.run(&["sched", "status", name]),
        place.run(&["serve", name]),
        place.run(&["serve", "--config", name]),
    ];
    for ran in &runs {
        assert!(ran.error.contains(shown) && !ran.error.contains('\u{1b}'), "{ran:?}");
        assert!(ran.status != Some(0) && !ran.error.contains(['\u{9b}', '\u{202e}']), "{ran:?}");
    }
    drop(serving);
}

#[test]
fn another_user_controls_no_daemon_and_is_asked_by_nobody_but_root() {
    if !has_namespaces() {
        return;
    }
    // The sockets are open to everybody: only the kernel's word tells the users apart.
    let ran = shell(&format!(
        "mkfifo -m 666 /run/told; exec 8<>/run/told; mkdir /tmp/root /tmp/user
         chown {STRANGER} /tmp/user
         serve() {{
           setpriv --reuid $1 --clear-groups sh -c 'echo $$ >'$2'/pid
             exec /proc/self/fd/9 serve --emulate null --size 1MiB \\
               --socket '$2'/s --control '$2'/c 2>'$2'/log' >&8 &
           while read -r line <&8; do case $line in stop:*) break;; esac; done
           chmod 666 $2/c
         }}
         serve 0 /tmp/root; serve {STRANGER} /tmp/user
         for uid in 0 {STRANGER} 65534; do for folder in /tmp/root /tmp/user; do
           setpriv --reuid $uid --clear-groups /proc/self/fd/9 \\
             sched status --format json --control $folder/c >/run/out 2>/run/error
           echo $uid $folder $? $(grep -c '\"name\": \"null\"' /run/out) \\
             $(grep -o 'is served by the user .*: only a daemon of your own' /run/error)
         done; done
         grep -c 'a control client of another user was turned away' /tmp/root/log
         kill $(cat /tmp/root/pid /tmp/user/pid); wait; cat /tmp/root/log /run/error >&2"
    ));
    let theirs = "1 0 is served by the user 4242: only a daemon of your own";
    let expected = format!(
        "0 /tmp/root 0 1\n0 /tmp/user 0 1\n4242 /tmp/root 1 0\n4242 /tmp/user 0 1\n\
         65534 /tmp/root 1 0\n65534 /tmp/user {theirs}\n2\n"
    );
    assert_eq!(ran.out, expected, "{ran:?}");
}
