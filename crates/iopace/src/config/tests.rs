//! What a configuration file means, and the exact text of every mistake.

use super::*;
use iopace_daemon::config::Backend;

fn parse_text(text: &str) -> Result<Settings, ConfigError> {
    parse(Path::new("/etc/iopace.toml"), text)
}

fn mistake(text: &str) -> String {
    parse_text(text).expect_err("a mistake").to_string()
}

#[test]
fn the_example_of_the_manual_is_right_and_complete() {
    let manual = include_str!("../../../../docs/serving.md");
    let (_, rest) = manual.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("an end");
    let settings = parse_text(example).expect("right");
    assert_eq!((settings.devices.len(), settings.exports.len()), (3, 1));
    let manual = include_str!("../../../../docs/pace.md");
    let (_, rest) = manual.split_once("```toml\n").expect("an example");
    let (paced, _) = rest.split_once("```").expect("an end");
    let device = &parse_text(paced).expect("right").devices[0];
    assert_eq!(device.dirty_limit, Some(Bytes::from_mib(256)));
    let manual = include_str!("../../../../docs/mount.md");
    let (_, rest) = manual.split_once("```toml\n").expect("an example");
    let (mounted, _) = rest.split_once("```").expect("an end");
    let settings = parse_text(mounted).expect("right");
    assert_eq!((settings.mounts.len(), settings.devices.len()), (2, 1));
    let manual = include_str!("../../../../docs/recommend.md");
    let (_, rest) = manual.split_once("```toml\n").expect("an example");
    let (tried, _) = rest.split_once("```").expect("an end");
    assert!(parse_text(tried).expect("right").devices[0].recommend.is_some());
    // Whatever the parser knows stands in the examples.
    let tables = ["", "[[device]]\nfile = \"d\"\n", "[[export]]\n", "[[mount]]\ndir = \"/srv\"\n"];
    for table in tables {
        let message = toml::from_str::<File>(&format!("{table}zzzzzzzzzzzz = 1\n"));
        let message = message.expect_err("unknown").message().to_owned();
        let known = message.split('`').skip(3).step_by(2);
        for word in known.filter(|word| *word != "no-control") {
            let [key, section] = [format!("\n{word} = "), format!("\n[{word}.")];
            let there = [key, section, format!("\n[[{word}]]"), format!("\n[[mount.{word}]]")];
            let text = format!("\n{example}\n{paced}\n{mounted}");
            assert!(there.iter().any(|there| text.contains(there)), "{word}");
        }
    }
}

#[test]
fn the_words_are_those_of_the_command_line() {
    let text = r#"
        socket = "iopace.sock"
        listen = ["127.0.0.1:10809"]
        no-control = true
        io-engine = "threads"
        log-format = "json"
        connections = 10
        memory = "64MiB"
        [[device]]
        file = "/srv/disk.img"
        read-only = true
        sched = "rr"
        set = { wait_ms = 5 }
        nr-requests = 64
        nr-group-requests = 16
        window = 8
        [[device]]
        emulate = "hdd-sata-250g"
        size = "4GiB"
        cache = "1MiB"
        sched = "auto"
        [[export]]
        name = "public"
        device = "disk"
        group = "/vms"
        [group."/vms/web"]
        "io.weight" = 200
        "io.max" = ["disk rbps=10M", "hdd-sata-250g wiops=120"]
        [group."/vms/db"]
    "#;
    let settings = parse_text(text).expect("right");
    assert_eq!(settings.socket.as_deref(), Some(Path::new("/etc/iopace.sock")));
    assert_eq!(settings.listen, ["127.0.0.1:10809".parse().expect("an address")]);
    assert!(settings.no_control && !settings.tls.tcp_without_tls);
    assert_eq!(settings.io_engine, Some(IoEngineChoice::Threads));
    assert_eq!(settings.log_format, Some(LogFormat::Json));
    assert_eq!(settings.connections_max, Some(10));
    assert_eq!(settings.memory_max, Some(Bytes::from_mib(64)));
    let [disk, slow] = &*settings.devices else { panic!("two devices") };
    assert_eq!(disk.name, "disk");
    assert!(disk.read_only && !disk.direct);
    assert_eq!(disk.scheduler, Some(("rr".into(), vec![("wait_ms".into(), 5)])));
    assert_eq!((disk.nr_requests, disk.window_depth), (Some(64), Some(8)));
    assert_eq!((disk.nr_group_requests, slow.nr_group_requests), (Some(16), None));
    assert_eq!((&*slow.name, &slow.scheduler), ("hdd-sata-250g", &None));
    let Backend::Emulated { store: None, size, cache, .. } = &slow.backend else {
        panic!("emulated: {slow:?}")
    };
    assert_eq!((*size, *cache), (Some(Bytes::from_mib(4096)), Some(Bytes::from_mib(1))));
    assert_eq!(settings.exports[0].device, "disk");
    assert_eq!(settings.exports[0].group, "/vms");
    let [db, web] = &*settings.groups else { panic!("two groups") };
    assert_eq!((&*db.path, db.files.len()), ("/vms/db", 0));
    assert_eq!((&*web.path, web.files.len()), ("/vms/web", 2));
    let max = "disk rbps=10M\nhdd-sata-250g wiops=120";
    assert!(web.files.contains(&("io.max".into(), max.into())), "{web:?}");
    assert!(web.files.contains(&("io.weight".into(), "200".into())), "{web:?}");
}

