//! Loading: each row of the contract, each mistake with its message, files, and the registry.

#[path = "support/modules.rs"]
mod modules;

use iopace_core::sched::{self, Load};
use iopace_core::time::Nanos;
use iopace_wasm::{Caching, LoadError, Loaded, UnloadError, load, loaded, unload};
use modules::{DESCRIPTION, module};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

fn load_bytes(path: &Path, bytes: &[u8]) -> Result<&'static Loaded, LoadError> {
    iopace_wasm::load_bytes(path, bytes, Caching::Off)
}

/// The message of the error that the module gives.
fn error(bytes: &[u8]) -> String {
    let path = Path::new("some.wasm");
    let text = load_bytes(path, bytes).expect_err("it is wrong").to_string();
    assert!(text.starts_with("some.wasm: "), "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
    text
}

fn assert_error(bytes: &[u8], part: &str) {
    let text = error(bytes);
    assert!(text.contains(part), "{text}\nshould say: {part}");
}

#[test]
fn what_is_no_module_is_named() {
    assert_error(b"", "it is empty");
    assert_error(b"\x7fELF\x02\x01\x01", "--target wasm32-unknown-unknown");
    assert_error(b"(module)", "wat2wasm");
    assert_error(b"\0asm\x0d\0\x01\0", "it is a component");
    assert_error(b"\0asm\x02\0\0\0", "its version is not 1");
    assert_error(b"#!/bin/sh", "it does not begin with");
    assert_error(&vec![0; (4 << 20) + 1], "it has 4194305 bytes; a policy has at most 4194304");
    let whole = module(&[]);
    assert_error(&whole[..whole.len() - 7], "(at offset 0x");
}

#[test]
fn what_a_policy_may_not_use_is_named() {
    let more = |code: &str| module(&[(";; MORE", code)]);
    let cases = [
        ("(func (param v128))", "SIMD support is not enabled"),
        ("(memory 1)", "multiple memories"),
        ("(table 1 funcref) (func (drop (table.grow (ref.null func) (i32.const 1))))", ""),
        ("(func (param externref))", "reference types"),
        ("(func return_call 0)", "tail calls support is not enabled"),
        ("(tag)", "exceptions"),
    ];
    for (code, part) in cases {
        assert_error(&more(code), part);
        assert_error(&more(code), "see docs/policy-abi.md");
    }
    let imported =
        |what: &str| module(&[("(import \"iopace\" \"log\" (func $log (param i32 i32)))", what)]);
    let log = "(func $log (param i32 i32))";
    let foreign = imported(&format!("(import \"env\" \"foo\" {log})"));
    assert_error(&foreign, "it imports env.foo; a policy may import only iopace.log");
    let wasi = imported(&format!("(import \"wasi\\1b[2J\" \"x\" {log})"));
    assert_error(&wasi, "it imports wasi?[2J.x;");
    let other = imported("(import \"iopace\" \"log\" (func $log (param i64)))");
    assert_error(&other, "it imports iopace.log as (i64) -> ();");
    assert_error(&imported("(import \"iopace\" \"log\" (global i32))"), "it imports iopace.log;");
    assert_error(&module(&[("\"memory\") 10", "\"memory\") 513")]), "33619968 bytes; a policy has");
    let table = more("(table 1025 funcref)");
    assert_error(&table, "its start failed: table minimum size of 1025 elements exceeds");
    assert_error(&more("(func $s (loop $on (br $on))) (start $s)"), "its start failed: it used up");
    assert_error(&more("(func $s unreachable) (start $s)"), "its start failed: ");
}

#[test]
fn an_export_that_is_missing_or_another_is_named() {
    let names = ["abi", "describe", "make", "pop", "events", "configure"];
    for name in names.map(|name| format!("iopace_{name}")) {
        let bytes = module(&[(&format!("(export \"{name}\")"), "")]);
        assert_error(&bytes, &format!("it exports no {name}; see docs/policy-abi.md"));
    }
    assert_error(&module(&[("(export \"iopace_counters\")", "")]), "it exports no iopace_counters");
    assert_error(&module(&[("(export \"memory\")", "")]), "it exports no memory");
    let other = [("(memory (export \"memory\") 10)", "(memory 10) (export \"memory\" (func $at))")];
    assert_error(&module(&other), "its export memory is something else");
    let global = [(
        "(export \"iopace_events\") (param $bytes i32) (call $take (local.get $bytes)))",
        "(param i32)) (global (export \"iopace_events\") i32 (i32.const 1))",
    )];
    assert_error(&module(&global), "its export iopace_events is no function, and has to be (i32)");
    let seeds = [("(param $seed i64) (param $head i32)", "(param $seed i64)")];
    let text = error(&module(&seeds));
    let part = "its export iopace_make is (i64) -> i32, and has to be (i64, i32) -> i32";
    assert!(text.contains(part), "{text}");
}

#[test]
fn what_a_call_of_loading_does_wrong_is_named() {
    let abi = "(export \"iopace_abi\") (result i32)";
    let abi = |code: &str| module(&[(&format!("{abi} (i32.const 1)"), &format!("{abi} {code}"))]);
    assert_error(&abi("(i32.const 2)"), "it speaks version 2 of the interface");
    assert_error(&abi("unreachable"), "its iopace_abi failed: ");
    let make = |code: &str| {
        module(&[(
            "(i32.const 64))\n  (func (export \"iopace_events\")",
            &format!("{code})\n  (func (export \"iopace_events\")"),
        )])
    };
    assert_error(&make("(loop $on (br $on)) (i32.const 64)"), "its iopace_make failed: it used up");
    assert_error(&make("(i32.const 65)"), "the desk at 0x41 is not aligned to 4");
    assert_error(&make("(i32.const -4)"), "leaves the memory");
    let wrong_desk = [("\\00\\10\\00\\00\\00\\20", "\\00\\10\\00\\00\\01\\00")];
    assert_error(&module(&wrong_desk), "bytes for events are not 4096..=65536");
    let describe = |place: &str| module(&[("(i64.const 24576)", place)]);
    assert_error(&describe("(i64.const 0xffffff00)"), "outside its memory");
    let long = module(&[("(i64.const LENGTH)", "(i64.const 65537)")]);
    assert_error(&long, "it answered 65537 bytes, more than 65536");
}

#[test]
fn a_wrong_description_is_named_with_its_place() {
    let long = "x".repeat(201);
    let names = "is not 1 to 32 of a-z, 0-9 and -, a letter first";
    let many: String = (0..17)
        .map(|number| {
            format!(
                "{{\"name\": \"p{number}\", \"unit\": \"ms\", \"min\": 0, \
              \"default\": 0, \"max\": 1, \"doc\": \"d\"}},"
            )
        })
        .collect();
    let cases: [(&str, &str, &str); 17] = [
        ("{\"name\"", "[\"name\"", "expected `,` or `]` at line 1"),
        ("\"version\": \"0.1.0\",", "", "missing field `version`"),
        ("\"learns\"", "\"learnt\"", "unknown field `learnt`"),
        ("oldest\", \"version", "Oldest\", \"version", names),
        ("oldest\", \"version", "-x\", \"version", names),
        ("oldest\", \"version", "\", \"version", names),
        ("oldest\", \"version", "a_b\", \"version", names),
        ("oldest\", \"version", &format!("{}\", \"version", "x".repeat(33)), names),
        ("0.1.0", "", "version has 0 characters"),
        ("the oldest request first", &long, "summary has 201 characters, not 1 to 200"),
        ("the oldest request first", "a\\u001b[2Jb", "summary has control characters"),
        ("the oldest request first", "a\\u202eb", "summary has control characters"),
        ("\"limit\"", "\"a b\"", "parameters[0].name 'a b' is not"),
        ("\"min\": 1, \"default\": 8", "\"min\": 9, \"default\": 8", "9 <= 8 <= 64 does not hold"),
        ("\"min\": 1,", "\"min\": -1,", "invalid value"),
        ("\"parameters\": [", &format!("\"parameters\": [{many}"), "18 are more than 16"),
        (
            "\"counters\": [",
            "\"counters\": [{\"name\": \"served\", \"doc\": \"d\"},",
            "counters: 'served' is there twice",
        ),
    ];
    for (from, to, part) in cases {
        assert!(DESCRIPTION.contains(from), "{from}");
        let bytes = module(&[(from, to)]);
        assert_error(&bytes, part);
        assert_error(&bytes, "its description: ");
    }
    assert_error(&module(&[("DESCRIPTION", "\\ff\\fe")]), "its description: it is no UTF-8");
}

#[test]
fn a_loaded_policy_is_a_scheduler_until_it_is_unloaded() {
    let bytes = module(&[("oldest", "registry")]);
    let first = load_bytes(Path::new("a.wasm"), &bytes).expect("good");
    let found = sched::find("registry").expect("it is in the registry");
    assert!(std::ptr::eq(found, first.algorithm));
    assert_eq!((first.version, first.size, first.was_cached), ("0.1.0", bytes.len(), false));
    assert_eq!(first.digest.len(), 64);
    assert_eq!(first.path, Path::new("a.wasm"));
    let spec = &found.params[0];
    assert_eq!((spec.name, spec.unit, spec.doc), ("limit", "requests", "kept, and nothing else"));
    assert_eq!((spec.min, spec.default, spec.max), (1, 8, 64));
    assert_eq!(found.counters[0].name, "served");
    assert!(!found.profile.divides && !found.profile.is_compared);
    let bound = found.profile.closed_loop_wait.expect("it makes a promise");
    assert_eq!(bound(&found.defaults(), &Load::CLOSED_LOOP), Nanos(2 * 24 * 9_000_000));
    let bound = found.profile.stream_wait.expect("it makes a promise");
    assert_eq!(bound(&found.defaults(), &Load::STREAM), Nanos(2 * 9 * 9_000_000));

    let again = load_bytes(Path::new("b.wasm"), &bytes).expect("the same");
    assert!(std::ptr::eq(first, again));
    let other = module(&[("oldest", "registry"), ("0.1.0", "0.2.0")]);
    let error = load_bytes(Path::new("b.wasm"), &other).expect_err("another").to_string();
    assert_eq!(
        error,
        "b.wasm: 'registry' is loaded from a.wasm with other contents: unload it first, or put \
         this one in its place ('iopace sched load --replace')"
    );
    assert!(loaded().iter().any(|of| std::ptr::eq(*of, first)));
    unload("registry").expect("it is loaded");
    assert!(sched::find("registry").is_none());
    assert!(!loaded().iter().any(|of| of.algorithm.name == "registry"));
    let Err(UnloadError::NotLoaded(name, _)) = unload("registry") else { panic!("not loaded") };
    assert_eq!(name, "registry");

    let new = load_bytes(Path::new("b.wasm"), &other).expect("the name is free");
    assert_eq!(new.version, "0.2.0");
    let back = load_bytes(Path::new("c.wasm"), &bytes).expect_err("the name is taken");
    assert!(back.to_string().contains("loaded from b.wasm"), "{back}");
    unload("registry").expect("it is loaded");
    let back = load_bytes(Path::new("c.wasm"), &bytes).expect("the name is free");
    assert!(std::ptr::eq(back.algorithm, found), "the module is the same");
    assert_eq!(back.path, Path::new("c.wasm"));
    unload("registry").expect("it is loaded");
}

#[test]
fn one_is_loaded_in_the_place_of_another() {
    let replace =
        |path: &str, bytes: &[u8]| iopace_wasm::replace_bytes(Path::new(path), bytes, Caching::Off);
    let bytes = module(&[("oldest", "replaced")]);
    let first = replace("a.wasm", &bytes).expect("good");
    assert!(first.former.is_none(), "there was none");
    let same = replace("a.wasm", &bytes).expect("the same");
    assert!(same.former.is_some_and(|former| std::ptr::eq(former, first.loaded)));
    let other = module(&[("oldest", "replaced"), ("0.1.0", "0.2.0")]);
    let second = replace("b.wasm", &other).expect("in its place");
    assert!(second.former.is_some_and(|former| std::ptr::eq(former, first.loaded)));
    let is_found = |of: &Loaded| {
        let found = sched::find("replaced").expect("it is in the registry");
        let mut named = loaded().into_iter().filter(|of| of.algorithm.name == "replaced");
        std::ptr::eq(found, of.algorithm)
            && named.next().is_some_and(|known| std::ptr::eq(known, of))
            && named.next().is_none()
    };
    assert!(is_found(second.loaded));
    second.undo();
    same.undo();
    assert!(is_found(first.loaded));
    // It is known already, and comes back.
    let again = replace("b.wasm", &other).expect("in its place");
    assert!(std::ptr::eq(again.loaded, second.loaded) && is_found(again.loaded));
    replace("c.wasm", b"no module").expect_err("it is none");
    replace("c.wasm", &module(&[("oldest", "fifo")])).expect_err("the name is taken");
    assert!(is_found(again.loaded), "nothing is changed");
    unload("replaced").expect("it is loaded");
    again.undo();
    assert!(sched::find("replaced").is_none(), "it was unloaded meanwhile");
    let anew = replace("b.wasm", &other).expect("the name is free");
    assert!(anew.former.is_none() && is_found(anew.loaded));
    anew.undo();
    assert!(sched::find("replaced").is_none(), "there was none before");
}

#[test]
fn names_of_others_are_taken() {
    for name in ["fifo", "auto", "none"] {
        let bytes = module(&[("oldest\", \"version", &format!("{name}\", \"version"))]);
        assert_error(&bytes, &format!("its name '{name}' is taken"));
    }
    assert_eq!(unload("fifo"), Err(UnloadError::BuiltIn("fifo".into())));
}

#[test]
fn a_promise_of_nothing_is_none() {
    let none = [("oldest", "promises"), ("(i64.const 2)", "(i64.const 0)")];
    let loaded = load_bytes(Path::new("a.wasm"), &module(&none)).expect("good");
    assert!(loaded.algorithm.profile.closed_loop_wait.is_none());
    assert!(loaded.algorithm.profile.stream_wait.is_none());
    unload("promises").expect("it is loaded");
}

#[test]
fn only_a_regular_file_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let says = |name: &str, part: &str| {
        let error = load(&at(name)).expect_err(part).to_string();
        assert!(error.contains(part) && error.contains(name), "{error}");
    };
    says("missing.wasm", "there is no such file");
    fs::write(at("real.wasm"), "no module").expect("a file");
    symlink(at("real.wasm"), at("link.wasm")).expect("a link");
    says("link.wasm", "it is a symbolic link");
    says("real.wasm", "it is no WebAssembly module");
    fs::create_dir(at("folder")).expect("a folder");
    says("folder", "it is no regular file");
    let made = Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo");
    assert!(made.success());
    says("pipe", "it is no regular file");
    let file = fs::File::create(at("large.wasm")).expect("a file");
    file.set_len(1 << 40).expect("sparse");
    says("large.wasm", "it has 1099511627776 bytes");
    let error = load(Path::new("/dev/zero")).expect_err("a device").to_string();
    assert!(error.contains("it is no regular file"), "{error}");
    fs::write(at("good.wasm"), module(&[("oldest", "from-file")])).expect("a file");
    let loaded = load(&at("good.wasm")).expect("good");
    assert_eq!(loaded.path, at("good.wasm"));
    unload("from-file").expect("it is loaded");
}
