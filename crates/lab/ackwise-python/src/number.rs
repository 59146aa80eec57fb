//! Whole numbers from Python, with bounds that the errors name.

use std::fmt::Display;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A whole number from 0 to `most`; `name` is its name in Python.
pub fn whole<'py, T>(value: &Bound<'py, PyAny>, name: &str, most: T) -> PyResult<T>
where
    T: Display + PartialOrd + for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match value.extract::<T>() {
        Ok(number) if number <= most => Ok(number),
        Err(error) if !is_out_of_range(value.py(), &error) => Err(no_number(value, name)),
        _ => Err(PyValueError::new_err(format!(
            "{name} must be from 0 to {most}, not {}",
            shown(value)
        ))),
    }
}

/// Whether an error of `extract` means that a whole number is out of range for its type.
pub fn is_out_of_range(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyOverflowError>(py)
}

/// The error for a value that is not a whole number.
pub fn no_number(value: &Bound<'_, PyAny>, name: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{name} must be a whole number, not {}",
        shown(value)
    ))
}

/// A value as shown in errors.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    // Python refuses to print numbers with very many digits.
    let shown = value.repr().map(|it| it.to_string());
    shown.unwrap_or_else(|_| "a number of more digits than Python prints".to_owned())
}