#[test]
fn the_words_of_pacing_are_those_of_the_command_line() {
    let text = r#"
        [[device]]
        file = "disk.img"
        window-policy = "fixed"
        pace = "none"
        dirty-limit = "10MiB"
        dirty-background = "1MiB"
        [[device]]
        emulate = "null"
        pause-target = "5ms"
    "#;
    let [disk, other] = &*parse_text(text).expect("right").devices else { panic!("two devices") };
    assert_eq!((disk.pace.name, disk.window.name), ("none", "fixed"));
    let dirty = (disk.dirty_limit, disk.dirty_background);
    assert_eq!(dirty, (Some(Bytes::from_mib(10)), Some(Bytes::from_mib(1))));
    assert_eq!((other.pace.name, other.window.name), ("rate", "latency"));
    assert_eq!((other.dirty_limit, other.dirty_background), (None, None));
    let pauses = (disk.pause_target, other.pause_target);
    assert_eq!(pauses, (None, Some(iopace_core::time::Nanos::from_millis(5))));
}

#[test]
fn a_wrong_word_is_pointed_at() {
    assert_eq!(
        mistake("[[device]]\nfile = \"disk.img\"\nread_only = true\n"),
        "/etc/iopace.toml:3:1: there is no `read_only`: did you mean `read-only`?\n\
         3 | read_only = true\n\
         \u{20} | ^^^^^^^^^"
    );
    assert_eq!(
        mistake("[[device]]\nfile = \"d\"\nsched = \"rr\"\nset = { wait_ms = 31 }\n"),
        "/etc/iopace.toml:4:19: wait_ms=31 is out of bounds: 1 to 30 ms\n\
         4 | set = { wait_ms = 31 }\n\
         \u{20} |                   ^^"
    );
}

#[test]
fn slots_for_every_group_are_bounded_and_bound_those_below() {
    let cases = [
        ("[[device]]\nfile = \"d\"\nnr-group-requests = 0\n", "3:21", "it is 1 to 32768"),
        (
            "[[device]]\nfile = \"d\"\nnr-group-requests = 4\n[group.\"/a/b\"]\n\
             \"io.nr_group_requests\" = \"d 5\"\n",
            "5:26",
            "5 slots on d is above the 4 slots of /a",
        ),
    ];
    for (text, place, right) in cases {
        let message = mistake(text);
        assert!(message.contains(&format!(":{place}: ")), "{place} {message}");
        assert!(message.contains(right), "{right}: {message}");
    }
}

