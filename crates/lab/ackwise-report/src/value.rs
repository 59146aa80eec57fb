//! A number or a word in tables of experiments.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::format::short;

/// A published or measured value: a number or a word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number in the experiment's unit.
    Number(f64),
    /// A finding that is not a number: `"completes"`, `"no reset"`.
    Text(String),
}

impl Value {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(v) => Some(*v),
            Value::Text(_) => None,
        }
    }
}

/// A number that is not finite cannot be represented in JSON and becomes the word `undefined`.
impl From<f64> for Value {
    fn from(v: f64) -> Value {
        if v.is_finite() {
            Value::Number(v)
        } else {
            Value::Text("undefined".to_owned())
        }
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Value {
        Value::Text(v.to_owned())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Value {
        Value::Text(v)
    }
}

/// Numbers with at most four significant digits; words unchanged.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(v) if v.abs() < 10_000.0 => {
                let digits = match v.abs() {
                    a if a >= 1000.0 => 0,
                    a if a >= 100.0 => 1,
                    a if a >= 10.0 => 2,
                    _ => 3,
                };
                let text = format!("{v:.digits$}");
                let text = match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.'),
                    false => &text,
                };
                f.write_str(if text == "-0" { "0" } else { text })
            }
            Value::Number(v) => f.write_str(&short(*v)),
            Value::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_what_a_paper_prints() {
        for (v, text) in [
            (9.24, "9.24"),
            (8.039, "8.039"),
            (0.413, "0.413"),
            (270.0, "270"),
            (14_000.0, "14\u{202f}000"),
            (-0.000_01, "0"),
            (61.92, "61.92"),
        ] {
            assert_eq!(Value::from(v).to_string(), text);
        }
    }
}
