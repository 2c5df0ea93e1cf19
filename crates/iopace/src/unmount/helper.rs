//! `umount.fuse.iopace`: how umount(8), and by it systemd, ends a mount.
//!
//! umount(8) starts `/sbin/umount.fuse.iopace MOUNTPOINT [-fl]`, which is a link to this binary,
//! and waits for it. So `umount` returns when everything is durable and the daemon has let go of
//! the directory, and whatever is ended after it, as the file system below, is ended after that.

use crate::cli::UnmountArgs;
use crate::output::{Failure, note};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit statuses of umount(8): wrongly asked, and not unmounted.
const USAGE: u8 = 1;
const FAILED: u8 = 32;

/// Names of the link.
const NAMES: [&str; 2] = ["umount.iopace", "umount.fuse.iopace"];

/// Whether the binary was started by one of these names.
pub fn is_asked(program: Option<&OsString>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// Does what umount(8) asks for, and ends with a status of its own.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = parse(words).map_err(Failure::usage).and_then(|args| {
        // umount(8) says nothing of what went well.
        crate::mount::detach::quiet()
            .map_err(|error| Failure::new(format!("/dev/null: {error}")))?;
        super::run(&args)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            note(format_args!("umount.iopace: {}", failure.message));
            ExitCode::from(if failure.status == 2 { USAGE } else { FAILED })
        }
    }
}

/// Understands the words that follow the name, as in umount(8), "External helpers".
///
/// # Errors
/// The defect of the words.
fn parse(words: impl IntoIterator<Item = OsString>) -> Result<UnmountArgs, String> {
    let mut words = words.into_iter();
    let mut places: Vec<PathBuf> = Vec::new();
    let (mut lazy, mut force) = (false, false);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-t" | "-N") => drop(words.next()),
            // Letters may stand together, as in `-fl`.
            Some(option) if option.starts_with('-') => {
                for letter in option[1..].chars() {
                    match letter {
                        'l' => lazy = true,
                        'f' => force = true,
                        'n' | 'r' | 'v' => {}
                        _ => {
                            return Err(format!(
                                "'{option}' is not known; see umount(8), \"External helpers\""
                            ));
                        }
                    }
                }
            }
            _ => places.push(word.into()),
        }
    }
    match <[PathBuf; 1]>::try_from(places) {
        // What is cut is out of sight at once as well.
        Ok([dir]) => {
            Ok(UnmountArgs { dir: Some(dir), all: false, lazy: lazy && !force, force, wait: None })
        }
        Err(_) => Err("one directory is needed, as in 'umount /srv'".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<(Option<PathBuf>, bool, bool), String> {
        let args = parse(text.split_whitespace().map(OsString::from))?;
        Ok((args.dir, args.lazy, args.force))
    }

    #[test]
    fn words_of_umount_become_those_of_iopace() {
        let dir = || Some(PathBuf::from("/srv"));
        assert_eq!(words("/srv -n -v -t fuse.iopace"), Ok((dir(), false, false)));
        assert_eq!(words("/srv -l -N 4711"), Ok((dir(), true, false)));
        assert_eq!(words("-fr /srv"), Ok((dir(), false, true)));
        assert_eq!(words("-f /srv -l"), Ok((dir(), false, true)));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (text, named) in [("/srv -x", "'-x'"), ("/srv /mnt", "one directory"), ("", "one dir")]
        {
            let error = words(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
