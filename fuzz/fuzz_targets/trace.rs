//! Any bytes as a trace: the first says which format, and how large the pieces are.
#![no_main]

use iopace_core::request::Op;
use iopace_sim::inputs::{Format, InputTrace, LEN_MAX, Record};
use libfuzzer_sys::fuzz_target;
use std::io::{BufRead, BufReader};

const FORMATS: [Format; 4] = [Format::Iolog, Format::Blktrace, Format::Blkparse, Format::Msr];

/// All records up to the first mistake, and whether there was one.
fn read(format: Format, reader: impl BufRead + Send) -> (Vec<Record>, Option<String>) {
    let mut trace = InputTrace::new("a", format, reader).expect("not a job file");
    let (mut records, mut mistake) = (Vec::new(), None);
    while let Some(next) = trace.next() {
        assert!(mistake.is_none(), "nothing comes after a mistake");
        match next {
            Ok(record) => records.push(record),
            Err(error) => {
                assert!(error.place.is_some() && !error.message.is_empty());
                mistake = Some(error.to_string());
            }
        }
    }
    let names = trace.names();
    for record in &records {
        assert!((record.stream as usize) < names.streams().len());
        assert!((record.volume as usize) < names.volumes().len());
        if record.op != Op::Flush {
            assert!(record.len.0 > 0 && record.offset.0.checked_add(record.len.0).is_some());
            assert!(record.op == Op::Trim || record.len <= LEN_MAX);
        }
    }
    (records, mistake)
}

fuzz_target!(|input: &[u8]| {
    let _ = Format::detect(input);
    let Some((&how, bytes)) = input.split_first() else {
        return;
    };
    let format = FORMATS[usize::from(how % 4)];
    let piece = 1 + usize::from(how / 4);
    let whole = read(format, bytes);
    assert_eq!(whole, read(format, BufReader::with_capacity(piece, bytes)), "piece by piece");
});
