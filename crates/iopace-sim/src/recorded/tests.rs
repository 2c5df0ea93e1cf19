use super::format::{end_line, group_line, push_request, task_line};
use super::*;
use iopace_core::request::Op;

fn header(model: Option<&str>) -> Header {
    let fair = iopace_core::sched::find("fair").expect("there").defaults();
    Header {
        device: Device {
            name: "disk".into(),
            kind: "emulated".into(),
            model: model.map(Into::into),
            size_bytes: Some(1 << 30),
        },
        scheduler: Scheduler { name: "fair".into(), params: fair.changes().into_iter().collect() },
        window: Window { policy: "latency".into(), depth: 32 },
        nr_requests: 128,
        pace: Some(RecordedPace {
            policy: "rate".into(),
            pause_ns: Some(10_000_000),
            background_bytes: 1 << 20,
            limit_bytes: 2 << 20,
        }),
        groups: vec![
            Group { number: 0, path: "/".into(), ..Group::default() },
            Group {
                number: 1,
                path: "/vms".into(),
                files: [("io.weight".into(), "200\n".into())].into(),
            },
        ],
    }
}

fn request(place: i64, task: u64) -> Request {
    let arrived_ns = place * 10_000_000 - 2_000_000;
    Request {
        arrived_ns,
        started_ns: arrived_ns + 1_000,
        done_ns: arrived_ns + 9_000_000,
        op: Op::Read,
        flags: Default::default(),
        task,
        group: task % 2,
        space: 0,
        offset: place.cast_unsigned() * 1_000_000,
        length: 4096,
    }
}

fn text(header: &Header, requests: &[Request]) -> String {
    let mut text = header.text();
    text += &task_line(1, "dd 1");
    text += &task_line(2, "fio 2");
    requests.iter().for_each(|one| push_request(&mut text, one));
    text + &end_line(End { length_ns: 1_000_000_000, ..End::default() })
}

fn read(text: &str) -> Result<RecordingFile, String> {
    RecordingFile::read("x.rec", text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let mut requests: Vec<Request> = (0..100).map(|place| request(place, 1)).collect();
    let flags = ["", "b", "w", "f", "a", "p", "n", "bwfapn"];
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Cache];
    for (place, one) in requests.iter_mut().enumerate() {
        one.flags = format::Flags::parse(flags[place % flags.len()]).expect("letters");
        one.op = ops[place % ops.len()];
    }
    let header = header(Some("ssd-sata"));
    let file = read(&text(&header, &requests)).expect("read");
    assert_eq!(file.header, header);
    assert_eq!(file.requests, requests);
    assert_eq!(file.tasks[&2], "fio 2");
    assert_eq!(file.length_ns(), 1_000_000_000);
}

#[test]
fn no_name_breaks_a_line() {
    let names = ["a\nb", "\"", "\\", "a,b", "# end: {}", "\u{1b}[2J", "\u{202e}", "%s", "é", ""];
    let mut text = header(None).text();
    for (number, name) in (0..).zip(names) {
        text += &task_line(number, name);
        let group = Group { number: 10 + number, path: format!("/{name}"), ..Group::default() };
        text += &group_line(&group);
    }
    push_request(&mut text, &request(1, 1));
    let file = read(&text).expect("read");
    assert_eq!(file.requests.len(), 1);
    for (number, name) in (0..).zip(names) {
        assert_eq!(file.tasks[&number], name);
        assert_eq!(file.header.groups[2 + number as usize].path, format!("/{name}"));
    }
    assert_eq!(file.end, None);
}

