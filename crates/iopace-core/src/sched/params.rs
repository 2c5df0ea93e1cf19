//! Typed, documented, bounded parameters of a scheduler, changeable while it runs.

use crate::limits::PARAMETERS_MAX;
use crate::time::Nanos;
use core::fmt;
use std::collections::BTreeMap;

/// What one parameter is. Values are whole numbers; a switch is 0 or 1.
#[derive(Debug, PartialEq, Eq)]
pub struct ParamSpec {
    /// Its name, as in `--set name=value`.
    pub name: &'static str,
    /// Its unit as a word: `ms`, `KiB`, `requests`, `0/1`.
    pub unit: &'static str,
    /// Smallest legal value.
    pub min: u64,
    /// The value without any setting.
    pub default: u64,
    /// Largest legal value.
    pub max: u64,
    /// What it does and why the default is what it is, in one or two sentences.
    pub doc: &'static str,
}

impl ParamSpec {
    /// A parameter with its least, default and largest value.
    pub const fn new(
        name: &'static str,
        unit: &'static str,
        [min, default, max]: [u64; 3],
        doc: &'static str,
    ) -> ParamSpec {
        ParamSpec { name, unit, min, default, max, doc }
    }
}

/// One value for each [`ParamSpec`] of an algorithm, always within its bounds.
#[derive(Clone, PartialEq, Eq)]
pub struct Params {
    specs: &'static [ParamSpec],
    values: [u64; PARAMETERS_MAX],
}

impl Params {
    /// All defaults.
    pub fn defaults(specs: &'static [ParamSpec]) -> Params {
        assert!(specs.len() <= PARAMETERS_MAX, "too many parameters: raise PARAMETERS_MAX");
        let mut values = [0; PARAMETERS_MAX];
        for (value, spec) in values.iter_mut().zip(specs) {
            *value = spec.default;
        }
        Params { specs, values }
    }

    /// The value of the parameter at `index` of the specs.
    pub fn get(&self, index: usize) -> u64 {
        assert!(index < self.specs.len(), "no parameter {index}");
        self.values[index]
    }

    /// The value of the parameter of that name.
    ///
    /// # Panics
    /// If there is none.
    pub fn value(&self, name: &str) -> u64 {
        let index = self.specs.iter().position(|spec| spec.name == name);
        self.values[index.unwrap_or_else(|| panic!("no parameter '{name}'"))]
    }

    /// The time of that name, a parameter in milliseconds.
    ///
    /// # Panics
    /// If there is none.
    pub fn millis(&self, name: &str) -> Nanos {
        Nanos::from_millis(self.value(name))
    }

    /// Whether the switch at `index` is on.
    pub fn is_on(&self, index: usize) -> bool {
        self.get(index) != 0
    }

    /// Sets one parameter by name.
    ///
    /// # Errors
    /// An unknown name or a value out of bounds; nothing is changed then.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), ParamError> {
        let Some(index) = self.specs.iter().position(|spec| spec.name == name) else {
            return Err(ParamError::Unknown { name: name.into(), specs: self.specs });
        };
        let spec = &self.specs[index];
        if !(spec.min..=spec.max).contains(&value) {
            return Err(ParamError::OutOfBounds { spec, value });
        }
        self.values[index] = value;
        Ok(())
    }

    /// Sets several parameters by name.
    ///
    /// # Errors
    /// The first that is wrong; nothing is changed then.
    pub fn merge(&mut self, changes: &Changes) -> Result<(), ParamError> {
        let mut merged = self.clone();
        changes.iter().try_for_each(|(name, value)| merged.set(name, *value))?;
        *self = merged;
        Ok(())
    }

    /// All values, as changes.
    pub fn changes(&self) -> Changes {
        self.iter().map(|(spec, value)| (spec.name.into(), value)).collect()
    }

    /// Each spec with its present value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static ParamSpec, u64)> + '_ {
        self.specs.iter().zip(self.values.iter().copied())
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(spec, value)| (spec.name, value))).finish()
    }
}

/// New values of parameters by name; the others stay.
pub type Changes = BTreeMap<String, u64>;

/// Why a parameter was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// The algorithm has no such parameter.
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        specs: &'static [ParamSpec],
    },
    /// The value is outside the bounds.
    OutOfBounds {
        /// The parameter.
        spec: &'static ParamSpec,
        /// What was asked for.
        value: u64,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamError::Unknown { name, specs: [] } => {
                write!(f, "no parameter '{name}': this scheduler has none")
            }
            ParamError::Unknown { name, specs } => {
                write!(f, "no parameter '{name}'; there are: ")?;
                for (i, spec) in specs.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, spec.name)?;
                }
                Ok(())
            }
            ParamError::OutOfBounds { spec, value } => write!(
                f,
                "{}={value} is out of bounds: {} to {} {}",
                spec.name, spec.min, spec.max, spec.unit
            ),
        }
    }
}

impl std::error::Error for ParamError {}

#[cfg(test)]
mod tests {
    use super::*;

    static SPECS: [ParamSpec; 2] = [
        ParamSpec { name: "wait_ms", unit: "ms", min: 1, default: 10, max: 30, doc: "wait" },
        ParamSpec { name: "bypass", unit: "0/1", min: 0, default: 0, max: 1, doc: "off" },
    ];

    #[test]
    fn a_bad_value_changes_nothing_and_names_the_bounds() {
        let mut params = Params::defaults(&SPECS);
        let error = params.set("wait_ms", 31).expect_err("too large");
        assert_eq!(error.to_string(), "wait_ms=31 is out of bounds: 1 to 30 ms");
        assert_eq!(params, Params::defaults(&SPECS));
        params.set("wait_ms", 30).expect("legal");
        assert_eq!(params.get(0), 30);
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let error = Params::defaults(&SPECS).set("wait", 3).expect_err("unknown");
        assert_eq!(error.to_string(), "no parameter 'wait'; there are: wait_ms, bypass");
        let error = Params::defaults(&[]).set("wait", 3).expect_err("unknown");
        assert_eq!(error.to_string(), "no parameter 'wait': this scheduler has none");
    }
}
