//! A plan from command lines.

use super::*;
use crate::cli::{Cli, Command};
use clap::Parser;
use iopace_core::units::Bytes;
use iopace_daemon::tls::TlsMode;

fn plan(line: &str) -> Result<Plan, Failure> {
    let words = ["iopace", "serve"].into_iter().chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).expect("parsed");
    let Command::Serve(args) = cli.command else { panic!("serve") };
    Plan::make(&args)
}

#[test]
fn one_file_needs_no_other_word() {
    let plan = plan("/srv/disk.img").expect("planned");
    assert_eq!(plan.config.devices[0].name, "disk");
    assert_eq!(plan.socket_name, "disk");
    assert_eq!(plan.control, Control::Default);
    assert!(plan.config.listen.is_empty() && plan.needs_directory());
}

#[test]
fn an_emulated_disk_needs_no_file() {
    let plan = plan("--emulate null --size 1M").expect("planned");
    assert_eq!(plan.config.devices[0].name, "null");
    let two = self::plan("a.img b.img --sched rr --set wait_ms=5").expect("planned");
    assert_eq!(two.socket_name, "iopace");
    assert!(two.config.devices.iter().all(|device| device.scheduler.is_some()));
    let auto = self::plan("a.img --sched auto").expect("planned");
    assert_eq!(auto.config.devices[0].scheduler, None);
    let words = "d --pace none --window-policy fixed --dirty-limit 8M --dirty-background 1M";
    let device = &self::plan(words).expect("planned").config.devices[0];
    assert_eq!((device.pace.name, device.window.name), ("none", "fixed"));
    let dirty = (device.dirty_limit, device.dirty_background);
    assert_eq!(dirty, (Some(Bytes::from_mib(8)), Some(Bytes::from_mib(1))));
}

#[test]
fn an_export_of_another_server_is_a_disk() {
    let plan = plan("nbd://array/pool/volume --reconnect-patience 30s").expect("planned");
    let device = &plan.config.devices[0];
    assert_eq!((&*device.name, device.direct), ("volume", true));
    let Backend::Remote { uri, patience } = &device.backend else { panic!("{device:?}") };
    assert_eq!(uri.to_string(), "nbd://array:10809/pool/volume");
    assert_eq!(patience.map(|patience| patience.as_nanos()), Some(30_000_000_000));
    assert_eq!(self::plan("nbd://array").expect("planned").config.devices[0].name, "remote");
}

#[test]
fn nothing_default_is_made_when_all_is_said() {
    let plan = plan("d --listen [::ffff:127.0.0.1]:0 --no-control").expect("planned");
    assert!(!plan.needs_directory());
}

#[test]
fn mistakes_say_what_would_be_right() {
    let cases = [
        ("", "there is nothing to serve: name a file"),
        ("a/d.img b/d.raw", "a/d.img and b/d.raw would both be named 'd'"),
        ("d --listen 0.0.0.0:10809", "--tls require"),
        ("d --listen 0.0.0.0:10809", "--tcp-without-tls"),
        ("d --listen 0.0.0.0:10809 --tls allow --tls-certificates x", "--tcp-without-tls"),
        ("d --tls allow", "add --tls-certificates DIR"),
        ("d --tls-verify-peer", "of no use without TLS"),
        ("d --tls-certificates x --rule certificate=a:/a", "add --tls-verify-peer"),
        (
            "d --tls-certificates x --tls-verify-peer --rule program=a:/a",
            "'program=a:/a' is a rule for a mount",
        ),
        ("d --sched rr --set wait_ms=31", "wait_ms=31 is out of bounds: 1 to 30 ms"),
        ("d --sched auto --set wait_ms=3", "scheduler 'auto' has no settings"),
        ("d --sched fifo --set x=1", "no parameter 'x': this scheduler has none"),
        ("d --dirty-limit 10M --dirty-background 10M", "is not below the dirty limit, 10 MiB"),
        ("d --dirty-limit 64k", "it is at least 1 MiB"),
        ("d --http-token-file x", "add --http 8080"),
        ("nbds://array/volume", "encryption to another server"),
        ("nbd://array/volume --pace rate", "nothing to pace"),
        ("nbd://array/volume --emulate null", "not with another server"),
        ("d --reconnect-patience 1s", "for exports of other servers"),
        ("--config /nowhere.toml", "/nowhere.toml cannot be read: No such file"),
    ];
    for (line, right) in cases {
        let failure = plan(line).expect_err(line);
        assert!(failure.message.contains(right), "{right}: {}", failure.message);
        assert_eq!(failure.status, 2);
    }
    assert!(plan("d --listen 0.0.0.0:10809 --tcp-without-tls").is_ok());
    let tls = plan("d --listen 0.0.0.0:10809 --tls-certificates x").expect("planned").config.tls;
    assert_eq!((tls.mode, tls.verify_peer), (TlsMode::Require, false));
}
