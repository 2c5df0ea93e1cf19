//! The scenarios that come with iopace: the files of `scenarios/`, so that they can be listed and
//! run wherever the program is.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Story {
    /// Its file's name without the ending.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// Makes the list from the names of the files.
macro_rules! stories {
    ($($name:literal),+ $(,)?) => {
        &[$(Story {
            name: $name,
            text: include_str!(concat!("../../../scenarios/", $name, ".toml")),
        }),+]
    };
}

/// All of them, by name. A file that is not here fails a test.
pub static STORIES: &[Story] = stories![
    "alone-pays-nothing",
    "database-beside-bulk",
    "database-group-commit",
    "deadline-reads-beside-writes",
    "disk-by-parameters",
    "exchange-under-load",
    "faults-lose-nothing",
    "geom-dd-read-cvs-none",
    "geom-dd-read-cvs-rr",
    "geom-dd-write-cvs-none",
    "geom-dd-write-cvs-rr",
    "geom-small-writes-none",
    "geom-small-writes-reader-rr",
    "geom-small-writes-rr",
    "groups-classes",
    "groups-depth-1-beside-64",
    "groups-guarantee",
    "groups-latency-target",
    "groups-limited-writer",
    "groups-limited-writers",
    "groups-limits",
    "groups-random-writer",
    "groups-shared-limit",
    "groups-weights-nested",
    "newcomer-beside-stream",
    "pace-caps-of-tasks",
    "steps-groups",
    "steps-policies",
    "steps-slow-disk",
    "steps-tasks",
];

/// The story of that name.
pub fn find(name: &str) -> Option<&'static Story> {
    STORIES.iter().find(|story| story.name == name)
}