#[test]
fn every_mistake_says_what_would_be_right() {
    let cases = [
        ("", "1:1", "add a [[device]] table"),
        ("[[device]]\n", "1:1", "add a `file`"),
        ("[[device]]\nemulate = \"hdd-sata-250\"\n", "2:11", "did you mean 'hdd-sata-250g'?"),
        ("[[device]]\nemulate = \"x\"\n", "2:11", "there are: hdd-sata-250g"),
        ("[[device]]\nfile = \"d\"\nsched = \"cfq\"\n", "3:9", "there is no scheduler 'cfq'"),
        ("[[device]]\nfile = \"d\"\nset = { a = 1 }\n", "3:9", "name one as `sched`"),
        (
            "[[device]]\nfile = \"d\"\nsched = \"auto\"\nset = { wait_ms = 1 }\n",
            "4:9",
            "scheduler 'auto' has no settings",
        ),
        (
            "[[device]]\nfile = \"d\"\nsched = \"rr\"\nset = { wait = 1 }\n",
            "4:9",
            "no parameter 'wait'; there are: ",
        ),
        ("[[device]]\nfile = \"d\"\nsize = \"4GiB\"\n", "3:8", "for emulated disks"),
        ("[[device]]\nemulate = \"null\"\nsize = \"4\u{20}gib\"\n", "3:8", "4GiB, 256MiB"),
        ("[[device]]\nfile = \"d\"\nnr-requests = 3\n", "3:15", "it is 4 to 32768"),
        ("[[device]]\nfile = \"d\"\nwindow = 0\n", "3:10", "it is 1 to 1024"),
        ("[[device]]\nfile = \"d\"\nwindow = -1\n", "3:10", "u32"),
        ("[[device]]\nfile = \"d\"\npace = \"rat\"\n", "3:8", "did you mean 'rate'?"),
        ("[[device]]\nfile = \"d\"\nwindow-policy = \"x\"\n", "3:17", "there are: fixed"),
        ("[[device]]\nfile = \"d\"\nwindow_policy = \"x\"\n", "3:1", "mean `window-policy`?"),
        ("[[device]]\nfile = \"d\"\ndirty-limit = \"1\"\n", "3:15", "at least 1 MiB"),
        ("[[device]]\nfile = \"d\"\ndirty-limit = \"much\"\n", "3:15", "4GiB, 256MiB"),
        (
            "[[device]]\nfile = \"d\"\ndirty-background = \"4M\"\ndirty-limit = \"4M\"\n",
            "3:20",
            "4 MiB, is not below the dirty limit, 4 MiB",
        ),
        ("[[device]]\nfile = \"d\"\ndirect = true\npace = \"none\"\n", "4:8", "is bypassed"),
        (
            "[[device]]\nfile = \"d\"\ndirty-limit = \"4M\"\ndirect = true\n",
            "3:15",
            "leave this out, or `direct`",
        ),
        ("[[device]]\nname = \"a/b\"\nfile = \"d\"\n", "2:8", "no '/'"),
        ("[[device]]\nnbd = \"nbds://a/v\"\n", "2:7", "encryption to another server"),
        ("[[device]]\nnbd = \"nbd://a/v\"\nfile = \"d\"\n", "2:7", "leave out `file`"),
        ("[[device]]\nnbd = \"nbd://a/v\"\npace = \"rate\"\n", "3:8", "is bypassed"),
        ("[[device]]\nfile = \"d\"\nreconnect-patience = \"1s\"\n", "3:22", "add one as `nbd`"),
        ("[[device]]\nfile = \"a/d.x\"\n[[device]]\nfile = \"b/d.y\"\n", "3:1", "another `name`"),
        ("io-engine = \"posix\"\n", "2:1", "add a [[device]] table"),
        ("io-engine = \"posix\"\n[[device]]\nfile = \"d\"\n", "1:13", "auto, uring, threads"),
        ("[[device]]\nfile = \"my\"\n[[export]]\nname = \"e\"\ndevice = \"me\"\n", "5:10", "'my'?"),
        ("listen = [\"localhost\"]\n[[device]]\nfile = \"d\"\n", "1:11", "127.0.0.1:10809"),
        ("memory = \"1MiB\"\n[[device]]\nfile = \"d\"\n", "1:10", "at least 64 MiB"),
        ("control = \"a\"\nno-control = true\n[[device]]\nfile = \"d\"\n", "1:11", "exclude"),
        ("[device]\nfile = \"d\"\n", "1:1", "sequence"),
        ("[[device]\n", "1:10", "expected `]`"),
    ];
    for (text, place, right) in cases {
        let message = mistake(text);
        assert!(message.contains(&format!(":{place}: ")), "{place} {message}");
        assert!(message.contains(right), "{right}: {message}");
    }
}

