//! A service of systemd, as its files say it, and the drop-in that makes it gentle.
//!
//! Without goals the drop-in sets the class and the weight, and systemd holds them. With goals the
//! programs of the service are started by `iopace nice`, which is put in front of each of its
//! commands: it has to be there for as long as they run, and passes signals and statuses on.

use std::path::Path;

/// Kinds of units, of which services alone start programs.
const OTHER_KINDS: [&str; 10] = [
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
];

/// Longest name of a unit.
const NAME_BYTES_MAX: usize = 255;

/// First line of a drop-in of ours.
pub(super) const MARK: &str = "# Made by `iopace nice --install`: ";

/// A line of it: the directory of the drop-in was made for it.
const DIRECTORY_MARK: &str = "# Its directory was made for it.";

/// What `--install` was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A service, as in `restic.service`.
    Service(String),
    /// A program, by its name.
    Program(String),
}

impl Subject {
    /// Tells a service from a program.
    ///
    /// # Errors
    /// It is neither.
    pub(super) fn of(name: &str) -> Result<Subject, String> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
        if let Some(kind) = OTHER_KINDS.iter().find(|kind| name.ends_with(**kind)) {
            let service = name.trim_end_matches(kind);
            return Err(format!(
                "'{name}' starts no program by itself: name a service, as '{service}.service'"
            ));
        }
        match name.strip_suffix(".service") {
            Some("") => Err(format!("'{name}' is no name of a service")),
            Some(_) if name.len() > NAME_BYTES_MAX || !name.chars().all(is_fit) => {
                Err(format!("'{name}' is no name of a service"))
            }
            Some(_) => Ok(Subject::Service(name.into())),
            None if name.is_empty() || name.contains('/') || name.chars().any(char::is_control) => {
                Err(format!("'{name}' is no name of a program: as ps(1) shows it, without a path"))
            }
            // A rule takes them for any letters.
            None if name.contains(['*', '?', '[']) => {
                Err(format!("'{name}' would be many programs: name one"))
            }
            None => Ok(Subject::Program(name.into())),
        }
    }
}

/// The section `Service` of a unit, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    kind: String,
    commands: Vec<String>,
}

impl Service {
    /// Reads one of its files, the first one first.
    pub(super) fn read(&mut self, text: &str) {
        let mut is_service = false;
        for line in logical_lines(text) {
            if line.starts_with('[') {
                is_service = line == "[Service]";
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| is_service) else { continue };
            match (key.trim_end(), value.trim_start()) {
                ("ExecStart", "") => self.commands.clear(),
                ("ExecStart", value) => self.commands.push(value.into()),
                ("Type", value) => self.kind = value.into(),
                _ => {}
            }
        }
    }

    /// Whether a file of it says what is started.
    pub(super) fn is_started_by(text: &str) -> bool {
        let mut service = Service { commands: vec![String::new()], ..Service::default() };
        service.read(text);
        service.commands != [""]
    }

    /// Its commands with another in front: what systemd is told before a program stays before it.
    ///
    /// # Errors
    /// Nothing can be put in front of a command of it.
    fn behind(&self, front: &str) -> Result<Vec<String>, String> {
        if self.commands.is_empty() {
            return Err("it has no ExecStart".into());
        }
        if self.kind == "forking" {
            return Err(
                "its type is 'forking', so that what is started is not what runs: without \
                        goals it can be installed, and 'iopace nice --attach' takes its process"
                    .into(),
            );
        }
        let put = |command: &String| {
            if command.split_whitespace().any(|word| word == ";") {
                return Err(format!("a line has several programs: give each a line: {command}"));
            }
            let program = command.trim_start_matches(['-', ':', '+', '!', '@', '|']);
            let before = &command[..command.len() - program.len()];
            match before.contains('@') {
                true => Err(format!("its program is told another name ('@') in: {command}")),
                false => Ok(format!("ExecStart={before}{front} -- {program}")),
            }
        };
        self.commands.iter().map(put).collect()
    }

    /// The drop-in. `asked` is the command line that asks for it, `front` what is put in front of
    /// its commands, if it has goals.
    ///
    /// # Errors
    /// As of [`Service::behind`].
    pub(super) fn drop_in(
        &self,
        asked: &str,
        front: Option<&str>,
        makes_directory: bool,
    ) -> Result<String, String> {
        let mut lines = vec![format!("{MARK}{asked}")];
        if makes_directory {
            lines.push(DIRECTORY_MARK.into());
        }
        lines.push("[Service]".into());
        match front {
            None => {
                lines.extend(["IOSchedulingClass=idle", "IOWeight=1"].map(String::from));
            }
            Some(front) => {
                lines.push("ExecStart=".into());
                lines.extend(self.behind(front)?);
                if self.kind.starts_with("notify") {
                    // It is a child of the main process now.
                    lines.push("NotifyAccess=all".into());
                }
            }
        }
        Ok(lines.join("\n") + "\n")
    }
}

/// Whether a drop-in of ours says that its directory goes with it.
pub(super) fn made_directory(text: &str) -> bool {
    text.lines().nth(1) == Some(DIRECTORY_MARK)
}

