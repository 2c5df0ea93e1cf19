//! The `[[mount.rule]]` tables: who pays for which program; and the `[[rule]]` tables: who pays for
//! which NBD client.
//!
//! ```toml
//! [[mount.rule]]
//! program = "rsync"
//! group = "/backup"
//! ```

use super::{Mistake, groups};
use iopace_daemon::{Rule, RuleError, Rules};
use iopace_groups::tree::Tree;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// A rule: one of the first five, and the group; `map` needs none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RuleTable {
    program: Option<Spanned<String>>,
    user: Option<Spanned<User>>,
    cgroup: Option<Spanned<String>>,
    certificate: Option<Spanned<String>>,
    map: Option<Spanned<String>>,
    group: Option<Spanned<String>>,
}

/// A name in quotes, or a number.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a user is a name in quotes, or a number from 0 to 4294967295")]
enum User {
    Number(u32),
    Name(String),
}

/// The rules of a mount in their order. Their groups, and the default, must be in the tree.
pub(super) fn resolve(
    tables: Vec<Spanned<RuleTable>>,
    default: Option<Spanned<String>>,
    tree: &Tree,
) -> Result<Rules, Mistake> {
    let place = tables.last().map_or(0..0, Spanned::span);
    let all = tables.into_iter().map(|table| resolve_rule(table, tree));
    let all = all.collect::<Result<Vec<Rule>, Mistake>>()?;
    let default = default.map(|group| groups::checked(group, tree)).transpose()?;
    let default = default.as_deref().unwrap_or("/");
    Rules::new(all, default).map_err(|error| (place, error.to_string()))
}

/// The rules for NBD clients in their order. Their groups must be in the tree.
pub(super) fn resolve_clients(
    tables: Vec<Spanned<RuleTable>>,
    tree: &Tree,
) -> Result<Vec<Rule>, Mistake> {
    let resolve = |table: Spanned<RuleTable>| {
        let place = table.span();
        let rule = resolve_rule(table, tree)?;
        Rules::for_clients(vec![rule.clone()]).map_err(|error| (place, error.to_string()))?;
        Ok(rule)
    };
    tables.into_iter().map(resolve).collect()
}

fn resolve_rule(table: Spanned<RuleTable>, tree: &Tree) -> Result<Rule, Mistake> {
    let place = table.span();
    let RuleTable { program, user, cgroup, certificate, map, group } = table.into_inner();
    let user = user.map(|user| {
        let text = match user.get_ref() {
            User::Number(number) => number.to_string(),
            User::Name(name) => name.clone(),
        };
        (user.span(), text)
    });
    let plain = |value: Spanned<String>| (value.span(), value.into_inner());
    let who = [
        ("program", program.map(plain)),
        ("user", user),
        ("cgroup", cgroup.map(plain)),
        ("certificate", certificate.map(plain)),
        ("map", map.map(plain)),
    ];
    let mut who = who.into_iter().filter_map(|(word, value)| Some((word, value?)));
    let Some((word, (value_place, value))) = who.next() else {
        let message = "the rule fits nobody: add `program`, `user`, `cgroup` or \
                       `map = \"cgroup\"`, or in [[rule]] `certificate` or `map = \"certificate\"`";
        return Err((place, message.into()));
    };
    if let Some((other, (other_place, _))) = who.next() {
        let message = format!(
            "the rule has `{word}` and `{other}`: a rule has one of them, and the first rule that \
             fits counts"
        );
        return Err((other_place, message));
    }
    let group = group.map(|group| groups::checked(group, tree)).transpose()?;
    Rule::new(word, &value, group.as_deref()).map_err(|error| mistake(&error, value_place, place))
}

fn mistake(error: &RuleError, value: Range<usize>, table: Range<usize>) -> Mistake {
    match error {
        RuleError::NoGroup => (table, "the rule has no `group`: who pays, as \"/backup\"?".into()),
        RuleError::Empty(word, example) => {
            (value, format!("`{word}` is empty: write what it is to fit, as \"{example}\""))
        }
        RuleError::Map(_) => {
            (value, "what can be mapped is \"cgroup\", and in [[rule]] \"certificate\"".into())
        }
        other => (value, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        mount: Mount,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Mount {
        #[serde(default)]
        rule: Vec<Spanned<RuleTable>>,
        group: Option<Spanned<String>>,
    }

    fn parse(text: &str) -> Result<Rules, ConfigError> {
        let fail = |(span, message)| ConfigError::at("iopace.toml", text, span, message);
        let mut tree = Tree::new();
        tree.create_all("/backup").expect("made");
        let file: File = toml::from_str(text)
            .map_err(|error| fail((error.span().unwrap_or(0..0), error.message().to_owned())))?;
        resolve(file.mount.rule, file.mount.group, &tree).map_err(fail)
    }

    #[test]
    fn rules_keep_their_order() {
        let text = r#"
            [mount]
            group = "/backup"
            [[mount.rule]]
            program = "rsync"
            group = "/backup"
            [[mount.rule]]
            user = 1000
            group = "/"
            [[mount.rule]]
            user = "root"
            group = "/backup"
            [[mount.rule]]
            cgroup = "backup*.service"
            group = "/backup"
            [[mount.rule]]
            map = "cgroup"
        "#;
        let rules = parse(text).expect("right");
        let all: Vec<String> = rules.all().iter().map(Rule::to_string).collect();
        let right = [
            "program=rsync:/backup",
            "user=1000:/",
            "user=0:/backup",
            "cgroup=backup*.service:/backup",
            "map=cgroup:/",
        ];
        assert_eq!(all, right);
        assert_eq!(rules.default_group(), "/backup");
    }

    #[test]
    fn a_mistake_has_its_place() {
        let cases = [
            ("group = \"/backup\"", 1, "the rule fits nobody"),
            ("program = \"a\"\nuser = 1\ngroup = \"/\"", 3, "has `program` and `user`"),
            ("program = \"a\"", 1, "the rule has no `group`"),
            ("group = \"/backpu\"\nprogram = \"a\"", 2, "did you mean '/backup'"),
            ("group = \"/\"\nuser = \"nobody-here\"", 3, "there is no user 'nobody-here'"),
            ("group = \"/\"\nuser = -1", 3, "a user is a name in quotes, or a number"),
            ("group = \"/\"\nprogram = \"\"", 3, "`program` is empty"),
            ("map = \"user\"", 2, "what can be mapped is \"cgroup\""),
            ("group = \"/\"\nprogramm = \"a\"", 3, "unknown field `programm`"),
        ];
        for (text, line, told) in cases {
            let message = parse(&format!("[[mount.rule]]\n{text}\n")).expect_err(text).to_string();
            assert!(message.contains(told), "{text}: {message}");
            assert!(message.contains(&format!("iopace.toml:{line}")), "{text}: {message}");
        }
    }
}
