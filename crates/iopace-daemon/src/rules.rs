//! Which group pays for which program: rules in order, the first that fits counts.
//!
//! ```text
//! program=rsync:/backup           the name of the program or of its file, * for anything
//! user=1000:/people/anna          the user, by number or name (uid= is the same)
//! cgroup=backup.service:/backup   a cgroup of this name, or one in it: a systemd unit, say
//! cgroup=/machine.slice/*:/vms    a path: what fits, and all below it
//! map=cgroup:/units               the cgroup's own path, as groups below /units
//! certificate=web*:/vms           an NBD client, by the common name in its certificate
//! map=certificate:/clients        the common name, as a group below /clients
//! ```
//!
//! The first of them are for mounts, the last two for NBD clients.
//!
//! A user may have made a cgroup of any name in a place that was handed over to him. A name
//! therefore fits only where root made the cgroup, and so does a path, unless the rule spells out,
//! without a `*`, where in the user's place it is.

pub(crate) mod cgroup;
mod glob;

use crate::limits::RULES_MAX;
use crate::process::user_number;
use glob::matches;
use iopace_groups::tree::{Tree, TreeError};
use std::fmt;
use std::str::FromStr;

/// Who pays, in order; where nothing fits, a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    all: Vec<Rule>,
    default: String,
    cgroup_limits: CgroupLimits,
}

/// Whether groups that `map=cgroup` makes have what the kernel has set for their cgroups: limits,
/// weights and latency targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupLimits {
    /// Where nothing is set for the group here: who has set a limit for a container wants it held.
    #[default]
    Follow,
    /// They have names only.
    Ignore,
}

impl CgroupLimits {
    /// All of them, with their words.
    pub const ALL: [(&'static str, CgroupLimits); 2] =
        [("follow", CgroupLimits::Follow), ("ignore", CgroupLimits::Ignore)];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            CgroupLimits::Follow => "follow",
            CgroupLimits::Ignore => "ignore",
        }
    }
}

/// Who is meant, and the group that pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    test: Test,
    group: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// A pattern for `comm`, or for the base name of the program's file.
    Program(String),
    /// As the kernel says it with each request.
    User(u32),
    /// A pattern: with a slash for a path, otherwise for one name in it.
    Cgroup(String),
    /// Fits everybody.
    Map,
    /// A pattern for the common name of a client.
    Certificate(String),
    /// Fits every client whose common name can be that of a group.
    MapCertificate,
}

/// The group of an NBD client.
pub(crate) enum ClientGroup<'a> {
    /// One that a rule names.
    There(&'a str),
    /// One of the client's own, which may have to be made.
    Own(String),
}

/// Why something is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It does not look like one.
    #[error("'{0}' is no rule: right is WHO=VALUE:GROUP, as program=rsync:/backup")]
    Shape(String),
    /// It begins with another word.
    #[error("a rule is about 'program', 'user', 'cgroup', 'certificate' or 'map', not '{0}'")]
    Word(String),
    /// Nothing to compare with.
    #[error("'{0}' of a rule is empty: write what it is to fit, as {0}={1}")]
    Empty(&'static str, &'static str),
    /// `map` of something else.
    #[error(
        "'map' is about 'cgroup' or 'certificate', not '{0}': right is map=cgroup, \
         map=cgroup:/units or map=certificate:/clients"
    )]
    Map(String),
    /// A rule for NBD clients that a mount is given.
    #[error("'{0}' is a rule for NBD clients ('iopace serve', [[rule]]), not for a mount")]
    ForClients(String),
    /// A rule for a mount that NBD clients are given.
    #[error(
        "'{0}' is a rule for a mount: of NBD clients only the certificate is known, right is \
         certificate=NAME:/group or map=certificate:/clients"
    )]
    ForMounts(String),
    /// No such user.
    #[error("there is no user '{0}' here: name another one, or write the number")]
    User(String),
    /// All but `map` need one.
    #[error("the rule names no group: who pays, as /backup?")]
    NoGroup,
    /// The group is written without its slash.
    #[error("the rule names no group: did you mean '{0}'?")]
    NoSlash(String),
    /// The group's path.
    #[error(transparent)]
    Group(#[from] TreeError),
    /// Too many of them.
    #[error("there may be {RULES_MAX} rules: patterns with * or map=cgroup need fewer")]
    TooMany,
}

