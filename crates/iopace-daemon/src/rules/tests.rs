//! What fits, in which order, and what is said about mistakes.

use super::*;
use proptest::prelude::*;

const SOMEBODY: Traits<'static> = Traits {
    comm: "backup.sh",
    program: Some("bash"),
    uid: 1000,
    cgroup: "/user.slice/user-1000.slice/user@1000.service/backup.service/sub",
    vouched: "/user.slice/user-1000.slice/user@1000.service/backup.service/sub",
};

/// The same where the user has made the cgroups below his session himself.
const DELEGATED: Traits<'static> =
    Traits { vouched: "/user.slice/user-1000.slice/user@1000.service", ..SOMEBODY };

fn rules(all: &[&str]) -> Rules {
    let all = all.iter().map(|text| text.parse().expect(text));
    Rules::new(all.collect(), "/rest").expect("right")
}

#[test]
fn a_rule_fits_or_not() {
    let fits = [
        "program=backup.sh:/a",
        "program=bash:/a",
        "program=back*:/a",
        "program=*:/a",
        "user=1000:/a",
        "uid=1000:/a",
        "cgroup=backup.service:/a",
        "cgroup=sub:/a",
        "cgroup=user@*.service:/a",
        "cgroup=/user.slice:/a",
        "cgroup=/user.slice/*/backup.service:/a",
        "cgroup=/user.slice/*:/a",
        "cgroup=*/backup.service:/a",
        "map=cgroup",
    ];
    for text in fits {
        assert_eq!(rules(&[text]).find(SOMEBODY), Some((0, text == "map=cgroup")), "{text}");
    }
    let others = [
        "program=backup:/a",
        "program=sh:/a",
        "user=1001:/a",
        "user=root:/a",
        "cgroup=backup:/a",
        "cgroup=/user:/a",
        "cgroup=/backup.service:/a",
    ];
    assert_eq!(rules(&others).find(SOMEBODY), None);
    let unseen = Traits { program: None, ..SOMEBODY };
    assert_eq!(rules(&["program=bash:/a"]).find(unseen), None);
    let root = Traits { cgroup: "/", vouched: "/", ..SOMEBODY };
    assert_eq!(rules(&["cgroup=/:/a"]).find(root), Some((0, false)));
}

#[test]
fn a_name_that_a_user_chose_fits_no_rule() {
    let session = "/user.slice/user-1000.slice/user@1000.service";
    let fits = [
        "cgroup=user@*.service:/a",
        "cgroup=/user.slice/*:/a",
        &format!("cgroup={session}:/a"),
        // The author of this rule meant the cgroups that the user makes there.
        &format!("cgroup={session}/backup.service:/a"),
        &format!("cgroup={session}/back*:/a"),
        "map=cgroup",
    ];
    for text in fits {
        assert!(rules(&[text]).find(DELEGATED).is_some(), "{text}");
    }
    let others = [
        "cgroup=backup.service:/a",
        "cgroup=sub:/a",
        "cgroup=/user.slice/*/backup.service:/a",
        "cgroup=*/backup.service:/a",
        &format!("cgroup={session}/*.service:/a"),
        "cgroup=/user.slice/user-1000.slice/user@1000.service*/sub:/a",
    ];
    assert_eq!(rules(&others).find(DELEGATED), None);
    // Nothing is vouched for: not even what is spelled out in part.
    let outside = Traits { cgroup: "/../db.service", vouched: "/", ..SOMEBODY };
    assert_eq!(rules(&["cgroup=db.service:/a", "cgroup=*/db.service:/a"]).find(outside), None);
}

#[test]
fn the_first_that_fits_counts() {
    let rules = rules(&["user=7:/a", "program=bash:/b", "program=b*:/c", "map=cgroup:/d"]);
    assert_eq!(rules.find(SOMEBODY), Some((1, false)));
    assert_eq!(rules.all()[1].group(), "/b");
    let other = Traits { program: Some("vi"), comm: "vi", ..SOMEBODY };
    assert_eq!(rules.find(other), Some((3, true)));
    assert_eq!(rules.default_group(), "/rest");
    assert!(rules.need_program() && rules.need_cgroup());
}

#[test]
fn what_costs_is_looked_at_only_for_a_rule() {
    let rules = rules(&["user=7:/a"]);
    assert!(!rules.need_program() && !rules.need_cgroup());
    assert!(!Rules::default().need_cgroup());
}

