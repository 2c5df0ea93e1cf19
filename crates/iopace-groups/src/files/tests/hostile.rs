//! Text that nobody should write.

use super::{DEVICES, refused, tree};
use crate::files::FILES;
use crate::limits::GROUP_FILE_BYTES_MAX;
use crate::tree::Tree;
use iopace_core::request::GroupId;

/// Rounds of each property: about a second in all.
const ROUNDS: usize = 50_000;

/// Lines to begin with; most are legal in one of the files.
const LINES: [&str; 22] = [
    "default 100",
    "disk 200",
    "disk default",
    "default default",
    "300",
    "IDLE",
    "ssd RT",
    "disk rbps=2M wiops=120",
    "default wbps=64k bps=1G riops=500",
    "ssd rbps=max wbps=3000 bps=max",
    "disk rbps=5M rbps-burst=9M burst-length=500ms",
    "default iops=10 iops-burst=20 burst-length=10s iops-size=4k",
    "ssd riops=max burst-length=1s iops-size=max",
    "disk max",
    "default max",
    "disk 0",
    "ssd rbps=0 iops=7",
    "disk target=5ms",
    "default target=700",
    "ssd target=0",
    "disk 100 guaranteed=20",
    "max guaranteed=3",
];

/// A generator of numbers: xorshift64 of Marsaglia.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn line(&mut self) -> String {
        let mut line = LINES[self.below(LINES.len())].as_bytes().to_vec();
        for _ in 0..[0, 0, 0, 1, 1, 3][self.below(6)] {
            let at = self.below(line.len());
            match self.below(4) {
                0 => _ = line.remove(at),
                1 => line[at] = self.below(256) as u8,
                2 => line.insert(at, b" \n=-:0123456789kMmaxs\0\r"[self.below(22)]),
                _ => line.extend_from_within(at..),
            }
            if line.is_empty() {
                break;
            }
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    fn text(&mut self) -> String {
        if self.below(20) == 0 {
            let bytes: Vec<u8> = (0..self.below(64)).map(|_| self.below(256) as u8).collect();
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        let lines: Vec<String> = (0..1 + self.below(3)).map(|_| self.line()).collect();
        lines.join("\n")
    }
}

/// The files that may be written.
fn files() -> Vec<&'static str> {
    FILES.iter().filter(|spec| spec.writable).map(|spec| spec.name).collect()
}

/// A tree with the same groups and the same ids that was told what this one prints.
fn told_again(tree: &Tree) -> Tree {
    let mut again = super::tree();
    for id in tree.iter() {
        for file in files() {
            let text = tree.read(id, file).expect("a setting");
            again.write(id, file, &text, &DEVICES).expect(&text);
        }
    }
    again
}

/// Limits and guarantees agree along each path, on devices with and without lines.
fn assert_nested(tree: &Tree) {
    for (id, device) in tree.iter().flat_map(|id| ["disk", "ssd", "later"].map(|d| (id, d))) {
        let settings = tree.effective(id, device);
        for ancestor in tree.ancestors(id) {
            let above = tree.effective(ancestor, device);
            let rates = [
                (settings.max.sustained.rbps, above.max.sustained.rbps),
                (settings.max.sustained.bps, above.max.sustained.bps),
                (settings.max.sustained.riops, above.max.sustained.riops),
            ];
            for (rate, bound) in rates {
                assert!(rate.zip(bound).is_none_or(|(rate, bound)| rate <= bound), "{rate:?}");
            }
            let slots = settings.slots.max.zip(above.slots.max);
            assert!(slots.is_none_or(|(slots, bound)| slots <= bound), "{slots:?}");
        }
        let children = tree.children(id).map(|child| tree.effective(child, device));
        let guaranteed: u32 = children.map(|child| child.slots.guaranteed).sum();
        let own = settings.slots.guaranteed;
        assert!(own == 0 || guaranteed <= own, "{guaranteed} of {own}");
    }
}

#[test]
fn a_write_is_all_or_nothing_and_what_is_read_can_be_written() {
    let (mut numbers, mut tree, files) = (Numbers(0x9e37_79b9_7f4a_7c15), tree(), files());
    let ids: Vec<GroupId> = tree.iter().collect();
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let (id, file) = (ids[numbers.below(ids.len())], files[numbers.below(files.len())]);
        let text = numbers.text();
        let before = tree.clone();
        match tree.write(id, file, &text, &DEVICES) {
            Ok(changed) => {
                accepted += 1;
                let differs =
                    |device: &&&str| before.effective(id, device) != tree.effective(id, device);
                let told: Vec<&str> = DEVICES.iter().filter(differs).copied().collect();
                assert_eq!(changed.devices, told, "{file} {text:?}");
                let (after, shown) = (tree.clone(), tree.read(id, file).expect("a setting"));
                let again = tree.write(id, file, &shown, &DEVICES).expect(&shown);
                assert_eq!((&tree, again.devices.len()), (&after, 0), "{file} {text:?}");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(tree, before, "{file} {text:?}");
                let message = error.to_string();
                assert!(!message.chars().any(char::is_control), "{message:?}");
                assert!(message.len() < 600, "{message:?}");
            }
        }
        if round % 100 == 0 {
            assert_eq!(told_again(&tree), tree, "a new tree takes what this one prints");
            assert_nested(&tree);
        }
    }
    assert!(accepted > ROUNDS / 20 && refused > ROUNDS / 20, "{accepted} and {refused}");
}

#[test]
fn hostile_paths_never_make_a_group_that_cannot_be_found() {
    let (mut numbers, mut tree) = (Numbers(7), Tree::new());
    let parts: [&[u8]; 9] = [b"/", b"/", b"a", b"..", b".", b"@", b"\0", b"\xff", b"b c"];
    for _ in 0..ROUNDS {
        let count = numbers.below(12);
        let bytes: Vec<u8> =
            (0..count).flat_map(|_| parts[numbers.below(parts.len())].to_vec()).collect();
        let path = String::from_utf8_lossy(&bytes).into_owned();
        let found = tree.find(&path);
        match tree.create_all(&path) {
            Ok(id) => {
                assert!(found.is_err() || found == Ok(id));
                assert_eq!((tree.find(&path), tree.path(id)), (Ok(id), path));
            }
            Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error}"),
        }
    }
    assert_eq!(tree.iter().count(), tree.count());
}

#[test]
fn a_write_has_a_largest_size() {
    let mut tree = tree();
    let text = " ".repeat(GROUP_FILE_BYTES_MAX + 1);
    assert!(refused(&mut tree, "/", "io.max", &text).contains("65536 bytes"));
    assert!(tree.write(GroupId::ROOT, "io.max", &text[1..], &DEVICES).is_ok());
    let words = "x".repeat(GROUP_FILE_BYTES_MAX);
    assert!(refused(&mut tree, "/", "io.max", &words).len() < 300);
}
