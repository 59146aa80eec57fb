//! Converts Python values to TOML.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyRange, PyString, PyTuple};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

use crate::number;

/// How deep dicts and lists may be nested. A dict that contains itself has no end.
const MAX_DEPTH: usize = 32;

/// Converts a dict to a whole file.
pub fn document(dict: &Bound<'_, PyDict>) -> PyResult<DocumentMut> {
    Ok(DocumentMut::from(table(dict, "", 0)?))
}

/// Converts a value at `path`, which errors name. A list of dicts becomes a list of tables.
pub fn item(value: &Bound<'_, PyAny>, path: &str) -> PyResult<Item> {
    item_at(value, path, 0)
}

fn item_at(value: &Bound<'_, PyAny>, path: &str, depth: usize) -> PyResult<Item> {
    let value = &builtin(value)?;
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Item::Table(table(dict, path, deeper(depth, path)?)?));
    }
    let entries = list(value)?;
    if let Some(entries) = &entries
        && !entries.is_empty()
        && entries.iter().all(|entry| entry.is_instance_of::<PyDict>())
    {
        let depth = deeper(depth, path)?;
        let mut tables = ArrayOfTables::new();
        for (at, entry) in entries.iter().enumerate() {
            let dict = entry.cast::<PyDict>()?;
            tables.push(table(dict, &format!("{path}[{at}]"), depth)?);
        }
        return Ok(Item::ArrayOfTables(tables));
    }
    Ok(Item::Value(plain(value, path, depth)?))
}

/// The depth of what a dict or a list at `path` contains.
fn deeper(depth: usize, path: &str) -> PyResult<usize> {
    if depth == MAX_DEPTH {
        return Err(PyValueError::new_err(format!(
            "{path}: dicts and lists can be {MAX_DEPTH} levels deep; does one contain itself?"
        )));
    }
    Ok(depth + 1)
}

/// The value itself, or what a number or an array of NumPy has instead: a Python number, or a list.
fn builtin<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match value.getattr_opt(intern!(value.py(), "tolist"))? {
        Some(tolist) if !value.is_instance_of::<PyDict>() => tolist.call0(),
        _ => Ok(value.clone()),
    }
}

fn table(dict: &Bound<'_, PyDict>, path: &str, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in dict {
        let (key, path) = name(&key, path)?;
        table.insert(&key, item_at(&value, &path, depth)?);
    }
    Ok(table)
}

fn name(key: &Bound<'_, PyAny>, path: &str) -> PyResult<(String, String)> {
    let Ok(key) = key.cast::<PyString>() else {
        let within = if path.is_empty() { "a scenario" } else { path };
        let kind = key.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{within}: a key must be a str, not {kind}"
        )));
    };
    let key: String = key.extract()?;
    let path = match path {
        "" => key.clone(),
        _ => format!("{path}.{key}"),
    };
    Ok((key, path))
}

/// The entries of a list, a tuple or a range; `None` for other values.
fn list<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyRange>()
    {
        return value.try_iter()?.collect::<PyResult<_>>().map(Some);
    }
    Ok(None)
}

fn plain(value: &Bound<'_, PyAny>, path: &str, depth: usize) -> PyResult<Value> {
    let value = &builtin(value)?;
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.into());
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract::<i64>().map_err(|_| {
            PyValueError::new_err(format!(
                "{path} must be from {} to {}, not {}",
                i64::MIN,
                i64::MAX,
                number::shown(value)
            ))
        });
        return Ok(number?.into());
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(value.extract::<f64>()?.into());
    }
    if value.is_instance_of::<PyString>() {
        return Ok(value.extract::<String>()?.into());
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let depth = deeper(depth, path)?;
        let mut table = InlineTable::new();
        for (key, value) in dict {
            let (key, path) = name(&key, path)?;
            table.insert(&key, plain(&value, &path, depth)?);
        }
        return Ok(table.into());
    }
    if let Some(entries) = list(value)? {
        let depth = deeper(depth, path)?;
        let mut array = Array::new();
        for (at, entry) in entries.iter().enumerate() {
            array.push(plain(entry, &format!("{path}[{at}]"), depth)?);
        }
        return Ok(array.into());
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{path}: a value must be a str, int, float, bool, list or dict, not {kind}"
    )))
}