#[test]
fn colons_stay_with_the_value() {
    let rule: Rule = "cgroup=kubepods-*.slice:cri-containerd:*:/k8s".parse().expect("right");
    assert_eq!(rule.group(), "/k8s");
    assert_eq!(rule.to_string(), "cgroup=kubepods-*.slice:cri-containerd:*:/k8s");
}

/// The path of the group of a client with that name.
fn client_group(rules: &Rules, name: &str) -> Option<String> {
    rules.client_group(name).map(|group| match group {
        ClientGroup::There(path) => path.to_owned(),
        ClientGroup::Own(path) => path,
    })
}

#[test]
fn a_client_pays_by_its_name_and_no_name_leads_elsewhere() {
    let all = ["certificate=web*:/vms", "certificate=db:/db", "map=certificate:/clients"];
    let all: Vec<Rule> = all.iter().map(|text| text.parse().expect(text)).collect();
    assert_eq!(all[0].to_string(), "certificate=web*:/vms");
    assert_eq!(all[2].to_string(), "map=certificate:/clients");
    let rules = Rules::for_clients(all).expect("right");
    assert_eq!(client_group(&rules, "web-1").as_deref(), Some("/vms"));
    assert_eq!(client_group(&rules, "db").as_deref(), Some("/db"));
    assert_eq!(client_group(&rules, "db1").as_deref(), Some("/clients/db1"));
    for name in ["..", ".", "", "a/b", "../db", "/db", "a@b", "a\x1bb", &"x".repeat(256)] {
        assert_eq!(client_group(&rules, name), None, "{name:?}");
    }
    let root = Rules::for_clients(vec!["map=certificate".parse().expect("a rule")]);
    assert_eq!(client_group(&root.expect("right"), "a").as_deref(), Some("/a"));
}

#[test]
fn rules_for_clients_and_for_mounts_are_told_apart() {
    let rule = |text: &str| vec![text.parse::<Rule>().expect(text)];
    for text in ["certificate=a:/a", "map=certificate"] {
        assert!(matches!(Rules::new(rule(text), "/"), Err(RuleError::ForClients(_))), "{text}");
    }
    for text in ["program=a:/a", "user=0:/a", "cgroup=a:/a", "map=cgroup"] {
        assert!(matches!(Rules::for_clients(rule(text)), Err(RuleError::ForMounts(_))), "{text}");
    }
}

#[test]
fn a_mistake_is_explained() {
    let cases = [
        ("rsync", "right is WHO=VALUE:GROUP"),
        ("prog=rsync:/b", "'cgroup', 'certificate' or 'map', not 'prog'"),
        ("program=:/b", "as program=rsync"),
        ("program=rsync", "names no group"),
        ("program=rsync:b", "names no group: did you mean 'program=rsync:/b'?"),
        ("user=root:b/c", "did you mean 'user=root:/b/c'?"),
        ("map=cgroup:units", "did you mean 'map=cgroup:/units'?"),
        ("user=no-such-user:/b", "no user 'no-such-user' here"),
        ("user=-1:/b", "no user '-1'"),
        ("map=user:/b", "right is map=cgroup"),
        ("program=rsync:/a//b", "a name is empty"),
        ("cgroup=x:/a@b", "contains '@'"),
    ];
    for (text, told) in cases {
        let error = text.parse::<Rule>().expect_err(text).to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
    let rule: Rule = "user=0:/b".parse().expect("right");
    assert_eq!(Rules::new(vec![rule; RULES_MAX + 1], "/"), Err(RuleError::TooMany));
    assert!(matches!(Rules::new(Vec::new(), "x"), Err(RuleError::Group(_))));
}

proptest! {
    #[test]
    fn what_is_shown_is_read_again(text in "\\PC{0,40}") {
        if let Ok(rule) = text.parse::<Rule>() {
            prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
        }
    }

    #[test]
    fn rules_are_shown_as_they_are_written(
        word in "program|cgroup",
        value in "[a-z*/.]{1,9}(:[a-z*]{1,4})?",
        group in "(/[a-z]{1,5}){1,3}",
    ) {
        let text = format!("{word}={value}:{group}");
        prop_assert_eq!(text.parse::<Rule>().expect("right").to_string(), text);
    }
}
