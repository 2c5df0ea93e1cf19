//! What a client of the loopback port has to know.

use crate::runtime_files::{Distrust, open_named};
use crate::start_error::StartError;
use rustix::fs::{Mode, OFlags};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Random bytes in a token that is made: nobody guesses 256 bits.
const RANDOM_BYTES: usize = 32;

/// Least length of a token that somebody else has made: 96 bits at six a character.
const LEN_MIN: usize = 16;

/// Longest token: what fits well into a header.
const LEN_MAX: usize = 256;

/// The port that a token opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenOf {
    /// The whole API.
    Api,
    /// The metrics alone: the group of the file may read it, as Prometheus is a user of its own.
    Metrics,
}

impl TokenOf {
    /// Bits of the file's mode by which too many know the token.
    fn forbidden_mode(self) -> u32 {
        match self {
            TokenOf::Api => 0o077,
            TokenOf::Metrics => 0o037,
        }
    }
}

/// The option that opens the port; that of its file has `-token-file` behind it.
impl fmt::Display for TokenOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenOf::Api => "http",
            TokenOf::Metrics => "metrics",
        })
    }
}

/// A secret. It is not shown by accident.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// The token in a file, which nobody else may read; made, for its owner alone, if there is no
    /// file.
    ///
    /// # Errors
    /// The path with what is wrong and what to do.
    pub(super) fn read_or_make(path: &Path, of: TokenOf) -> Result<Token, StartError> {
        // A daemon of root takes nobody else's either: who put it there knows it.
        match Token::read(path, of, false) {
            Err(Problem::System(error)) if error.kind() == io::ErrorKind::NotFound => {
                Token::make(path).map_err(|error| Problem::System(error).of(path, of))
            }
            read => read.map_err(|problem| problem.of(path, of)),
        }
    }

    /// The token of the API in a file.
    ///
    /// # Errors
    /// The path with what is wrong and what to do.
    pub fn find(path: &Path) -> Result<Token, StartError> {
        let is_root = rustix::process::geteuid().is_root();
        let of = TokenOf::Api;
        Token::read(path, of, is_root).map_err(|problem| problem.of(path, of))
    }

    /// `of_anybody`: whoever the file belongs to.
    fn read(path: &Path, of: TokenOf, of_anybody: bool) -> Result<Token, Problem> {
        let file = open_named(path).map_err(|reason| match reason {
            Distrust::Kind(..) => Problem::Open,
            other => Problem::System(other.into_io()),
        })?;
        let found = file.metadata().map_err(Problem::System)?;
        let own = rustix::process::geteuid().as_raw();
        if found.mode() & of.forbidden_mode() != 0 {
            return Err(Problem::Open);
        }
        if found.uid() != own && !of_anybody {
            return Err(Problem::Foreign);
        }
        let mut text = String::new();
        let most = LEN_MAX as u64 + 2;
        file.take(most).read_to_string(&mut text).map_err(|_| Problem::Malformed)?;
        let text = text.trim_end();
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if !(LEN_MIN..=LEN_MAX).contains(&text.len()) || !text.bytes().all(legal) {
            return Err(Problem::Malformed);
        }
        Ok(Token(text.into()))
    }

    fn make(path: &Path) -> io::Result<Token> {
        let mut random = [0; RANDOM_BYTES];
        let filled_bytes = getrandom(&mut random, GetRandomFlags::empty())?;
        if filled_bytes != RANDOM_BYTES {
            return Err(io::Error::other("the kernel has too little randomness"));
        }
        let mut text = String::new();
        for byte in random {
            let _ = write!(text, "{byte:02x}");
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(file).write_all(format!("{text}\n").as_bytes());
        written.inspect_err(|_| drop(fs::remove_file(path)))?;
        Ok(Token(text))
    }

    /// Whether a client has said it. How long that takes tells nothing but its length.
    pub(super) fn is(&self, said: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(said).into()
    }

    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

/// What is wrong with the file of a token.
#[derive(Debug)]
enum Problem {
    System(io::Error),
    Open,
    Foreign,
    Malformed,
}

impl Problem {
    fn of(self, path: &Path, of: TokenOf) -> StartError {
        let path = path.display();
        StartError::Setting(match self {
            Problem::System(error) => format!(
                "the token file {path} cannot be used: {error}; name another one with \
                 --{of}-token-file"
            ),
            Problem::Open => format!(
                "{path} is not a file that only its owner{} can read, so others may know the \
                 token: remove it and a new one is made, or say 'chmod {:o} {path}'",
                if of == TokenOf::Metrics { " and its group" } else { "" },
                0o677 & !of.forbidden_mode(),
            ),
            Problem::Foreign => format!(
                "{path} belongs to another user, who knows the token: remove it, or name another \
                 file with --{of}-token-file"
            ),
            Problem::Malformed => format!(
                "{path} has no token: that is {LEN_MIN} to {LEN_MAX} letters, digits or -._~ on \
                 one line; remove the file and a new one is made"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        assert!(Token::find(&path).is_err(), "there is none");
        let made = Token::read_or_make(&path, TokenOf::Api).expect("made");
        let mode = fs::metadata(&path).expect("there").mode();
        assert_eq!((mode & 0o777, made.secret().len()), (0o600, 2 * RANDOM_BYTES));
        let read = Token::read_or_make(&path, TokenOf::Metrics).expect("read");
        assert!(read.is(made.secret().as_bytes()) && !read.is(b"") && !read.is(&[b'0'; 64]));
        let other = folder.path().join("other");
        let other = Token::read_or_make(&other, TokenOf::Metrics).expect("made");
        assert_ne!(other.secret(), made.secret());
        assert_eq!(format!("{made:?}"), "Token(..)");
    }

    #[test]
    fn a_file_that_others_can_read_or_that_has_no_token_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let refused = |right: &str| {
            let error = Token::read_or_make(&path, TokenOf::Api).expect_err(right).to_string();
            assert!(error.contains(right) && error.contains("token"), "{right}: {error}");
        };
        let set = |text: &str, mode: u32| {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        };
        set("0123456789abcdef\n", 0o640);
        refused("chmod 600");
        Token::read_or_make(&path, TokenOf::Metrics).expect("its group may scrape");
        for mode in [0o644, 0o660] {
            set("0123456789abcdef\n", mode);
            let error = Token::read_or_make(&path, TokenOf::Metrics).expect_err("too many know it");
            assert!(error.to_string().contains("chmod 640"), "{error}");
        }
        for wrong in
            ["", "short", "with spaces and all that", &"a".repeat(LEN_MAX + 1), "äöüäöüäöü"]
        {
            set(wrong, 0o600);
            refused("has no token");
        }
        set("0123456789abcdef\n", 0o600);
        let read = Token::read_or_make(&path, TokenOf::Api).expect("fine");
        assert_eq!(read.secret(), "0123456789abcdef");
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        refused("cannot be used");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        refused("is not a file");
    }
}
