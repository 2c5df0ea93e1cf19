//! Every format: what it says, and what becomes of broken and hostile input.

use super::order::{Ordered, WINDOW};
use super::survey::Survey;
use super::*;
use crate::random::Random;
use std::io::{BufReader, Read};

fn read(format: Format, bytes: &[u8]) -> Result<Vec<Record>, InputError> {
    InputTrace::new("a", format, bytes).expect("a trace").collect()
}

fn requests(format: Format, bytes: &[u8]) -> Vec<(u64, Op, u64, u64, u32)> {
    let records = read(format, bytes).expect("a legal trace");
    let row = |r: &Record| (r.at.0, r.op, r.offset.0, r.len.0, r.stream);
    records.iter().map(row).collect()
}

fn mistake(format: Format, text: &str) -> String {
    read(format, text.as_bytes()).expect_err("a mistake").to_string()
}

/// One event of blktrace.
fn event(big: bool, time: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut word = |value: u64, size: usize| match big {
        true => out.extend_from_slice(&value.to_be_bytes()[8 - size..]),
        false => out.extend_from_slice(&value.to_le_bytes()[..size]),
    };
    for (value, size) in [(0x6561_7407, 4), (1, 4), (time, 8), (sector, 8)] {
        word(value, size);
    }
    let rest = [u64::from(bytes), u64::from(action), 697, 8 << 20 | 16, 3];
    rest.into_iter().for_each(|value| word(value, 4));
    word(0, 2);
    word(payload.len() as u64, 2);
    out.extend_from_slice(payload);
    out
}

/// A process, a read with a cgroup's id, its completion, a write with flush and FUA, a discard.
fn blktrace(big: bool) -> Vec<u8> {
    [
        event(big, 0, 0, 0, 1 << 26, b"kjournald\0"),
        event(big, 1_000, 100, 4_096, 1 << 16 | 1 << 20 | 1 << 8 | 1, &[0; 8]),
        event(big, 1_500, 100, 4_096, 1 << 16 | 1 << 23 | 8, &[]),
        event(big, 2_000, 200, 512, 1 << 17 | 1 << 18 | 1 << 20 | 1 << 31 | 1, &[]),
        event(big, 3_000, 300, 1_024, 1 << 17 | 1 << 20 | 1 << 29 | 1, &[]),
    ]
    .concat()
}

const BLKTRACE: [(u64, Op, u64, u64, u32); 4] = [
    (1_000, Op::Read, 51_200, 4_096, 0),
    (2_000, Op::Flush, 0, 0, 0),
    (2_000, Op::Write, 102_400, 512, 0),
    (3_000, Op::Trim, 153_600, 1_024, 0),
];

const BLKPARSE: &str = "\
  8,16   3        1     0.000001000   697  Q   R 100 + 8 [kjournald]
  8,16   3        2     0.000001500   697  C   R 100 + 8 [0]
  8,16   3        0     0.000001600     0  m   N cfq697 insert
  8,16   3        3     0.000002000   697  Q FWFS 200 + 1 [kjournald]
  8,16   3        4     0.000003000   697  Q   D 300 + 2 [kjournald]

CPU3 (8,16):
 Reads Queued:           1,        4KiB  Writes Queued:           2,        1KiB
";

const MSR: &str = "128166372003061629,hm,1,Read,383496192,32768,413\r\n\
                   128166372016382155,hm,0,Write,310983680,4096,100\r\n";

const IOLOG2: &str = "fio version 2 iolog\n/f add\n/f open\n/f read 0 4096\n/f wait 1000 0\n\
                      /f wait 99 0\n/f write 4096 512\n/g datasync\n/f close\n";

const IOLOG3: &str = "fio version 3 iolog\n18 /f add\n177 /f open\n181 /f write 61440 4096\n\
                      214 /f sync 774144 0\n454 /g trim 880640 4096\n465 /f close\n";

#[test]
fn every_format_says_what_it_says() {
    for big in [false, true] {
        assert_eq!(requests(Format::Blktrace, &blktrace(big)), BLKTRACE, "big endian: {big}");
    }
    assert_eq!(requests(Format::Blkparse, BLKPARSE.as_bytes()), BLKTRACE, "the same events");
    let msr = requests(Format::Msr, MSR.as_bytes());
    assert_eq!(msr[0], (12_816_637_200_306_162_900, Op::Read, 383_496_192, 32_768, 0));
    assert_eq!(msr[1].0 - msr[0].0, 1_332_052_600);
    assert_eq!(msr[1].4, 1, "another disk");
    let second = [
        (0, Op::Read, 0, 4_096, 0),
        (1_000_000, Op::Write, 4_096, 512, 0),
        (1_000_000, Op::Flush, 0, 0, 1),
    ];
    assert_eq!(requests(Format::Iolog, IOLOG2.as_bytes()), second);
    let third = [
        (181_000, Op::Write, 61_440, 4_096, 0),
        (214_000, Op::Flush, 0, 0, 0),
        (454_000, Op::Trim, 880_640, 4_096, 1),
    ];
    assert_eq!(requests(Format::Iolog, IOLOG3.as_bytes()), third);
}

