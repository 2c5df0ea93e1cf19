use super::*;
use crate::faulty::{FaultRates, Faulty};
use crate::model::Model;
use crate::presets;
use crate::ssd::SsdConfig;
use iopace_core::time::Nanos;

/// What a disk of ten seconds per step would show, and not more than virtual time is worth.
const LIMITS: Limits = Limits { time: Nanos::from_secs(10), requests_count: 20_000 };

fn measured(name: &str, may_write: bool) -> (Bytes, Vec<Figure>) {
    let mut disk = TimedModel::new((presets::find(name).expect("a preset").build)());
    let steps = plan(may_write);
    let figures = steps.iter().map(|step| measure(&mut disk, *step, LIMITS));
    let figures = figures.collect::<Result<Vec<Figure>, Trouble>>().expect("no model fails");
    (disk.capacity(), figures)
}

fn refitted(name: &str, may_write: bool) -> (Fitted, Vec<Row>) {
    let (capacity, figures) = measured(name, may_write);
    let fit = fit(&Fit { capacity, figures: &figures, kernel_says_rotational: None });
    let fitted = fit.expect("all was measured");
    let rows = compare(&fitted.model, &figures);
    assert_eq!(rows.len(), figures.len());
    (fitted, rows)
}

/// Every figure of the fitted model is within `worst` permille of the original's, on average within
/// `mean`.
fn holds(name: &str, may_write: bool, mean: u64, worst: u64) -> Fitted {
    let (fitted, rows) = refitted(name, may_write);
    let text: Vec<String> = rows
        .iter()
        .map(|row| {
            let (step, real) = (row.real.step, row.real.value);
            format!("{step:<30} {real:>12} {:>12} {:>6}", row.modelled, row.error_permille)
        })
        .collect();
    let text =
        format!("{name}: {:#?}\n{}\nmean {}", fitted.model, text.join("\n"), mean_error(&rows));
    assert!(mean_error(&rows) <= mean, "{text}");
    let bad = rows.iter().find(|row| row.error_permille.unsigned_abs() > worst);
    assert!(bad.is_none(), "{bad:?}\n{text}");
    fitted
}

/// A parameter of the fitted model is within `permille` of the preset's.
fn recovers(fitted: &Fitted, name: &str, parameter: &str, permille: u64) {
    let preset = presets::find(name).expect("a preset");
    let original = preset.parameters.iter().find(|p| p.name == parameter).expect("it has it").value;
    let value = fitted.model.value(parameter).expect("it has it");
    let within = value.abs_diff(original) * 1000 <= original * permille;
    assert!(within, "{name}: {parameter} is {original}, found {value}");
}

#[test]
fn a_disk_with_a_head_is_found_again() {
    let fitted = holds("hdd-sata-250g", true, 30, 100);
    assert_eq!(fitted.nature, Nature::Rotational);
    for parameter in ["rotation", "rate_outer", "rate_inner", "overhead", "rate_bus", "depth"] {
        recovers(&fitted, "hdd-sata-250g", parameter, 20);
    }
    for parameter in ["seek_average", "seek_full", "write_permille"] {
        recovers(&fitted, "hdd-sata-250g", parameter, 100);
    }
}

#[test]
fn a_sata_flash_disk_is_found_again() {
    let fitted = holds("ssd-sata", true, 30, 100);
    assert_eq!(fitted.nature, Nature::Flash);
    for parameter in ["units", "command_time", "read_time", "rate_bus", "program_time"] {
        recovers(&fitted, "ssd-sata", parameter, 100);
    }
}

#[test]
fn the_time_of_a_flush_is_found_again() {
    let Model::Ssd(config) = presets::find("ssd-sata").expect("a preset").config else {
        panic!("a flash disk")
    };
    let flush_time = Nanos::from_micros(2_500);
    let mut disk = TimedModel::new(Model::Ssd(SsdConfig { flush_time, ..config }).build());
    let figures = plan(true).into_iter().map(|step| measure(&mut disk, step, LIMITS));
    let figures = figures.collect::<Result<Vec<Figure>, Trouble>>().expect("no model fails");
    let fit =
        fit(&Fit { capacity: config.capacity, figures: &figures, kernel_says_rotational: None });
    let fitted = fit.expect("all was measured");
    let found = fitted.model.value("flush_time").expect("it has it");
    assert!(found.abs_diff(flush_time.0) <= flush_time.0 / 20, "{found}");
    assert!(fitted.sources["flush_time"].starts_with("measured:"), "{fitted:?}");
    for row in compare(&fitted.model, &figures) {
        let is_flush = matches!(row.real.step.kind, StepKind::Flush { .. });
        assert!(!is_flush || row.error_permille.abs() < 50, "{row:?}");
    }
}

#[test]
fn an_nvme_disk_is_found_again() {
    let fitted = holds("ssd-nvme", true, 30, 100);
    for parameter in ["units", "command_time", "read_time", "rate_bus", "program_time"] {
        recovers(&fitted, "ssd-nvme", parameter, 100);
    }
}

#[test]
fn without_writes_the_reads_are_right_and_the_rest_is_said_to_be_assumed() {
    let fitted = holds("hdd-sata-250g-ncq", false, 30, 100);
    assert_eq!(fitted.model.value("depth"), Some(31));
    assert!(fitted.sources["write_permille"].starts_with("assumed:"), "{fitted:?}");
    assert!(fitted.sources["seek_full"].starts_with("measured:"), "{fitted:?}");
    assert_eq!(fitted.sources.len(), fitted.model.values().len(), "each has a source");
    let (flash, _) = refitted("usb-key", false);
    assert_eq!((flash.nature, flash.model.value("depth")), (Nature::Flash, Some(1)));
    assert_eq!(flash.sources.len(), flash.model.values().len(), "each has a source");
}

#[test]
fn the_curve_tells_what_the_disk_is_and_the_kernel_only_where_there_is_none() {
    let (capacity, figures) = measured("ssd-sata", false);
    let wanted = Fit { capacity, figures: &figures, kernel_says_rotational: Some(true) };
    assert_eq!(fit(&wanted).expect("all was measured").nature, Nature::Flash);
    let is_distance = |figure: &&Figure| matches!(figure.step.kind, StepKind::Distance { .. });
    let rest: Vec<Figure> = figures.iter().filter(|f| !is_distance(f)).copied().collect();
    let wanted = Fit { figures: &rest, ..wanted };
    assert_eq!(fit(&wanted).expect("enough").nature, Nature::Rotational);
    // The first two steps are enough for a model, and one is not.
    fit(&Fit { figures: &figures[..2], ..wanted }).expect("enough");
    let error = fit(&Fit { figures: &figures[..1], ..wanted }).expect_err("too little");
    assert!(error.contains("random reads of 4 KiB at depth 1 is missing"), "{error}");
}

#[test]
fn a_disk_that_fails_is_no_figure() {
    let rates = FaultRates { error_permille: 500, ..FaultRates::default() };
    let disk = (presets::find("ssd-sata").expect("a preset").build)();
    let mut disk = TimedModel::new(Box::new(Faulty::new(disk, rates, 1)));
    for step in plan(true) {
        let found = measure(&mut disk, step, LIMITS);
        assert!(matches!(found, Err(Trouble::Failed(..))), "{step}: {found:?}");
    }
}
