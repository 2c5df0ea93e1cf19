//! Whom numbers share with, and files that change, links among them.

use super::*;

#[test]
fn a_number_shares_with_the_user_who_has_it() {
    let users = "root:x:0:0::/root:/bin/sh\nanna:x:1001:1001::/:/bin/sh\nodd\n\
                 ben:x:1002:1:::\nlate:x:231073:1:::\n";
    let ranges = "anna:165536:65536\n1002:231072:65536\nroot:1000:1\nroot:1000000:1000000000\n\
                  ldap:300000:131072\n# none\nanna:x:1\nanna:400000:0\nanna:4294967000:65536\n\
                  ben:2000000:10\n";
    let known = Subordinates::parse(ranges, users);
    let expected = [
        // Himself, and what he has been given.
        (1001, 1001),
        (165_535, 165_535),
        (165_536, 1001),
        (231_071, 1001),
        (u32::MAX, 1001),
        // By number, and one of them that is a user of its own.
        (231_072, 1002),
        (231_073, 231_073),
        (296_608, 296_608),
        // In pieces: of root, and of a user who is not known here.
        (1000, 1000),
        (1_000_001, 1_000_000),
        (1_065_537, 1_065_536),
        (300_001, 300_000),
        (365_536, 365_536),
        (400_000, 365_536),
        // A range within another one.
        (2_000_009, 1002),
        (2_000_010, 1_983_040),
        (0, 0),
    ];
    for (uid, share) in expected {
        assert_eq!(known.share_of(uid), share, "{uid}");
    }
    let none = Subordinates::parse("", "");
    assert_eq!((none.share_of(0), none.share_of(165_536)), (0, 165_536));
}

#[test]
fn what_this_machine_says_is_read_once() {
    look_again();
    look_again();
    assert_eq!(share_of(ROOT), ROOT);
    assert!(SYSTEM.seen.lock().expect("whole").stamps.is_some());
}

#[test]
fn a_change_is_seen_though_nobody_starts_a_thread() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only files of root count");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text").to_owned();
    let source: &Source = Box::leak(Box::new(Source::new(path.leak(), Duration::ZERO)));
    let watch = Watch::start(source, Duration::from_millis(1)).expect("a thread");
    let set = |name: &str, text: &str| {
        std::fs::write(folder.path().join("new"), text).expect("written");
        std::fs::rename(folder.path().join("new"), folder.path().join(name)).expect("named");
    };
    set("passwd", "anna:x:1001:1001::/:/bin/sh\n");
    for (ranges, share) in [("anna:165536:65536\n", 1001), ("anna:300000:9\n", 165_536)] {
        set("subuid", ranges);
        // A test that is slow is ended by its runner.
        while source.share_of(165_536) != share {
            // SLEEP: the pause between two looks at the condition.
            thread::sleep(Duration::from_millis(1));
        }
    }
    drop(watch);
}

#[test]
fn links_lead_where_they_led_at_first() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only files of root count");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(at(name), text).expect("written");
    for name in ["etc", "real"] {
        std::fs::create_dir(at(name)).expect("made");
    }
    write("real/passwd", "anna:x:1001:1001::/:/bin/sh\nben:x:1002:1::/:/bin/sh\n");
    write("real/ranges", "anna:165536:65536\n");
    for (name, target) in [("passwd", "passwd"), ("subuid", "ranges")] {
        let (link, target) = (at("etc").join(name), format!("../real/{target}"));
        std::os::unix::fs::symlink(target, link).expect("made");
    }
    let path = at("etc").to_str().expect("text").to_owned();
    let source = Source::new(path.leak(), Duration::ZERO);
    let look = || {
        source.look_again();
        source.share_of(165_536)
    };
    assert_eq!(look(), 1001);
    // As a mount over the folder does.
    std::fs::rename(at("real"), at("below")).expect("moved");
    std::fs::create_dir(at("real")).expect("made");
    write("real/ranges", "ben:165536:9\n");
    assert_eq!(look(), 1001);
    // A file that takes the place of the one that the link led to.
    write("below/new", "ben:165536:65536\n");
    std::fs::rename(at("below/new"), at("below/ranges")).expect("named");
    assert_eq!(look(), 1002);
    // A link in its place is not followed, and changes nothing; without a file there is nothing.
    std::fs::remove_file(at("below/ranges")).expect("removed");
    std::os::unix::fs::symlink("passwd", at("below/ranges")).expect("made");
    assert_eq!(look(), 1002);
    std::fs::remove_file(at("below/ranges")).expect("removed");
    assert_eq!(look(), 165_536);
}
