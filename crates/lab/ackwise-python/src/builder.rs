//! Arrow columns from rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};

/// Columns of as many cells as there are rows. The methods without `maybe` are for columns of
/// which every cell has a value.
pub struct Columns<'a, R> {
    rows: &'a [R],
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl<'a, R> Columns<'a, R> {
    /// None yet.
    pub fn new(rows: &'a [R]) -> Self {
        Self {
            rows,
            fields: Vec::new(),
            arrays: Vec::new(),
        }
    }

    /// A text.
    pub fn text<'r>(&mut self, name: &str, about: &str, read: impl Fn(&'a R) -> &'r str)
    where
        'a: 'r,
    {
        let cells = self.rows.iter().map(|row| Some(read(row)));
        let array = Arc::new(cells.collect::<StringArray>());
        self.push(name, "", about, false, array);
    }

    /// A text that may be missing.
    pub fn maybe_text(&mut self, name: &str, about: &str, read: impl Fn(&R) -> Option<String>) {
        let array = Arc::new(self.rows.iter().map(read).collect::<StringArray>());
        self.push(name, "", about, true, array);
    }

    /// A list of texts.
    pub fn texts(&mut self, name: &str, about: &str, read: impl Fn(&R) -> &Vec<String>) {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in self.rows {
            lists.append_value(read(row).iter().map(Some));
        }
        self.push(name, "", about, false, Arc::new(lists.finish()));
    }

    /// A whole number.
    pub fn whole(&mut self, name: &str, unit: &'static str, about: &str, read: impl Fn(&R) -> u64) {
        let cells = self.rows.iter().map(|row| signed(read(row)));
        let array = Arc::new(cells.map(Some).collect::<Int64Array>());
        self.push(name, unit, about, false, array);
    }

    /// A whole number that may be missing.
    pub fn maybe_whole(
        &mut self,
        name: &str,
        unit: &'static str,
        about: &str,
        read: impl Fn(&R) -> Option<u64>,
    ) {
        let cells = self.rows.iter().map(|row| read(row).map(signed));
        self.push(
            name,
            unit,
            about,
            true,
            Arc::new(cells.collect::<Int64Array>()),
        );
    }

    /// A number.
    pub fn number(
        &mut self,
        name: &str,
        unit: &'static str,
        about: &str,
        read: impl Fn(&R) -> f64,
    ) {
        let cells = self.rows.iter().map(|row| Some(read(row)));
        let array = Arc::new(cells.collect::<Float64Array>());
        self.push(name, unit, about, false, array);
    }

    /// A number that may be missing.
    pub fn maybe_number(
        &mut self,
        name: &str,
        unit: &'static str,
        about: &str,
        read: impl Fn(&R) -> Option<f64>,
    ) {
        let array = Arc::new(self.rows.iter().map(read).collect::<Float64Array>());
        self.push(name, unit, about, true, array);
    }

    /// Yes or no, or neither.
    pub fn maybe_truth(&mut self, name: &str, about: &str, read: impl Fn(&R) -> Option<bool>) {
        let array = Arc::new(self.rows.iter().map(read).collect::<BooleanArray>());
        self.push(name, "", about, true, array);
    }

    fn push(&mut self, name: &str, unit: &str, about: &str, nullable: bool, array: ArrayRef) {
        let mut said = HashMap::from([("description".to_owned(), about.to_owned())]);
        if !unit.is_empty() {
            said.insert("unit".to_owned(), unit.to_owned());
        }
        let kind: DataType = array.data_type().clone();
        let field = Field::new(name, kind, nullable);
        self.fields.push(field.with_metadata(said));
        self.arrays.push(array);
    }

    /// The table of these columns.
    pub fn batch(self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }
}

/// Differences of counters are taken, so that they are signed; none is that large.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
