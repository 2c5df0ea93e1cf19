//! The tree of cgroups of version 2: where they are, and who waits for disks.

use iopace_daemon::{mount_table, printable};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Directories that are looked at for a unit: more than a machine has cgroups.
const LOOKED_MAX: usize = 20_000;

/// A unit is at most so deep in the tree: slices within slices.
const DEPTH_MAX: usize = 12;

/// A cgroup as it is asked for; it need not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CgroupName {
    /// Below the root.
    Path(PathBuf),
    /// A unit of systemd, wherever it is.
    Unit(String),
}

impl CgroupName {
    /// Understands a word.
    ///
    /// # Errors
    /// What would be right.
    pub(super) fn parse(word: &str, root: &Path) -> Result<CgroupName, String> {
        let is_unit = [".service", ".scope", ".slice"].iter().any(|kind| word.ends_with(kind));
        if is_unit && !word.contains('/') {
            return Ok(CgroupName::Unit(word.to_owned()));
        }
        let path = Path::new(word);
        let below = path.strip_prefix(root).or_else(|_| path.strip_prefix("/"));
        let below = below.ok().filter(|below| {
            let mut parts = below.components();
            parts.clone().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
        });
        below.map(|below| CgroupName::Path(below.to_owned())).ok_or_else(|| {
            format!(
                "'{}' is neither a unit, as restic.service, nor a path of a cgroup, as \
                 /system.slice/restic.service",
                printable::name(word)
            )
        })
    }
}

impl fmt::Display for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            CgroupName::Path(path) => format!("/{}", path.display()),
            CgroupName::Unit(unit) => unit.clone(),
        };
        f.write_str(&printable::name(&text))
    }
}

/// The tree. Paths are below its root.
#[derive(Debug)]
pub(super) struct CgroupTree {
    root: PathBuf,
}

impl CgroupTree {
    /// That of this machine.
    ///
    /// # Errors
    /// What is missing, with what to do.
    pub(super) fn find() -> Result<CgroupTree, String> {
        let table =
            mount_table::read().map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
        let found = table.into_iter().find(|entry| entry.fs_type == "cgroup2");
        let root = found.map(|entry| entry.mountpoint);
        let file = |root: &PathBuf| fs::read_to_string(root.join("cgroup.controllers"));
        let listed = root.as_ref().and_then(|root| file(root).ok()).unwrap_or_default();
        let root = root.filter(|_| listed.split_whitespace().any(|word| word == "io"));
        let root = root.ok_or(
            "there is no cgroup version 2 with the controller io here: start the kernel with \
             systemd.unified_cgroup_hierarchy=1, without cgroup v1. In a mount of iopace, 'iopace \
             nice' needs none",
        )?;
        match fs::read_to_string("/proc/pressure/io") {
            Ok(_) => Ok(CgroupTree { root }),
            Err(error) => Err(format!(
                "the kernel does not say who waits for disks (/proc/pressure/io: {error}): start \
                 it with psi=1"
            )),
        }
    }

    #[cfg(test)]
    pub(super) fn at(root: &Path) -> CgroupTree {
        CgroupTree { root: root.to_owned() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Its directory.
    pub(super) fn dir(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// Where a cgroup is, if it is there.
    pub(super) fn locate(&self, name: &CgroupName) -> Option<PathBuf> {
        let path = match name {
            CgroupName::Path(path) => path.clone(),
            CgroupName::Unit(unit) => {
                let mut left = LOOKED_MAX;
                self.search(Path::new(""), unit, DEPTH_MAX, &mut left)?
            }
        };
        // Not a link: nothing but directories of the kernel is meant.
        fs::symlink_metadata(self.dir(&path)).is_ok_and(|found| found.is_dir()).then_some(path)
    }

    /// Looks in cgroups of root only: in one that was handed over its user makes others, of any
    /// name.
    fn search(&self, at: &Path, unit: &str, depth: usize, left: &mut usize) -> Option<PathBuf> {
        let owner = |path: &Path| fs::symlink_metadata(path).map(|found| found.uid()).ok();
        if owner(&self.dir(at)) != owner(&self.root) {
            return None;
        }
        let children = self.children(at);
        if children.iter().any(|child| child.file_name().is_some_and(|name| name == unit)) {
            return Some(at.join(unit));
        }
        *left = left.checked_sub(children.len())?;
        let below = depth.checked_sub(1)?;
        children.iter().find_map(|child| self.search(child, unit, below, left))
    }

    fn children(&self, at: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir(at)).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut children: Vec<PathBuf> = dirs.map(|entry| at.join(entry.file_name())).collect();
        children.sort();
        children
    }

    /// The largest cgroups in which none of these is.
    pub(super) fn beside(&self, these: &[PathBuf]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![PathBuf::new()];
        while let Some(at) = open.pop() {
            for child in self.children(&at) {
                if these.iter().any(|one| child.starts_with(one)) {
                    continue;
                }
                let is_above = these.iter().any(|one| one.starts_with(&child));
                if is_above { open.push(child) } else { found.push(child) }
            }
        }
        found
    }

    /// How long some task of a cgroup has waited for disks since it was made, in µs.
    pub(super) fn waited_us(&self, path: &Path) -> Option<u64> {
        let text = fs::read_to_string(self.dir(path).join("io.pressure")).ok()?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
    }

    /// What a cgroup has read and written, in bytes.
    pub(super) fn moved(&self, path: &Path) -> [u64; 2] {
        let text = fs::read_to_string(self.dir(path).join("io.stat")).unwrap_or_default();
        let sum = |key: &str| {
            let words = text.split_whitespace().filter_map(|word| word.strip_prefix(key));
            words.filter_map(|number| number.parse::<u64>().ok()).fold(0, u64::saturating_add)
        };
        [sum("rbytes="), sum("wbytes=")]
    }
}

/// How long others have waited, from look to look.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    totals: BTreeMap<PathBuf, u64>,
}

impl Waiting {
    /// How long he has waited since the last look who has waited longest of these, in µs; `None` if
    /// there was no look at any of them before.
    pub(super) fn look(&mut self, tree: &CgroupTree, these: &[PathBuf]) -> Option<u64> {
        let totals = these.iter().filter_map(|path| Some((path.clone(), tree.waited_us(path)?)));
        let before = std::mem::replace(&mut self.totals, totals.collect());
        let since = |(path, now): (&PathBuf, &u64)| Some(now.saturating_sub(*before.get(path)?));
        self.totals.iter().filter_map(since).max()
    }
}