/// Lines without those of comments; one that ends with a backslash goes on in the next.
fn logical_lines(text: &str) -> Vec<String> {
    let (mut all, mut begun) = (Vec::new(), None::<String>);
    for line in text.lines() {
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let whole = begun.take().map_or_else(|| line.trim_start().to_owned(), |up| up + line);
        match whole.strip_suffix('\\') {
            Some(part) => begun = Some(format!("{part} ")),
            None => all.push(whole.trim_end().to_owned()),
        }
    }
    all.extend(begun);
    all
}

/// A word as a command of a unit has it: in quotes where it has more than letters and the like.
pub(super) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+,@".contains(c);
    let text = text.replace('%', "%%").replace('$', "$$");
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text,
        false => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// The path of a program as the first word of a command: there nothing is replaced but `%`.
///
/// # Errors
/// systemd would take it for something else.
pub(super) fn program(path: &Path) -> Result<String, String> {
    let text = path.to_str().filter(|text| !text.chars().any(|c| c.is_control() || c == '$'));
    let text = text.ok_or_else(|| format!("{} cannot stand in a unit", path.display()))?;
    Ok(word(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = "[Unit]\nExecStart=/no\n[Service]\nType=oneshot\n# ExecStart=/comment\n\
                        ExecStart = -/usr/bin/restic backup \\\n  # in between\n  /srv $OPTIONS\n\
                        ExecStart=/usr/bin/restic check\n[Install]\nExecStart=/no\n";

    fn service(texts: &[&str]) -> Service {
        let mut service = Service::default();
        texts.iter().for_each(|text| service.read(text));
        service
    }

    #[test]
    fn services_are_told_from_programs() {
        let service = |name: &str| Ok(Subject::Service(name.into()));
        for name in ["restic.service", "restic@srv-\\x2ddata.service", "restic@.service"] {
            assert_eq!(Subject::of(name), service(name));
        }
        assert_eq!(Subject::of("restic"), Ok(Subject::Program("restic".into())));
        for wrong in ["", "a/b", "../x.service", ".service", "a b.service", "x.timer", "a\nb", "*"]
        {
            assert!(Subject::of(wrong).is_err(), "{wrong}");
        }
        assert!(Subject::of("x.timer").is_err_and(|error| error.contains("'x.service'")));
    }

    #[test]
    fn a_unit_is_read_as_systemd_does() {
        let service_of = service(&[UNIT]);
        assert_eq!(service_of.kind, "oneshot");
        let commands = ["-/usr/bin/restic backup    /srv $OPTIONS", "/usr/bin/restic check"];
        assert_eq!(service_of.commands, commands);
        // A drop-in begins anew, or adds.
        let drop_in = "[Service]\nExecStart=\nExecStart=+/bin/true\nType=exec\n";
        let other = service(&[UNIT, drop_in]);
        assert_eq!((&*other.kind, &other.commands[..]), ("exec", &["+/bin/true".to_owned()][..]));
        assert_eq!(service(&[UNIT, "[Service]\nExecStart=/bin/true\n"]).commands.len(), 3);
        for text in ["[Service]\nExecStart=\n", "[Service]\nExecStart=/bin/true\n"] {
            assert!(Service::is_started_by(text), "{text}");
        }
        assert!(!Service::is_started_by("[Service]\nType=exec\n[Unit]\nExecStart=/no\n"));
    }

    #[test]
    fn a_drop_in_puts_iopace_in_front_or_sets_the_class() {
        let unit = service(&[UNIT]);
        let plain = unit.drop_in("x", None, true).expect("made");
        assert!(plain.ends_with("\n[Service]\nIOSchedulingClass=idle\nIOWeight=1\n"), "{plain}");
        assert!(plain.starts_with(MARK) && made_directory(&plain), "{plain}");
        let text = unit.drop_in("x", Some("/bin/iopace nice --by 06:00"), false).expect("made");
        assert!(!made_directory(&text));
        let lines = "ExecStart=\n\
                     ExecStart=-/bin/iopace nice --by 06:00 -- /usr/bin/restic backup    /srv \
                     $OPTIONS\nExecStart=/bin/iopace nice --by 06:00 -- /usr/bin/restic check\n";
        assert!(text.ends_with(lines), "{text}");
        // Read again after it, its own commands are those of the drop-in.
        let notify = service(&["[Service]\nType=notify\nExecStart=!/bin/x\n"]);
        let text = notify.drop_in("x", Some("/i"), false).expect("made");
        assert!(text.ends_with("ExecStart=!/i -- /bin/x\nNotifyAccess=all\n"), "{text}");
        for unit in [
            "Type=forking\nExecStart=/bin/x",
            "ExecStart=@/bin/x y",
            "ExecStart=/bin/x ; /bin/y",
            "Type=oneshot",
        ] {
            let unit = service(&[&format!("[Service]\n{unit}\n")]);
            assert!(unit.drop_in("x", Some("/i"), false).is_err(), "{unit:?}");
            assert!(unit.drop_in("x", None, false).is_ok(), "{unit:?}");
        }
    }

    #[test]
    fn words_mean_to_systemd_what_they_say() {
        let cases = [("06:00", "06:00"), ("a b", "\"a b\""), ("", "\"\""), ("%i$x", "\"%%i$$x\"")];
        for (text, expected) in cases {
            assert_eq!(word(text), expected);
        }
        assert_eq!(word("a\"\\"), "\"a\\\"\\\\\"");
        assert_eq!(program(Path::new("/usr/bin/iopace")), Ok("/usr/bin/iopace".into()));
        assert!(program(Path::new("/opt/$x/iopace")).is_err());
    }
}