#[test]
fn a_pause_target_out_of_bounds_or_of_a_policy_without_one_is_refused() {
    let cases = [
        ("[[device]]\nfile = \"d\"\npause-target = \"1s\"\n", "3:16", "1 ms to 100 ms"),
        (
            "[[device]]\nfile = \"d\"\npace = \"none\"\npause-target = \"5ms\"\n",
            "4:16",
            "'none' aims at no pause: 'rate' does",
        ),
    ];
    for (text, place, right) in cases {
        let message = mistake(text);
        assert!(message.contains(&format!(":{place}: ")), "{place} {message}");
        assert!(message.contains(right), "{right}: {message}");
    }
}

#[test]
fn a_mistake_in_a_group_is_pointed_at() {
    assert_eq!(
        mistake(
            "[[device]]\nfile = \"d\"\n[group.\"/a\"]\n\
             \"io.max\" = [\"d rbps=1M\", \"x rbps=1M\"]\n"
        ),
        "/etc/iopace.toml:4:26: no device 'x'; devices: d\n\
         4 | \"io.max\" = [\"d rbps=1M\", \"x rbps=1M\"]\n\
         \u{20} |                          ^^^^^^^^^^^"
    );
    let with = |group: &str, export: &str| {
        mistake(&format!(
            "[[device]]\nfile = \"d\"\n[[export]]\nname = \"e\"\ndevice = \"d\"\n{export}{group}"
        ))
    };
    let cases = [
        (with("[group.\"a\"]\n", ""), "6:8", "does not begin with '/'"),
        (with("[group.\"/a\"]\n\"io.wait\" = 1\n", ""), "7:1", "there are: io.weight"),
        (with("[group.\"/a\"]\n\"io.stat\" = \"\"\n", ""), "7:1", "read-only"),
        (with("[group.\"/a\"]\n\"io.weight\" = 0\n", ""), "7:15", "1 to 10000"),
        (
            with("[group.\"/a\"]\n\"io.weight\" = true\n", ""),
            "7:15",
            "a number, or a list of lines",
        ),
        (with("[group.\"/a\"]\nio.weight = 1\n", ""), "7:1", "in quotes, as \"io.weight\" = 200"),
        (
            with(
                "[group.\"/a\"]\n\"io.max\" = \"d rbps=1M\"\n\
                 [group.\"/a/b\"]\n\"io.max\" = \"d rbps=2M\"\n",
                "",
            ),
            "9:12",
            "/a",
        ),
        (
            with("[group.\"/vms/web\"]\n", "group = \"/vms/wbe\"\n"),
            "6:9",
            "did you mean '/vms/web'?",
        ),
        (with("[group.\"/vms\"]\n", "group = \"/something\"\n"), "6:9", "groups in /: vms"),
        (with("", "group = \"/something\"\n"), "6:9", "groups in /: none"),
    ];
    for (message, place, right) in cases {
        assert!(message.contains(&format!(":{place}: ")), "{place} {message}");
        assert!(message.contains(right), "{right}: {message}");
    }
}

#[test]
fn the_manual_of_groups_has_every_file_and_a_right_example() {
    let manual = include_str!("../../../../docs/groups.md");
    for spec in &iopace_groups::files::FILES {
        let row = format!("| `{}` | {} | `{}` |\n", spec.name, spec.summary, spec.example);
        assert!(manual.contains(&row), "{row}");
    }
    let (_, rest) = manual.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("an end");
    let devices = "[[device]]\nfile = \"disk\"\n[[device]]\nfile = \"slow\"\n";
    let settings = parse_text(&format!("{example}{devices}")).expect("right");
    assert_eq!((settings.groups.len(), &*settings.exports[0].group), (2, "/vms/web"));
}
