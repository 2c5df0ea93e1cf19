//! The tutorial of the simulator: what it shows is what its commands print.

mod common;

use common::Place;

/// The blocks of a page that are no commands.
fn shown(page: &str) -> Vec<&str> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix('\n')).collect()
}

#[test]
fn the_tutorial_shows_what_its_commands_print() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulator-tutorial.md");
    let page = std::fs::read_to_string(page).expect("docs/simulator-tutorial.md");
    let [ran, compared] = shown(&page)[..] else { panic!("two outputs are shown") };
    let place = Place::new();
    let run = |command: &str| {
        assert!(page.contains(&format!("iopace {command}\n")), "the tutorial has: {command}");
        place.run(&command.split(' ').collect::<Vec<&str>>())
    };
    assert_eq!(run("sim new my.toml").status, Some(0));
    let printed = run("sim run my.toml --html report.html");
    assert!(printed.out.ends_with(ran), "docs/simulator-tutorial.md, step 2: {}", printed.out);
    let printed = run("sim compare my.toml --sched none,rr,fair --html compare.html");
    assert_eq!(printed.out, compared, "docs/simulator-tutorial.md, step 4");
    let text = std::fs::read_to_string(place.path("my.toml")).expect("written");
    place.write("my.toml", &text.replace("\"io.weight\" = \"300\"", "\"io.weight\" = \"50\""));
    let missed = place.run(&["sim", "run", "my.toml"]);
    assert_eq!(missed.status, Some(1), "step 3: {missed:?}");
}