impl Rule {
    /// A rule from its parts: `program`, `user` or `uid`, `cgroup`, `certificate` or `map`; the
    /// value; the group.
    ///
    /// # Errors
    /// See [`RuleError`]; the user must exist, the group need not.
    pub fn new(word: &str, value: &str, group: Option<&str>) -> Result<Rule, RuleError> {
        let text = |word, example| match value {
            "" => Err(RuleError::Empty(word, example)),
            value => Ok(value.to_owned()),
        };
        let test = match word {
            "program" => Test::Program(text("program", "rsync")?),
            "user" | "uid" => {
                let name = text("user", "1000")?;
                let number = name.parse().ok().or_else(|| user_number(&name));
                Test::User(number.ok_or(RuleError::User(name))?)
            }
            "cgroup" => Test::Cgroup(text("cgroup", "backup.service")?),
            "certificate" => Test::Certificate(text("certificate", "web")?),
            "map" if value == "cgroup" => Test::Map,
            "map" if value == "certificate" => Test::MapCertificate,
            "map" => return Err(RuleError::Map(value.into())),
            word => return Err(RuleError::Word(word.into())),
        };
        let group = match (group, &test) {
            (Some(group), _) => group,
            (None, Test::Map | Test::MapCertificate) => "/",
            (None, _) => return Err(RuleError::NoGroup),
        };
        Tree::new().create_all(group)?;
        Ok(Rule { test, group: group.into() })
    }

    /// The path of the group that pays, or below which cgroups are mapped.
    pub fn group(&self) -> &str {
        &self.group
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    /// Reads `program=rsync:/backup`. What is before the first `:/` may have colons.
    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let (word, rest) = text.split_once('=').ok_or_else(|| RuleError::Shape(text.into()))?;
        match rest.split_once(":/") {
            Some((value, group)) => Rule::new(word, value, Some(&format!("/{group}"))),
            None => Rule::new(word, rest, None).map_err(|error| match rest.rsplit_once(':') {
                Some((value, group)) if !group.is_empty() => {
                    RuleError::NoSlash(format!("{word}={value}:/{group}"))
                }
                _ => error,
            }),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.test {
            Test::Program(pattern) => write!(f, "program={pattern}")?,
            Test::User(number) => write!(f, "user={number}")?,
            Test::Cgroup(pattern) => write!(f, "cgroup={pattern}")?,
            Test::Map => f.write_str("map=cgroup")?,
            Test::Certificate(pattern) => write!(f, "certificate={pattern}")?,
            Test::MapCertificate => f.write_str("map=certificate")?,
        }
        write!(f, ":{}", self.group)
    }
}

impl Default for Rules {
    /// The root pays for all.
    fn default() -> Rules {
        Rules { all: Vec::new(), default: "/".into(), cgroup_limits: CgroupLimits::default() }
    }
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits<'a> {
    pub(crate) comm: &'a str,
    pub(crate) program: Option<&'a str>,
    pub(crate) uid: u32,
    /// The whole path.
    pub(crate) cgroup: &'a str,
    /// Its part that no user could choose.
    pub(crate) vouched: &'a str,
}

impl Rules {
    /// Rules of a mount in this order, and who pays where none fits.
    ///
    /// # Errors
    /// Too many rules, one for NBD clients, or a default that cannot be a group.
    pub fn new(all: Vec<Rule>, default: &str) -> Result<Rules, RuleError> {
        if let Some(other) = all.iter().find(|rule| rule.is_for_clients()) {
            return Err(RuleError::ForClients(other.to_string()));
        }
        Rules::of(all, default)
    }

    /// Rules for NBD clients in this order; where none fits, the group of the export pays.
    ///
    /// # Errors
    /// Too many rules, or one for a mount.
    pub fn for_clients(all: Vec<Rule>) -> Result<Rules, RuleError> {
        if let Some(other) = all.iter().find(|rule| !rule.is_for_clients()) {
            return Err(RuleError::ForMounts(other.to_string()));
        }
        Rules::of(all, "/")
    }

    fn of(all: Vec<Rule>, default: &str) -> Result<Rules, RuleError> {
        Tree::new().create_all(default)?;
        if all.len() > RULES_MAX {
            return Err(RuleError::TooMany);
        }
        Ok(Rules { all, default: default.into(), cgroup_limits: CgroupLimits::default() })
    }

    /// The same rules; whether limits of cgroups count is said.
    pub fn with_cgroup_limits(self, cgroup_limits: CgroupLimits) -> Rules {
        Rules { cgroup_limits, ..self }
    }