#[test]
fn names_of_processes_and_disks_are_kept() {
    let binary = blktrace(false);
    for (format, bytes) in
        [(Format::Blktrace, &binary[..]), (Format::Blkparse, BLKPARSE.as_bytes())]
    {
        let mut trace = InputTrace::new("a", format, bytes).expect("a trace");
        assert!(trace.by_ref().all(|record| record.is_ok()));
        assert_eq!(trace.names().streams(), ["kjournald 697"]);
        assert_eq!(trace.names().volumes(), ["8,16"]);
    }
}

#[test]
fn formats_are_told_by_their_content() {
    let binary = blktrace(true);
    let cases: [(&[u8], Format); 7] = [
        (&binary, Format::Blktrace),
        (BLKPARSE.as_bytes(), Format::Blkparse),
        (MSR.as_bytes(), Format::Msr),
        (b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n", Format::Msr),
        (IOLOG2.as_bytes(), Format::Iolog),
        (IOLOG3.as_bytes(), Format::Iolog),
        (b"; a job\n\n[global]\nrw=read\n", Format::Fio),
    ];
    for (bytes, format) in cases {
        assert_eq!(Format::detect(bytes), Ok(format));
    }
    assert!(Format::detect(b"\x1f\x8b\x08").is_err_and(|text| text.contains("gunzip")));
    for other in [&b""[..], b"hello", b"\0\0\0\0", &[0xff; 100]] {
        assert!(Format::detect(other).is_err_and(|text| text.contains("blkparse")), "{other:?}");
    }
}

#[test]
fn a_mistake_has_a_place_and_a_remedy() {
    let iolog = |line: &str| mistake(Format::Iolog, &format!("fio version 3 iolog\n{line}\n"));
    assert!(iolog("1 /f read 0 0").starts_with("a:2: a request of no bytes"));
    assert!(iolog("1 /f read 0 18446744073709551615").contains("at most 4 GiB"));
    assert!(iolog("1 /f trim 512 18446744073709551615").contains("beyond 64 bits"));
    assert!(iolog("1 /f read 18446744073709551616 1").contains("no whole number below 2^64"));
    assert!(iolog("1 /f read -1 1").contains("the offset '-1'"));
    assert!(iolog("99999999999999999 /f read 0 1").contains("584 years"));
    assert!(iolog("1 /f read 0 409fio version 3 iolog").contains("a write_iolog of its own"));
    assert!(iolog("1 /f wait 100 0").contains("version 3 has no 'wait'"));
    assert!(iolog("1 /f raed 0 1").contains("no action 'raed'"));
    assert!(iolog("1 /f read 0").contains("the length is missing"));
    assert!(mistake(Format::Iolog, "fio version 9 iolog\n").contains("'fio version 3 iolog'"));
    assert!(mistake(Format::Msr, "1,hm,1,Read,0,0,1\n").starts_with("a:1: a request of no bytes"));
    assert!(mistake(Format::Msr, "1,hm,1,Raed,0,512,1\n").contains("neither Read nor Write"));
    assert!(mistake(Format::Msr, "1,hm,1,Read,0,512\n").contains("seven fields"));
    assert!(mistake(Format::Msr, "1,hm,1,Read,0,512,1,2\n").contains("more than seven"));
    let parse = |line: &str| mistake(Format::Blkparse, line);
    assert!(parse("8,0 3 1 0,5 697 Q R 1 + 1 [a]\n").contains("SECONDS.NANOSECONDS"));
    assert!(parse("8,0 3 1 0.5 697 Q X 1 + 1 [a]\n").contains("RWBS 'X'"));
    assert!(parse("8,0 3 1 0.5 697 Q R 99999999999999999 + 1 [a]\n").contains("2^64 bytes"));
    assert!(parse("\u{1b}[0m\n").contains("without -f and -F"));
}

#[test]
fn a_damaged_binary_trace_is_refused_with_its_byte() {
    let whole = blktrace(false);
    let first = 48 + 10;
    let cut = read(Format::Blktrace, &whole[..first + 20]).expect_err("cut off");
    assert!(cut.to_string().starts_with("a: at byte 58: the last event is cut off"), "{cut}");
    let cut = read(Format::Blktrace, &whole[..first + 50]).expect_err("cut off in its payload");
    assert!(cut.to_string().contains("head -c 58"), "{cut}");
    let mut damaged = whole.clone();
    damaged[first + 2] = 0;
    let error = read(Format::Blktrace, &damaged).expect_err("no magic").to_string();
    assert!(error.contains("at byte 58: no event of blktrace begins here"), "{error}");
    damaged[first + 2] = whole[first + 2];
    damaged[first] = 9;
    let error = read(Format::Blktrace, &damaged).expect_err("version").to_string();
    assert!(error.contains("blktrace version 9"), "{error}");
    let far = event(false, 0, u64::MAX, 512, 1 << 16 | 1 << 20 | 1, &[]);
    let error = read(Format::Blktrace, &far).expect_err("too far").to_string();
    assert!(error.contains("sector 18446744073709551615 is beyond"), "{error}");
}

#[test]
fn garbage_and_mutations_are_errors_and_nothing_worse() {
    let mut random = Random::new(1, "garbage");
    let binary = blktrace(false);
    let seeds: [(Format, &[u8]); 5] = [
        (Format::Blktrace, &binary),
        (Format::Blkparse, BLKPARSE.as_bytes()),
        (Format::Msr, MSR.as_bytes()),
        (Format::Iolog, IOLOG2.as_bytes()),
        (Format::Iolog, IOLOG3.as_bytes()),
    ];
    let (mut good, mut bad) = (0, 0);
    for round in 0..20_000 {
        let (format, seed) = seeds[round % seeds.len()];
        let mut bytes = seed.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at + 1),
                2 => drop(bytes.remove(at)),
                _ => bytes[at] = b"0123456789,.+ \n"[random.below(15) as usize],
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        let mut trace = Ordered::new(InputTrace::new("a", format, &bytes[..]).expect("it"), format);
        match Survey::of(&mut trace, |_| ()) {
            Ok(survey) => {
                assert!(survey.requests_count > 0);
                good += 1;
            }
            Err(error) => {
                assert!(!error.message.is_empty());
                bad += 1;
            }
        }
    }
    assert!(good > 1_000 && bad > 1_000, "{good} good, {bad} bad");
}

