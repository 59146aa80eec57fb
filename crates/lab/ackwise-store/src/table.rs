//! Runs as a Parquet table: the columns of `runs.csv`.

use std::io::Write;
use std::sync::Arc;

use ackwise_scenario::record::Report;
use ackwise_scenario::tables::{Column, Values};
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::error::StoreError;

/// Writes a report as a Parquet table: one row for each run, and one for each flow of a run with
/// several flows. The same report gives the same bytes.
///
/// # Errors
/// The writer fails.
pub fn write_report(report: &Report, to: impl Write + Send) -> std::result::Result<(), StoreError> {
    Ok(write(report, Vec::new(), to)?)
}

/// Writes a report as a Parquet table, with additional metadata for the file.
pub(crate) fn write(
    report: &Report,
    metadata: Vec<(&str, String)>,
    to: impl Write + Send,
) -> Result<()> {
    let metadata = metadata
        .into_iter()
        .map(|(name, text)| KeyValue::new(name.to_owned(), text))
        .collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("ackwise ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata))
        .build();
    let columns = report.runs_and_flows();
    let schema = Arc::new(schema(&columns)?);
    let mut file = SerializedFileWriter::new(to, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for Column { values, .. } in &columns {
        let column = group.next_column()?;
        let mut column = column.ok_or_else(|| ParquetError::General("no column".to_owned()))?;
        write_column(&mut column, values)?;
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn schema(columns: &[Column]) -> Result<Type> {
    let field = |column: &Column| {
        let (physical, converted, repetition) = match column.values {
            Values::Text(_) | Values::Texts(_) => (
                Physical::BYTE_ARRAY,
                ConvertedType::UTF8,
                Repetition::REQUIRED,
            ),
            Values::Count(_) => (
                Physical::INT64,
                ConvertedType::UINT_64,
                Repetition::OPTIONAL,
            ),
            Values::Number(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
            Values::Flag(_) => (Physical::BOOLEAN, ConvertedType::NONE, Repetition::OPTIONAL),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_converted_type(converted)
            .with_repetition(repetition);
        field.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    Type::group_type_builder("runs").with_fields(fields).build()
}

fn write_column(column: &mut SerializedColumnWriter<'_>, values: &Values) -> Result<()> {
    /// Definition levels: 1 for a known value, 0 for an unknown one.
    fn levels<T>(cells: &[Option<T>]) -> Vec<i16> {
        cells.iter().map(|it| i16::from(it.is_some())).collect()
    }
    match (column.untyped(), values) {
        (ColumnWriter::ByteArrayColumnWriter(writer), Values::Text(_) | Values::Texts(_)) => {
            let texts = (0..values.len()).map(|row| ByteArray::from(values.text(row).as_str()));
            writer.write_batch(&texts.collect::<Vec<_>>(), None, None)?;
        }
        (ColumnWriter::Int64ColumnWriter(writer), Values::Count(cells)) => {
            // Parquet stores the bits of an unsigned number in a signed one.
            let known = cells.iter().flatten().map(|it| it.cast_signed());
            writer.write_batch(&known.collect::<Vec<_>>(), Some(&levels(cells)), None)?;
        }
        (ColumnWriter::DoubleColumnWriter(writer), Values::Number(cells)) => {
            let known = cells.iter().flatten().copied();
            writer.write_batch(&known.collect::<Vec<_>>(), Some(&levels(cells)), None)?;
        }
        (ColumnWriter::BoolColumnWriter(writer), Values::Flag(cells)) => {
            let known = cells.iter().flatten().copied();
            writer.write_batch(&known.collect::<Vec<_>>(), Some(&levels(cells)), None)?;
        }
        _ => {
            return Err(ParquetError::General(
                "a column does not have the type of its values".to_owned(),
            ));
        }
    }
    Ok(())
}