    /// The groups below which groups have the limits of the cgroups that they stand for.
    pub fn limited_by_cgroups(&self) -> impl Iterator<Item = &str> {
        let follows = self.cgroup_limits == CgroupLimits::Follow;
        let maps = self.all.iter().filter(move |rule| follows && rule.test == Test::Map);
        maps.map(|rule| &*rule.group)
    }

    /// Whether limits of cgroups count.
    pub fn cgroup_limits(&self) -> CgroupLimits {
        self.cgroup_limits
    }

    /// The rules, in order.
    pub fn all(&self) -> &[Rule] {
        &self.all
    }

    /// Who pays where no rule fits.
    pub fn default_group(&self) -> &str {
        &self.default
    }

    /// Whether somebody looks at the program's file.
    pub(crate) fn need_program(&self) -> bool {
        self.all.iter().any(|rule| matches!(rule.test, Test::Program(_)))
    }

    /// Whether somebody looks at the cgroup.
    pub(crate) fn need_cgroup(&self) -> bool {
        self.all.iter().any(|rule| matches!(rule.test, Test::Cgroup(_) | Test::Map))
    }

    /// The place of the first rule that fits, and whether it maps the cgroup below its group.
    pub(crate) fn find(&self, traits: Traits<'_>) -> Option<(usize, bool)> {
        let place = self.all.iter().position(|rule| rule.fits(traits))?;
        Some((place, self.all[place].test == Test::Map))
    }

    /// The group of an NBD client with this common name, if a rule fits. No name leads out of the
    /// group below which it is mapped.
    pub(crate) fn client_group(&self, name: &str) -> Option<ClientGroup<'_>> {
        self.all.iter().find_map(|rule| match &rule.test {
            Test::Certificate(pattern) if matches(pattern, name) => {
                Some(ClientGroup::There(&rule.group))
            }
            Test::MapCertificate if !name.contains('/') => {
                let path = format!("{}/{name}", rule.group.trim_end_matches('/'));
                Tree::new().create_all(&path).ok().map(|_| ClientGroup::Own(path))
            }
            _ => None,
        })
    }

    /// The place of the first rule that maps cgroups.
    pub(crate) fn find_map(&self) -> Option<usize> {
        self.all.iter().position(|rule| rule.test == Test::Map)
    }

    /// The place of the first rule for this user, whatever else may be so.
    pub(crate) fn find_user(&self, uid: u32) -> Option<usize> {
        self.all.iter().position(|rule| rule.test == Test::User(uid))
    }
}

impl Rule {
    fn is_for_clients(&self) -> bool {
        matches!(self.test, Test::Certificate(_) | Test::MapCertificate)
    }

    fn fits(&self, traits: Traits<'_>) -> bool {
        match &self.test {
            Test::Program(pattern) => {
                matches(pattern, traits.comm)
                    || traits.program.is_some_and(|program| matches(pattern, program))
            }
            Test::User(number) => *number == traits.uid,
            Test::Cgroup(pattern) if pattern.contains('/') => {
                let ends = traits.cgroup.match_indices('/').map(|(at, _)| at).skip(1);
                let mut above = ends.chain([traits.cgroup.len()]).map(|end| &traits.cgroup[..end]);
                let len_max = match spells_out(pattern, traits.vouched) {
                    true => traits.cgroup.len(),
                    false => traits.vouched.len(),
                };
                above.any(|path| path.len() <= len_max && matches(pattern, path))
            }
            Test::Cgroup(pattern) => traits.vouched.split('/').any(|name| matches(pattern, name)),
            Test::Map => true,
            Test::Certificate(_) | Test::MapCertificate => false,
        }
    }
}

/// Whether a pattern names something below `vouched` before its first `*`: who wrote it knows whose
/// place that is.
fn spells_out(pattern: &str, vouched: &str) -> bool {
    let literal = pattern.split('*').next().unwrap_or_default();
    let below = literal.strip_prefix(vouched.trim_end_matches('/'));
    vouched.len() > 1 && below.is_some_and(|below| below.len() > 1 && below.starts_with('/'))
}

/// The names of the groups for a cgroup, below a group that is itself `depth` deep.
pub(crate) fn mapped(cgroup: &str, depth: usize) -> Vec<String> {
    // One is kept for a class.
    let room = iopace_groups::limits::GROUP_DEPTH_MAX.saturating_sub(depth + 1);
    cgroup::names(cgroup, room)
}

#[cfg(test)]
mod tests;
