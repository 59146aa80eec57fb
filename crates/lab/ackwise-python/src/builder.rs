//! Builds Arrow tables from a record.

use std::collections::HashMap;
use std::sync::Arc;

use ackwise_scenario::record::Report;
use ackwise_scenario::tables::{Column, TABLES, Values};
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, Field, Schema};

/// A table of a record; the metadata of its fields hold units and meanings.
pub fn table(report: &Report, name: &str) -> Result<RecordBatch, ArrowError> {
    let Some(columns) = report.table(name) else {
        return Err(ArrowError::InvalidArgumentError(format!(
            "there is no table '{name}'; there are {}",
            TABLES.join(", ")
        )));
    };
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in columns {
        let array = array(&column.values);
        fields.push(field(&column, &array));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn field(column: &Column, array: &ArrayRef) -> Field {
    let mut metadata = HashMap::from([("description".to_owned(), column.about.clone())]);
    if !column.unit.is_empty() {
        metadata.insert("unit".to_owned(), column.unit.to_owned());
    }
    let kind = array.data_type().clone();
    Field::new(&column.name, kind, column.optional).with_metadata(metadata)
}

fn array(values: &Values) -> ArrayRef {
    match values {
        Values::Text(cells) => Arc::new(cells.iter().map(Option::as_ref).collect::<StringArray>()),
        Values::Texts(cells) => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for texts in cells {
                lists.append_value(texts.iter().map(Some));
            }
            Arc::new(lists.finish())
        }
        Values::Count(cells) => {
            let cells = cells.iter().map(|cell| cell.map(signed));
            Arc::new(cells.collect::<Int64Array>())
        }
        Values::Number(cells) => Arc::new(cells.iter().copied().collect::<Float64Array>()),
        Values::Flag(cells) => Arc::new(cells.iter().copied().collect::<BooleanArray>()),
    }
}

/// Counters are signed, so that differences can be taken; no counter is too large for that.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