#[test]
fn a_mistake_is_told_with_its_line_and_what_would_be_right() {
    let whole = text(&header(None), &[request(1, 1), request(2, 1)]);
    let line = whole.lines().find(|line| line.starts_with('8')).expect("a request").to_owned();
    let wrong = [
        ("# iopace-record: 1", "# iopace-record: 9", "x.rec:1: format 9 is not known here"),
        ("# iopace-record: 1", "hello", "x.rec:1: the first line is '# iopace-record: 1'"),
        ("# nr_requests: 128\n", "", "there is no line '# nr_requests: ...' before the requests"),
        ("# nr_requests: 128", "# nr_requests: many", "x.rec:5: the value of 'nr_requests'"),
        ("# nr_requests: 128", "# nonsense: 1", "x.rec:5: 'nonsense' is not known"),
        ("# nr_requests: 128", "# nr_requests", "such a line is '# key: value'"),
        (&*line, "1,2,3", "a request has ten fields between commas: arrived_ns"),
        (&line, "8,9,7,read,,1,0,0,0,1", "comes, starts and is done in this order"),
        (&line, "8,9,9,eat,,1,0,0,0,1", "op is one of read, write"),
        (&line, "8,9,9,read,z,1,0,0,0,1", "flags are letters of 'bwfapn'"),
        (&line, "8,9,9,read,,-1,0,0,0,1", "task is a whole number, not '-1'"),
        (&line, "8,9,9,read,,1,7,0,0,1", "group 7 has no line '# group: ...'"),
        (&line, "8,9,9,read,,1,0,0,18446744073709551615,9", "go beyond 64 bits"),
        (&line, "8,9,9,read,,1,0,0,0,99999999999", "at most"),
        (&line, "8,9,99999999999999999,read,,1,0,0,0,1", "is within a day of the beginning"),
        (&line, "8,9,999000000,read,,1,0,0,0,1", "in the order of done_ns"),
        (&line, "-9,-8,-7,read,,1,0,0,0,1", "done_ns is not negative"),
        ("\"length_ns\":1", "\"length_ns\":99991", "length_ns is a day at most"),
    ];
    for (from, to, told) in wrong {
        let error = read(&whole.replacen(from, to, 1)).expect_err(to);
        assert!(error.contains(told) && error.starts_with("x.rec"), "{to}: {error}");
    }
    assert!(read(&header(None).text()).expect_err("empty").contains("no request"));
    let long = format!("{whole}{}", "9".repeat(1 << 17));
    assert!(read(&long).expect_err("long").contains("a line has at most"));
}

/// Made of valid files by changes of single bytes.
#[test]
fn hostile_files_are_errors_and_nothing_else() {
    let requests: Vec<Request> = (0..20).map(|place| request(place, 1)).collect();
    let whole = text(&header(Some("null")), &requests).into_bytes();
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    for _ in 0..2_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + next(3) {
            let place = next(bytes.len());
            match next(3) {
                0 => bytes[place] = next(256) as u8,
                1 => drop(bytes.remove(place)),
                _ => bytes.truncate(place.max(1)),
            }
        }
        let Ok(file) = RecordingFile::read("x", &*bytes) else { continue };
        let settings = ReplaySettings { disk: Some("null".into()), ..ReplaySettings::default() };
        if let Ok(replay) = RecordedReplay::new(&file, &settings) {
            let _ = replay.run();
        }
    }
}

#[test]
fn tasks_wait_for_their_answers_again() {
    // One after the other, 1 ms after each answer.
    let requests: Vec<Request> = (0..100).map(|place| request(place, 1)).collect();
    let file = read(&text(&header(Some("ssd-sata")), &requests)).expect("read");
    let run = |disk: Option<&str>| {
        let settings = ReplaySettings { disk: disk.map(Into::into), ..ReplaySettings::default() };
        RecordedReplay::new(&file, &settings).expect("known").run().expect("ended")
    };
    // It took 8 ms longer than its model does: that is no timer that was late.
    let report = run(None);
    assert_eq!(report.late_ns, Some(0), "{report:?}");
    assert!(report.rows.iter().all(|row| !row.within_aim), "{report:?}");
    let report = run(Some("null"));
    assert_eq!(report.late_ns, None);
    let all = &report.rows[0];
    // Disk null takes no time: the task has asked for all that was recorded in a tenth of it.
    assert!(all.replayed.per_s.0 > 5 * all.recorded.per_s.0, "{all:?}");
    assert!(report.compared_ns < file.length_ns() / 5, "{}", report.compared_ns);
    assert_eq!(all.replayed.mean_ns, 0);
    assert_eq!(all.recorded.mean_ns, 9_000_000);
    assert!(!all.within_aim);
    let kinds: Vec<&str> = report.rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, ["all", "group", "task"]);
    assert_eq!(report.rows[1].name, "/vms");
    assert_eq!(report.rows[2].name, "dd 1");
}

#[test]
fn what_is_not_known_is_told() {
    let requests = [request(1, 1)];
    let new = |header: &Header| {
        let file = read(&text(header, &requests)).expect("read");
        RecordedReplay::new(&file, &ReplaySettings::default()).map(|_| ()).expect_err("refused")
    };
    assert!(new(&header(None)).contains("say which one stands for it with --disk"));
    assert!(new(&header(Some("floppy"))).contains("with --disk"));
    assert!(new(&header(Some("/etc/x.toml"))).contains("with --disk"));
    let mut other = header(Some("null"));
    other.scheduler.name = "cfq".into();
    assert!(new(&other).contains("name one with --sched"));
    other = header(Some("null"));
    other.scheduler.params.insert("spin".into(), 1);
    assert!(new(&other).contains("a parameter of fair"));
    other = header(Some("null"));
    other.window.policy = "wide".into();
    assert!(new(&other).contains("name one with --window"));
    other = header(Some("null"));
    other.groups[1].files.insert("io.max".into(), "disk rbps=x\n".into());
    assert!(new(&other).contains("io.max of the group /vms"));
}
