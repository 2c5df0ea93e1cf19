//! The scenario format: what is right is read exactly, a mistake gets one message with its place.

use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_sim::scenario::Scenario;

/// A whole scenario; the tests break one thing at a time.
const GOOD: &str = r#"why = "A reader beside a writer."
seed = 7
duration = "20s"
warmup = "2s"

[disk]
preset = "hdd-sata-250g"

[memory]
size = "512MiB"

[[task]]
name = "reader"
kind = "random"
offset = "1GiB"
size = "1GiB"
block = "8KiB"
think = "2ms"
depth = 4

[[check]]
figure = "ops"
task = "reader"
at_least = 1
"#;

fn mistake(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let error = Scenario::parse("story.toml", &text).expect_err("a mistake");
    error.to_string()
}

#[test]
fn a_good_scenario_is_read_exactly() {
    let scenario = Scenario::parse("story.toml", GOOD).expect("no mistake");
    assert_eq!((scenario.seed, scenario.duration), (7, Nanos::from_secs(20)));
    assert_eq!(scenario.memory.expect("given").size, Bytes::from_mib(512));
    let task = &scenario.tasks[0];
    assert_eq!((task.block, task.depth), (Bytes::from_kib(8), 4));
    assert_eq!(task.region.offset(), Bytes::from_mib(1024));
    assert_eq!(scenario.checks.len(), 1);
}

#[test]
fn a_scenario_without_why_is_refused() {
    let message = mistake("why = \"A reader beside a writer.\"\n", "");
    assert!(message.contains("missing field `why`"), "{message}");
    assert!(message.contains("which question it answers"), "{message}");
    let message = mistake("\"A reader beside a writer.\"", "\" \"");
    assert!(message.starts_with("story.toml:1:7: `why` is empty"), "{message}");
}

#[test]
fn an_unknown_field_is_named_with_its_place() {
    let message = mistake("warmup =", "warm_up =");
    assert!(
        message.starts_with("story.toml:4:1: there is no `warm_up`: did you mean `warmup`?"),
        "{message}"
    );
    assert!(message.ends_with("4 | warm_up = \"2s\"\n  | ^^^^^^^"), "{message}");
    let message = mistake("block =", "blok =");
    assert!(message.contains("there is no `blok`: did you mean `block`?"), "{message}");
}

#[test]
fn a_wrong_unit_says_what_would_be_right() {
    let message = mistake("\"20s\"", "\"20 seconds\"");
    assert_eq!(
        message,
        "story.toml:3:12: \"20 seconds\" is not a time: write a whole number and one of ns, us, \
         ms, s, min\n3 | duration = \"20 seconds\"\n  |            ^^^^^^^^^^^^"
    );
    let message = mistake("\"8KiB\"", "8192");
    assert!(message.starts_with("story.toml:17:9: "), "{message}");
    assert!(message.contains("in quotes, as \"128KiB\""), "{message}");
}

#[test]
fn names_that_do_not_exist_list_those_that_do() {
    let cases = [
        ("\"hdd-sata-250g\"", "\"hdd-sata\"", "7:10: ", "hdd-sata-250g"),
        (
            "\"random\"",
            "\"randem\"",
            "14:8: ",
            "dd-write, cvs, sequential, random, postmark, rsync",
        ),
        ("\"ops\"", "\"iops\"", "22:10: ", "ops_s"),
        ("task = \"reader\"", "task = \"writer\"", "23:8: ", "there are: reader"),
    ];
    for (from, to, place, remedy) in cases {
        let message = mistake(from, to);
        assert!(message.starts_with(&format!("story.toml:{place}")), "{message}");
        assert!(message.contains(remedy), "{message}");
    }
    let message = mistake("[memory]", "[scheduler]\nname = \"rrr\"\n\n[memory]");
    assert!(message.contains("no scheduler 'rrr'; there are: fifo"), "{message}");
    assert!(message.contains("; did you mean 'rr'?"), "{message}");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let cases = [
        ("\"2s\"", "\"20s\"", "the warm-up must be shorter"),
        ("\"1GiB\"\nblock", "\"300GB\"\nblock", "past the end of the disk"),
        ("[memory]", "faults = { error_permille = 1001 }\n[memory]", "sum to more than 1000"),
        ("[memory]", "faults = { stall_permille = 1 }\n[memory]", "belong together"),
        ("depth = 4", "depth = 0", "the depth is 1 to 1024"),
        ("\"512MiB\"", "\"50MiB\"", "[memory] does not fit together"),
        ("\"random\"", "\"cvs\"", "takes no `block`"),
        ("at_least = 1\n", "", "a check needs"),
        ("task = \"reader\"\n", "", "is a figure of one task"),
        ("\"ops\"", "\"efficiency\"", "figure of the whole run"),
        ("size = \"512MiB\"", "dirty_limit = \"1KiB\"", "[memory] does not fit together"),
        ("[memory]\nsize = \"512MiB\"", "", "needs a [memory] table"),
        ("[[check]]", "[[step]]\nat = \"20s\"\ndestroy = true\n[[check]]", "has ended by then"),
        ("[[check]]", "[[step]]\nat = \"2s\"\n[[check]]", "a step does one thing"),
    ];
    for (from, to, wanted) in cases {
        // A task that needs memory, where the case is about memory.
        let message = match wanted {
            "needs a [memory] table" => {
                let text = GOOD.replacen(from, to, 1).replacen("depth = 4", "buffered = true", 1);
                let error = Scenario::parse("story.toml", &text).expect_err("a mistake");
                error.to_string()
            }
            _ => mistake(from, to),
        };
        assert!(message.contains(wanted), "{wanted}: {message}");
    }
}

