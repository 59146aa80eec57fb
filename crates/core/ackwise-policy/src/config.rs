//! A policy and the values of its parameters.

use std::fmt;
use std::str::FromStr;

use crate::{ConfigError, Param, Policy, sys};

/// A policy with a value for each of its parameters; every value is in range.
#[derive(Clone, Copy)]
pub struct Config {
    policy: Policy,
    raw: sys::aw_cfg,
}

impl Config {
    /// The policy with its defaults.
    pub fn new(policy: Policy) -> Config {
        let mut raw = sys::aw_cfg {
            policy: policy.id(),
            ..Default::default()
        };
        for param in policy.params() {
            raw.param[param.index] = param.default;
        }
        Config { policy, raw }
    }

    fn param(&self, name: &str) -> Result<&'static Param, ConfigError> {
        let params = self.policy.params();
        params
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| ConfigError::UnknownParam {
                policy: self.policy.name(),
                name: name.to_owned(),
                known: params.iter().map(|p| p.name).collect(),
            })
    }

    /// Sets a parameter from text written by a person.
    ///
    /// # Errors
    ///
    /// The policy has no such parameter, or the value is not a number in its range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let param = self.param(name)?;
        let number = value
            .trim()
            .parse::<u64>()
            .map_err(|_| ConfigError::NotANumber {
                policy: self.policy.name(),
                name: param.name,
                value: value.to_owned(),
            })?;
        self.set_number(name, number)
    }

    /// Sets a parameter.
    ///
    /// # Errors
    ///
    /// The policy has no such parameter, or the value is out of its range.
    pub fn set_number(&mut self, name: &str, value: u64) -> Result<(), ConfigError> {
        let param = self.param(name)?;
        let number = u32::try_from(value)
            .ok()
            .filter(|v| (param.min..=param.max).contains(v));
        self.raw.param[param.index] = number.ok_or(ConfigError::OutOfRange {
            policy: self.policy.name(),
            name: param.name,
            value,
            min: param.min,
            max: param.max,
            unit: param.unit,
        })?;
        Ok(())
    }

    /// The value of a parameter.
    ///
    /// # Errors
    ///
    /// The policy has no such parameter.
    pub fn get(&self, name: &str) -> Result<u32, ConfigError> {
        Ok(self.raw.param[self.param(name)?.index])
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The form that [`Config::from_str`] reads, with the parameters that are not at their defaults.
    pub fn brief(&self) -> String {
        let changed: Vec<String> = self
            .policy
            .params()
            .iter()
            .filter(|param| self.raw.param[param.index] != param.default)
            .map(|param| format!("{}={}", param.name, self.raw.param[param.index]))
            .collect();
        let name = self.policy.name();
        match changed.is_empty() {
            true => name.to_owned(),
            false => format!("{name}:{}", changed.join(",")),
        }
    }

    /// The C structure of the policy and its parameters.
    pub fn raw(&self) -> &sys::aw_cfg {
        &self.raw
    }
}

/// `every-n`, or `every-n:n=8,warm=0`.
impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Config, ConfigError> {
        let (name, params) = text.split_once(':').unwrap_or((text, ""));
        let mut config = Config::new(Policy::by_name(name.trim())?);
        for part in params.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| ConfigError::NotAPair {
                part: part.trim().to_owned(),
            })?;
            config.set(name.trim(), value)?;
        }
        Ok(config)
    }
}

/// The form that [`Config::from_str`] reads, with every parameter.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name())?;
        for (i, param) in self.policy.params().iter().enumerate() {
            let sign = if i == 0 { ':' } else { ',' };
            write!(f, "{sign}{}={}", param.name, self.raw.param[param.index])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({self})")
    }
}

impl PartialEq for Config {
    fn eq(&self, other: &Config) -> bool {
        self.policy == other.policy && self.raw.param == other.raw.param
    }
}

impl Eq for Config {}
