//! Whether a model is fit for prediction, by what it was measured to be off.

use super::fit::{Row, mean_error};
use std::fmt;

/// Largest mean error of a model that is fit for prediction, in thousandths. A change of policy is
/// worth making from a difference of about a fifth on; two predictions that are each a tenth off,
/// one upwards and one downwards, hide just that.
pub const MEAN_ERROR_MAX: u64 = 100;

/// Largest error of a single figure, in thousandths: a load may consist of that step alone, and a
/// database's commits are flushes. Real disks scatter by a tenth or two from run to run.
pub const WORST_ERROR_MAX: u64 = 300;

/// How far off a model is, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fitness {
    /// The mean of all errors without their signs, in thousandths.
    pub mean_permille: u64,
    /// The figure that is off most.
    pub worst: Option<Row>,
}

impl Fitness {
    /// That of a model with these figures.
    pub fn of(rows: &[Row]) -> Fitness {
        // Of equals the first one.
        let worst = rows.iter().rev().max_by_key(|row| row.error_permille.unsigned_abs());
        Fitness { mean_permille: mean_error(rows), worst: worst.copied() }
    }

    fn worst_permille(&self) -> u64 {
        self.worst.map_or(u64::MAX, |row| row.error_permille.unsigned_abs())
    }

    /// Whether predictions may be made with it.
    pub fn is_fit(&self) -> bool {
        self.mean_permille <= MEAN_ERROR_MAX && self.worst_permille() <= WORST_ERROR_MAX
    }
}

fn percent(permille: u64) -> String {
    match permille % 10 {
        0 => format!("{} %", permille / 10),
        tenth => format!("{}.{tenth} %", permille / 10),
    }
}

impl fmt::Display for Fitness {
    /// One sentence, with the bound that decides and its reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mean, worst) = (percent(self.mean_permille), percent(self.worst_permille()));
        let (mean_max, worst_max) = (percent(MEAN_ERROR_MAX), percent(WORST_ERROR_MAX));
        let Some(row) = self.worst else {
            return write!(f, "not fit for prediction: no figure was compared");
        };
        let step = row.real.step;
        if self.mean_permille > MEAN_ERROR_MAX {
            return write!(
                f,
                "not fit for prediction: the mean error is {mean}, above {mean_max} two \
                 predictions may hide a difference of a fifth (worst: {step}, {worst})"
            );
        }
        if self.worst_permille() > WORST_ERROR_MAX {
            return write!(
                f,
                "not fit for prediction: {step} is off by {worst}, above {worst_max} a load that \
                 does mostly this is not predicted (mean error {mean})"
            );
        }
        write!(
            f,
            "fit for prediction: the mean error is {mean}, at most {mean_max}; the worst, {step}, \
             is off by {worst}, at most {worst_max}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Figure, plan};
    use super::*;
    use iopace_core::time::Nanos;

    fn rows(errors: &[i64]) -> Vec<Row> {
        let of = |(error, step): (&i64, _)| {
            let (low, high) = (Nanos::ZERO, Nanos::ZERO);
            let real = Figure { step, value: 1_000, requests_count: 9, low, high };
            Row { real, modelled: 0, error_permille: *error }
        };
        errors.iter().zip(plan(false)).map(of).collect()
    }

    #[test]
    fn a_model_is_fit_up_to_its_bounds_and_says_which_one_it_misses() {
        let of = |errors: &[i64]| Fitness::of(&rows(errors));
        assert!(of(&[100, -100]).is_fit() && of(&[-300, 0, 0]).is_fit());
        let far = of(&[348, -348]);
        assert!(!far.is_fit());
        let text = "not fit for prediction: the mean error is 34.8 %, above 10 %";
        assert!(far.to_string().starts_with(text), "{far}");
        let one = of(&[0, 0, 0, -301]);
        assert!(!one.is_fit() && one.to_string().contains("is off by 30.1 %, above 30 %"), "{one}");
        let fit = of(&[20, -40]);
        assert!(fit.to_string().starts_with("fit for prediction: the mean error is 3 %"), "{fit}");
        assert!(!of(&[]).is_fit(), "nothing was shown");
    }
}