#[test]
fn a_kind_takes_its_own_settings_and_within_their_bounds() {
    let plain = "kind = \"random\"\noffset = \"1GiB\"\nsize = \"1GiB\"\nblock = \"8KiB\"\n\
                 think = \"2ms\"\ndepth = 4\n";
    let task = |text: &str| GOOD.replacen(plain, text, 1);
    let cases = [
        (
            "kind = \"dd-write\"\nthink = \"1ms\"\n",
            "15:9: a task of kind 'dd-write' takes no \
         `think`, only block",
        ),
        ("kind = \"cvs\"\nfiles = 10\n", "15:9: a task of kind 'cvs' takes no `files`"),
        ("kind = \"random\"\nlink = \"1MB/s\"\n", "15:8: a task of kind 'random' takes no `link`"),
        ("kind = \"postmark\"\nfiles = 0\n", "15:9: a pool has 1 to 1000000 files"),
        (
            "kind = \"postmark\"\nfile_min = \"12kB\"\n",
            "15:12: files have 1 B or more, file_min <= \
         file_max: 12000 B, 10000 B",
        ),
        ("kind = \"postmark\"\nfile_max = \"33MiB\"\n", "15:12: a file is read at once"),
        (
            "kind = \"postmark\"\nsize = \"1MiB\"\n",
            "the region has 1 MiB, a postmark needs 6000 KiB",
        ),
        ("kind = \"rsync\"\nlink = \"0B/s\"\n", "15:8: the link carries at least 1 B/s"),
        (
            "kind = \"rsync\"\nlink = \"117MB\"\n",
            "\"117MB\" is not a rate: write a whole number and \
         one of B/s, KiB/s",
        ),
        ("kind = \"append\"\nblock = \"0B\"\n", "15:9: a block is 1 B to 32 MiB"),
        ("kind = \"random\"\nblock = \"1000B\"\n", "15:9: a block is a multiple of 512 B"),
        ("kind = \"dd-write\"\ncount = 0\n", "15:9: the count is 1 to 1024"),
        ("kind = \"dd-write\"\ncount = 9\nsize = \"512MiB\"\n", "needs 64 MiB"),
    ];
    for (text, wanted) in cases {
        let text = task(text);
        assert_ne!(text, GOOD);
        let error = Scenario::parse("story.toml", &text).expect_err("a mistake").to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let given = task(
        "kind = \"rsync\"\nblock = \"4KiB\"\nlink = \"2MiB/s\"\nfile_min = \"1B\"\n\
         file_max = \"1GiB\"\n",
    );
    let task = &Scenario::parse("story.toml", &given).expect("no mistake").tasks[0];
    assert_eq!((task.block, task.link.0), (Bytes::from_kib(4), 2 << 20));
    assert_eq!((task.files.min, task.files.max), (Bytes(1), Bytes(1 << 30)));
}

#[test]
fn any_text_gets_an_answer_and_no_panic() {
    for cut in 0..GOOD.len() {
        let _ = Scenario::parse("story.toml", &GOOD[..cut]);
    }
    for text in ["", "\u{0}", "= =", "why = [", "[[task]]\n[[task]]", "why = \"\u{fc}\nx"] {
        let error = Scenario::parse("story.toml", text).expect_err("a mistake");
        assert!(error.to_string().starts_with("story.toml:"), "{error}");
    }
}

#[test]
fn a_disk_by_its_parameters_is_read_and_mistakes_are_named() {
    let changed = GOOD.replace("[memory]", "[disk.set]\nread_ahead = \"1MiB\"\n\n[memory]");
    let model = Scenario::parse("story.toml", &changed).expect("legal").model.expect("changed");
    assert_eq!(model.value("read_ahead"), Some(1 << 20));
    assert_eq!(model.value("depth"), Some(1));
    let null = "kind = \"null\"\nset = { capacity = \"64GiB\", depth = 4 }\n";
    let text = GOOD.replace("preset = \"hdd-sata-250g\"\n", null);
    assert!(Scenario::parse("story.toml", &text).expect("legal").model.is_some());
    let set = |set: &str| mistake("[memory]", &format!("[disk.set]\n{set}\n\n[memory]"));
    let cases = [
        ("rotation = \"1us\"", "story.toml:10:12: rotation is 1ms to 1s, not 1us"),
        ("rotation = 8", "rotation is a number with its unit in quotes, \"1ms\" to \"1s\""),
        ("seek_avrage = \"8ms\"", "10:1: a model 'hdd' has no parameter 'seek_avrage'; there are:"),
        ("seek_full = \"1ms\"", "seek_average is at most seek_full"),
        ("depth = 0", "depth is 1 to 1024, not 0"),
    ];
    for (given, message) in cases {
        let found = set(given);
        assert!(found.contains(message), "{found}");
    }
    let disk = |text: &str| mistake("preset = \"hdd-sata-250g\"\n", text);
    let message = disk("kind = \"null\"\nset = { depth = 4 }\n");
    assert!(message.contains("7:8: a model 'null' also needs capacity"), "{message}");
    let message = disk("kind = \"tape\"\n");
    assert!(message.contains("no model 'tape'; there are: hdd, ssd, nfs, null"), "{message}");
    assert!(disk("depth = 1\n").contains("a disk is one of preset"));
    assert!(disk("model = \"nowhere.toml\"\n").contains("the model nowhere.toml cannot be read"));
}

#[test]
fn mistakes_in_steps_are_named() {
    let step = |text: &str| {
        let step = format!("[[step]]\nat = \"5s\"\n{text}\n\n[[check]]");
        mistake("[[check]]", &step)
    };
    let cases = [
        ("", "a step does one thing"),
        ("slow = 2\nstall = \"1s\"", "a step does one thing"),
        ("slow = 0", "story.toml:23:8: how many times slower the disk is is 1 to 1000"),
        ("stall = \"0s\"", "a stall lasts more than 0 s"),
        ("start = \"writer\"", "no task 'writer'; there are: reader"),
        ("start = \"reader\"\n[[step]]\nat = \"6s\"\nstart = \"reader\"", "has begun already"),
        ("stop = \"reader\"\n[[step]]\nat = \"6s\"\nstop = \"reader\"", "has stopped already"),
        ("move = \"reader\"", "say where to: add to = \"/GROUP\""),
        ("move = \"reader\"\nto = \"/a\"", "/a"),
        ("group = \"/\"", "say what is written"),
        ("group = \"/\"\nwrite = { \"io.wait\" = \"1\" }", "io.wait"),
        ("pace = \"fast\"", "no pace 'fast'; there are: none"),
        ("window = \"wide\"", "no window 'wide'; there are:"),
        ("depth = 2000", "the depth is 1 to 1024"),
        ("memory = { dirty_limit = \"1GiB\" }", "[memory] does not fit together"),
        ("destroy = true\nset = { wait_ms = 1 }", "a step with `destroy` takes no `set`"),
        ("slow = 2\nto = \"/a\"", "a step with `slow` takes no `to`"),
    ];
    for (given, message) in cases {
        let found = step(given);
        assert!(found.contains(message), "{given}: {found}");
    }
}

#[test]
fn mistakes_in_databases_and_checks_are_named() {
    let database = |text: &str| {
        let task = format!("[[task]]\nname = \"db\"\nkind = \"database\"\n{text}\n\n[[check]]");
        mistake("[[check]]", &task)
    };
    let cases = [
        ("reads = 1001", "story.toml:24:9: reads is 0 to 1000"),
        ("group_commit = 0", "group_commit is 1 to 1000"),
        ("record = \"0B\"", "a record has 1 B to"),
        ("sync = \"never\"", "sync is 'fua' or 'flush', not 'never'"),
        ("checkpoint = \"0s\"", "checkpoints are 1 ms to"),
        ("checkpoint_pages = 99999999", "checkpoint_pages is 0 to 10000000"),
        ("log = \"8KiB\"", "the log is a multiple of 512 B, at least"),
        ("block = \"1000B\"", "a page is a multiple of 512 B"),
        ("size = \"1GiB\"", "a database needs"),
        ("depth = 2", "a task of kind 'database' takes no `depth`, only block, think, reads"),
    ];
    for (given, message) in cases {
        let found = database(given);
        assert!(found.contains(message), "{given}: {found}");
    }
    let check = |text: &str| mistake("figure = \"ops\"\ntask = \"reader\"", text);
    let message = check("figure = \"mb_s\"\ntask = \"reader\"\ngroup = \"/\"");
    assert!(message.contains("of a task or of a group"), "{message}");
    let message = check("figure = \"p99_ms\"\ngroup = \"/\"");
    assert!(message.contains("'p99_ms' is no figure of a group"), "{message}");
    let text = GOOD.replace("[memory]\nsize = \"512MiB\"\n", "");
    let text = text.replace("figure = \"ops\"\ntask = \"reader\"", "figure = \"dirty_max_mib\"");
    let error = Scenario::parse("story.toml", &text).expect_err("no memory").to_string();
    assert!(error.contains("is a figure of the page cache: add a [memory] table"), "{error}");
}