#[test]
fn a_little_disorder_is_put_right_and_a_lot_is_refused() {
    let line = |at: u64| format!("{at} /f read 0 512\n");
    let ordered = |times: &[u64]| {
        let lines: String = times.iter().map(|at| line(*at)).collect();
        let text = format!("fio version 3 iolog\n{lines}");
        let trace = InputTrace::new("a", Format::Iolog, text.as_bytes()).expect("a trace");
        let all = Ordered::new(trace, Format::Iolog).map(|r| r.map(|r| r.at.0 / 1_000));
        all.collect::<Result<Vec<u64>, InputError>>()
    };
    assert_eq!(ordered(&[5, 3, 4, 1]), Ok(vec![1, 3, 4, 5]));
    let mut far: Vec<u64> = (10..10 + WINDOW as u64).collect();
    far.extend([20_000, 1]);
    let error = ordered(&far).expect_err("too far").to_string();
    assert!(error.starts_with("a:4099: time runs back by"), "{error}");
    assert!(error.contains("sort"), "{error}");
}

/// A million lines of MSR's format, made as they are read.
struct Million {
    number: u64,
    line: Vec<u8>,
    at: usize,
}

impl Read for Million {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() {
            let n = self.number;
            if n == 1_000_000 {
                return Ok(0);
            }
            // Neighbours are out of order.
            let time = (n ^ 1) * 10;
            self.line = format!("{time},h{},1,Write,{},4096,9\n", n % 100, n * 4_096).into_bytes();
            (self.at, self.number) = (0, n + 1);
        }
        let size = buffer.len().min(self.line.len() - self.at);
        buffer[..size].copy_from_slice(&self.line[self.at..self.at + size]);
        self.at += size;
        Ok(size)
    }
}

#[test]
fn a_million_requests_are_surveyed_one_by_one() {
    let million = Million { number: 0, line: Vec::new(), at: 0 };
    let trace = InputTrace::new("a", Format::Msr, BufReader::new(million)).expect("a trace");
    let mut ticks = 0;
    let survey = Survey::of(&mut Ordered::new(trace, Format::Msr), |_| ticks += 1);
    let survey = survey.expect("legal");
    assert_eq!((survey.requests_count, survey.bytes.0), (1_000_000, 4_096_000_000));
    assert_eq!((survey.first, survey.length.0), (Nanos(0), 999_999_000));
    assert_eq!((survey.streams.len(), survey.volumes.len(), ticks), (100, 100, 15));
    assert_eq!(survey.depth, Some(1), "900 ns each, one every 1000 ns");
}
