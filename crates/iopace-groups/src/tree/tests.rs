use super::*;
use crate::limits::GROUP_NAME_BYTES_MAX;

fn tree(paths: &[&str]) -> Tree {
    let mut tree = Tree::new();
    for path in paths {
        tree.create_all(path).expect("legal");
    }
    tree
}

fn message<T: core::fmt::Debug>(result: Result<T, TreeError>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn a_new_tree_is_the_root_alone() {
    let tree = Tree::new();
    assert_eq!(tree.find("/"), Ok(GroupId::ROOT));
    assert_eq!((tree.count(), tree.path(GroupId::ROOT).as_str()), (1, "/"));
    assert_eq!(tree.parent(GroupId::ROOT), None);
    assert_eq!(tree.children(GroupId::ROOT).count(), 0);
}

#[test]
fn groups_come_depth_first_in_the_order_of_their_names() {
    let tree = tree(&["/vms/web", "/b", "/vms/db/log", "/a"]);
    let paths: Vec<String> = tree.iter().map(|id| tree.path(id)).collect();
    assert_eq!(paths, ["/", "/a", "/b", "/vms", "/vms/db", "/vms/db/log", "/vms/web"]);
    let vms = tree.find("/vms").expect("there");
    let children: Vec<String> = tree.children(vms).map(|id| tree.path(id)).collect();
    assert_eq!(children, ["/vms/db", "/vms/web"]);
    assert_eq!(tree.count(), 7);
    let log = tree.find("/vms/db/log").expect("there");
    let above: Vec<String> = tree.ancestors(log).map(|id| tree.path(id)).collect();
    assert_eq!(above, ["/vms/db", "/vms", "/"]);
}

#[test]
fn a_path_that_is_not_there_says_what_is_nearby() {
    let mut tree = tree(&["/vms/web", "/vms/db"]);
    assert_eq!(message(tree.find("/vms/wbe/x")), "no group '/vms/wbe/x'; groups in /vms: db, web");
    assert_eq!(message(tree.create("/a/b")), "no group '/a'; groups in /: vms");
    assert_eq!(message(tree.create("/vms/web")), "there is a group /vms/web already");
    assert_eq!(message(tree.create("/")), "there is a group / already");
    for n in 0..14 {
        tree.create(&format!("/vms/db/{n:02}")).expect("legal");
    }
    let error = message(tree.find("/vms/db/x"));
    assert!(
        error.ends_with(
            "groups in /vms/db: 00, 01, 02, 03, 04, 05, 06, 07, 08, 09, 10, 11 \
                             and 2 more"
        ),
        "{error}"
    );
}

#[test]
fn illegal_paths_are_refused_with_the_reason() {
    let long = format!("/{}", "x".repeat(GROUP_NAME_BYTES_MAX + 1));
    let bad = ["", "vms", "//", "/vms/", "/a//b", "/.", "/a/..", "/a@b", "/a\nb", "/\u{85}", &long];
    for path in bad {
        let error = Tree::new().create_all(path).expect_err("refused");
        assert!(matches!(error, TreeError::BadPath { .. }), "{path:?}: {error}");
        assert!(!error.to_string().contains('\n'), "{path:?}: {error}");
    }
    let longest = format!("/{}", "x".repeat(GROUP_NAME_BYTES_MAX));
    Tree::new().create(&longest).expect("legal");
    Tree::new().create("/a b/ü.slice").expect_err("no parent");
    Tree::new().create_all("/a b/ü.slice").expect("legal");
}

#[test]
fn a_refused_path_makes_no_group_on_the_way() {
    let mut tree = tree(&["/a"]);
    let before = tree.clone();
    let deep = "/a".repeat(GROUP_DEPTH_MAX + 1);
    assert!(matches!(tree.create_all(&deep), Err(TreeError::TooDeep { .. })));
    assert_eq!(tree, before);
    tree.create_all(&deep[2..]).expect("legal");
    assert_eq!(tree.count(), GROUP_DEPTH_MAX + 1);
}

#[test]
fn a_full_tree_takes_no_more_until_an_id_is_free() {
    let mut tree = Tree::new();
    for n in 1..GROUPS_MAX {
        tree.create(&format!("/{n}")).expect("room");
    }
    let five = tree.find("/5").expect("there");
    tree.remove(five).expect("empty");
    let before = tree.clone();
    assert_eq!(tree.create_all("/x"), Err(TreeError::TooMany { path: "/x".into(), dying: 1 }));
    assert_eq!(tree, before);
    assert_eq!(tree.reap(|_| true), [five]);
    assert!(tree.create_all("/x/y").is_err(), "two do not fit");
    assert_eq!(tree.create("/x"), Ok(five));
}

#[test]
fn only_an_empty_group_without_members_is_removed() {
    let mut tree = tree(&["/vms/web", "/vms/db"]);
    let vms = tree.find("/vms").expect("there");
    let web = tree.find("/vms/web").expect("there");
    assert_eq!(message(tree.remove(GroupId::ROOT)), "the root group / cannot be removed");
    assert_eq!(
        message(tree.remove(vms)),
        "/vms is not removed: remove the groups in it first: db, web"
    );
    tree.add_member(web);
    assert_eq!(tree.members(web), 1);
    let error = message(tree.remove(web));
    assert!(error.starts_with("/vms/web is not removed: 1 exports or connections"), "{error}");
    tree.remove_member(web);
    tree.remove(web).expect("empty");
    assert!(tree.find("/vms/web").is_err());
}

#[test]
fn an_id_is_not_reused_while_a_device_has_requests_of_it() {
    let mut tree = tree(&["/a", "/b"]);
    let a = tree.find("/a").expect("there");
    tree.remove(a).expect("empty");
    assert_eq!((tree.dying(), tree.count()), (&[a][..], 2));
    let again = tree.create("/a").expect("the name is free at once");
    assert_ne!(again, a);
    assert_eq!(tree.path(a), "/a", "a removed group is still known by its name");
    assert_eq!(tree.reap(|_| false), []);
    assert_eq!(tree.reap(|id| id == a), [a]);
    assert_eq!(tree.reap(|_| true), []);
    assert_eq!(tree.create("/c"), Ok(a), "free ids are taken first");
}

#[test]
fn a_removed_parent_is_kept_while_a_removed_child_is() {
    let mut tree = tree(&["/a/b"]);
    let (a, b) = (tree.find("/a").expect("there"), tree.find("/a/b").expect("there"));
    tree.remove(b).expect("empty");
    tree.remove(a).expect("empty");
    assert_eq!(tree.reap(|id| id == a), []);
    assert_eq!((tree.path(b).as_str(), tree.parent(b)), ("/a/b", Some(a)));
    assert_eq!(tree.reap(|_| true), [b, a], "the child first");
    assert_eq!(tree.create("/x"), Ok(a), "the smallest id first");
}

#[test]
#[should_panic(expected = "no group has the id 7")]
fn an_id_that_is_none_is_an_error_of_the_program() {
    Tree::new().path(GroupId(7));
}

#[test]
#[should_panic(expected = "was removed")]
fn nobody_joins_a_removed_group() {
    let mut tree = tree(&["/a"]);
    let a = tree.find("/a").expect("there");
    tree.remove(a).expect("empty");
    tree.add_member(a);
}
