//! An Arrow table for Python.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

/// A table.
#[pyclass(frozen, module = "ackwise._native")]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    /// The table with these columns.
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

fn refused(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The value of a key in a field's metadata, or an empty text.
fn metadata(field: &Field, key: &str) -> String {
    field.metadata().get(key).cloned().unwrap_or_default()
}

fn type_name(field: &Field) -> &'static str {
    match field.data_type() {
        DataType::Int64 => "int64",
        DataType::Float64 => "float64",
        DataType::Boolean => "bool",
        DataType::Utf8 => "string",
        _ => "list<string>",
    }
}

/// The value of a cell; `None` if it is empty.
fn cell(py: Python<'_>, array: &dyn Array, row: usize) -> PyResult<Py<PyAny>> {
    if array.is_null(row) {
        return Ok(py.None());
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into_py_any(py),
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .value(row)
            .into_py_any(py),
        DataType::Boolean => array.as_boolean().value(row).into_py_any(py),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_py_any(py),
        _ => {
            let texts = array.as_list::<i32>().value(row);
            let texts: Vec<Option<&str>> = texts.as_string::<i32>().iter().collect();
            texts.into_py_any(py)
        }
    }
}

#[pymethods]
impl Table {
    /// The Arrow PyCapsule interface: the whole as a stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A request that need not be met, according to the interface.
        drop(requested_schema);
        let batches = vec![Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The Arrow PyCapsule interface: the schema alone.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref());
        PyCapsule::new_with_value(py, schema.map_err(|e| refused(&e))?, c"arrow_schema")
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Name, type, whether cells may be empty, unit and description of each column.
    fn columns(&self) -> Vec<(String, &'static str, bool, String, String)> {
        let schema = self.batch.schema();
        let fields = schema.fields().iter();
        fields
            .map(|field| {
                let (unit, about) = (metadata(field, "unit"), metadata(field, "description"));
                let name = field.name().clone();
                (name, type_name(field), field.is_nullable(), unit, about)
            })
            .collect()
    }

    /// The values of each column.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (field, array) in self
            .batch
            .schema()
            .fields()
            .iter()
            .zip(self.batch.columns())
        {
            let cells = PyList::empty(py);
            for row in 0..array.len() {
                cells.append(cell(py, array, row)?)?;
            }
            dict.set_item(field.name(), cells)?;
        }
        Ok(dict)
    }

    /// The rows.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let schema = self.batch.schema();
        (0..self.batch.num_rows())
            .map(|row| {
                let dict = PyDict::new(py);
                for (field, array) in schema.fields().iter().zip(self.batch.columns()) {
                    dict.set_item(field.name(), cell(py, array, row)?)?;
                }
                Ok(dict)
            })
            .collect()
    }
}
