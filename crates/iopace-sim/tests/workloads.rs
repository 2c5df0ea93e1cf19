//! The programs at work: what the page cache does for them, what a link and a slow disk leave them.

use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_sim::report::{RunReport, TaskReport};
use iopace_sim::run::run;
use iopace_sim::scenario::Scenario;

/// Carries out a scenario of one disk, one memory and one task.
fn go(disk: &str, memory: &str, seconds: u64, task: &str) -> RunReport {
    let text = format!(
        "why = \"a test\"\nduration = \"{seconds}s\"\n[disk]\npreset = \"{disk}\"\n\
         [memory]\n{memory}\n[[task]]\nname = \"t\"\n{task}\n"
    );
    run(&Scenario::parse("test.toml", &text).expect("no mistake"))
}

fn misses(task: &TaskReport) -> u64 {
    task.ops - task.cached
}

/// Of 1000 reads, how many the page cache served.
fn hits_permille(task: &TaskReport) -> u64 {
    task.cached * 1_000 / task.ops
}

#[test]
fn postmark_reads_each_file_from_the_disk_once_if_its_pool_fits() {
    let report = go("ssd-sata", "size = \"128MiB\"", 2, "kind = \"postmark\"\nsize = \"8GiB\"");
    let task = &report.tasks["t"];
    assert_eq!(misses(task), 500);
    assert!(task.ops > 35_000, "50 us each: {}", task.ops);
    let mean = task.bytes / task.ops;
    assert!((5_000..6_000).contains(&mean), "{mean}");
}

#[test]
fn postmark_depends_on_the_disk_if_its_pool_does_not_fit() {
    let pool = "kind = \"postmark\"\nsize = \"8GiB\"\nfiles = 20000";
    let small = "size = \"32MiB\"\ndirty_limit = \"16MiB\"\ndirty_background = \"8MiB\"";
    let task = &go("ssd-sata", small, 4, pool).tasks["t"];
    // 8192 pages; 20 000 files of 1 to 3 of them, 37 000 pages altogether.
    let hits = hits_permille(task);
    assert!((150..=300).contains(&hits), "{hits}");
}

#[test]
fn random_buffered_reads_are_a_working_set() {
    let set = |size: &str| {
        let set = format!("kind = \"random\"\nbuffered = true\nblock = \"64KiB\"\nsize = {size}");
        let memory = "size = \"64MiB\"\ndirty_limit = \"16MiB\"\ndirty_background = \"8MiB\"";
        // Hits take no time: without thinking it would not get on.
        go("ssd-sata", memory, 2, &format!("{set}\nthink = \"100us\"")).tasks["t"].clone()
    };
    assert_eq!(misses(&set("\"32MiB\"")), 512, "each piece once");
    let hits = hits_permille(&set("\"128MiB\""));
    assert!((420..=520).contains(&hits), "half of it is in memory: {hits}");
}

#[test]
fn rsync_writes_what_its_link_brings() {
    let rate = |disk, seconds, task: &str| {
        let memory = "dirty_limit = \"8MiB\"\ndirty_background = \"4MiB\"";
        go(disk, memory, seconds, task).tasks["t"].bytes / seconds
    };
    let gigabit = rate("null", 2, "kind = \"rsync\"\nsize = \"1GiB\"");
    assert!((116_700_000..=117_000_000).contains(&gigabit), "{gigabit}");
    let slow = rate("null", 4, "kind = \"rsync\"\nsize = \"1GiB\"\nlink = \"1MB/s\"");
    assert!((900_000..=1_000_000).contains(&slow), "{slow}");
    let held = rate("usb-key", 10, "kind = \"rsync\"\nsize = \"1GiB\"");
    assert!((5_000_000..=8_000_000).contains(&held), "a stick behind the link: {held}");
}

#[test]
fn rewriting_one_block_dirties_one_page() {
    let report = go("null", "size = \"256MiB\"", 1, "kind = \"rewrite\"");
    let task = &report.tasks["t"];
    assert!(task.ops > 70_000, "{}", task.ops);
    assert!(report.disk_use.commands <= 2, "{:?}", report.disk_use);
}

#[test]
fn an_append_of_bytes_writes_its_pages_and_no_more() {
    let memory = "dirty_limit = \"1MiB\"\ndirty_background = \"128KiB\"";
    let report = go("null", memory, 1, "kind = \"append\"\nblock = \"100B\"");
    let task = &report.tasks["t"];
    assert!(task.bytes > 7_000_000, "{}", task.bytes);
    let written_mb_s = report.disk_use.mb_s.0 as u64;
    let appended_mb_s = task.mb_s.0 as u64;
    assert!(written_mb_s <= appended_mb_s * 11 / 10, "{written_mb_s} of {appended_mb_s}");
}

/// A dd through the page cache for half a minute, of which the first ten seconds do not count.
fn dd(disk: &str, write_back_len: &str, block: &str) -> TaskReport {
    let text = format!(
        "why = \"a test\"\nduration = \"30s\"\nwarmup = \"10s\"\n[disk]\npreset = \"{disk}\"\n\
         [memory]\nsize = \"512MiB\"\ndirty_limit = \"160MiB\"\ndirty_background = \"80MiB\"\n\
         write_back_len = \"{write_back_len}\"\n[[task]]\nname = \"t\"\nkind = \"dd-write\"\n\
         size = \"4GiB\"\nblock = \"{block}\"\n"
    );
    run(&Scenario::parse("test.toml", &text).expect("no mistake")).tasks["t"].clone()
}

#[test]
fn a_buffered_writer_gets_the_rate_of_a_stick_and_its_stalls() {
    for block in ["128KiB", "1MiB"] {
        let task = dd("usb-key", "128KiB", block);
        assert!((5_500..=6_500).contains(&task.mb_s.0), "{block}: {}", task.mb_s);
        assert!((200_000..400_000).contains(&task.latency.max_ms.0), "{}", task.latency.max_ms);
    }
}

#[test]
fn a_writer_on_a_file_server_waits_for_bursts_as_large_as_what_is_in_line() {
    let (small, large) =
        (dd("nfs-gigabit", "128KiB", "128KiB"), dd("nfs-gigabit", "8MiB", "128KiB"));
    assert!((13_000..=17_000).contains(&small.mb_s.0), "{}", small.mb_s);
    assert!(small.latency.max_ms.0 < 100_000, "{}", small.latency.max_ms);
    assert!((30_000..=37_000).contains(&large.mb_s.0), "{}", large.mb_s);
    assert!(large.latency.max_ms.0 > 3 * small.latency.max_ms.0, "{}", large.latency.max_ms);
}

#[test]
fn a_count_makes_tasks_with_a_part_of_the_region_each() {
    let text = "why = \"a test\"\nduration = \"1s\"\n[disk]\npreset = \"null\"\n[memory]\n\
        [[task]]\nname = \"dd\"\nkind = \"dd-write\"\ncount = 10\noffset = \"1GiB\"\n\
        size = \"10GiB\"\n[[check]]\nfigure = \"part\"\ntask = \"dd-07\"\nat_least = 0.09\n";
    let scenario = Scenario::parse("test.toml", text).expect("no mistake");
    let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[9]), (10, "dd-01", "dd-10"));
    for (task, place) in scenario.tasks.iter().zip(1..) {
        assert_eq!(task.region.offset(), Bytes(place << 30));
        assert_eq!(task.region.len(), Bytes(1 << 30));
    }
    assert!(scenario.duration == Nanos::from_secs(1) && run(&scenario).tasks["dd-10"].ops > 0);
}
