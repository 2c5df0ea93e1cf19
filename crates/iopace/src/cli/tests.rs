use super::*;

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn serve_needs_no_other_word_than_a_file() {
    let cli = Cli::try_parse_from(["iopace", "serve", "disk.img"]).expect("parsed");
    let Command::Serve(serve) = cli.command else { panic!("serve") };
    assert_eq!(serve.files, [PathBuf::from("disk.img")]);
    assert!(serve.device.sched.is_none() && !serve.sockets.tls.tcp_without_tls);
}

/// A value that no number is, for each option that takes one: its words are ours.
#[test]
fn a_number_that_is_none_is_answered_with_what_is_needed() {
    fn leaves(command: &clap::Command, words: Vec<String>, all: &mut Vec<Vec<String>>) {
        for option in command.get_arguments().filter(|one| one.get_action().takes_values()) {
            let Some(name) = option.get_long() else { continue };
            let mut words = words.clone();
            words.push(format!("--{name}=x?"));
            all.push(words);
        }
        for below in command.get_subcommands() {
            let words = words.iter().cloned().chain([below.get_name().into()]);
            leaves(below, words.collect(), all);
        }
    }
    let mut all = Vec::new();
    leaves(&Cli::command(), vec!["iopace".into()], &mut all);
    assert!(all.len() > 100, "{}", all.len());
    for words in all {
        let Err(error) = Cli::try_parse_from(&words) else { continue };
        let text = error.to_string();
        let is_raw = ["found in string", "invalid float", "invalid socket address"];
        assert!(!is_raw.iter().any(|raw| text.contains(raw)), "{words:?}: {text}");
    }
    let depth = ["iopace", "serve", "--window", "abc"];
    let text = Cli::try_parse_from(depth).expect_err("refused").to_string();
    let right = "invalid value 'abc' for '--window <DEPTH>': a whole number from 1 to 1024";
    assert!(text.contains(right), "{text}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let wrong = [
        "serve --config a.toml disk.img",
        "serve disk.img --size 1GiB",
        "serve disk.img --set wait_ms=5",
        "serve disk.img --nr-requests 3",
        "serve disk.img --control x --no-control",
        "sched insert disk",
        "sched configure disk",
        "sched insert -a CFQ",
        "sched insert -a rr --set wait_ms",
        "serve disk.img --direct --pace none",
        "serve disk.img --direct --dirty-limit 10M",
        "serve disk.img --pace fast",
        "serve --config a.toml --window-policy fixed",
        "pace configure disk",
        "pace configure -a fast",
        "window configure disk",
        "window configure --depth 0",
        "group move /a",
        "group move --export d --connection 7 /a",
        "group set /a io.max",
        "group create",
        "recommend set --set wait_ms=5",
        "recommend group /a io.max",
        "recommend group /a",
        "recommend group /a io.max 'x rbps=1M' --off",
        "recommend set --sched CFQ",
        "mount --list /srv",
        "mount --config a.toml /srv",
        "mount --config a.toml --sched rr",
        "mount /srv --private --allow-other",
        "mount /srv --foreground --log x",
        "mount /srv --cache 1M",
        "mount --name x",
        "unmount",
        "unmount /srv --wait 0",
        "verify --scratch disk",
        "verify /a --emulate null",
        "verify /a --mount /srv --device x",
        "verify --tolerance 0",
        "top --count 0",
        "top --delay 500ms",
        "top --sort colour",
        "top --tasks --flat",
        "explain /a /b",
        "explain --over 1ms",
        "events disk",
        "record --for 1ms",
        "record a b",
    ];
    for line in wrong {
        let words = ["iopace"].into_iter().chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_err(), "{line}");
    }
}
