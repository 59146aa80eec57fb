//! Runs as a Parquet table: the columns of `runs.csv`.

use std::io::Write;
use std::sync::Arc;

use ackwise_scenario::record::Report;
use ackwise_scenario::tables::{Cell, CellKind, RUN_COLUMNS};
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::error::StoreError;

/// Writes a report as a Parquet table: a row for each run, and for each flow of a run that has
/// several. The same report gives the same bytes.
///
/// # Errors
/// The writer refuses.
pub fn write_report(report: &Report, to: impl Write + Send) -> std::result::Result<(), StoreError> {
    Ok(write(report, Vec::new(), to)?)
}

/// The same, with metadata of the file beside it.
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
    let rows: Vec<[Cell; RUN_COLUMNS.len()]> = report.run_rows().collect();
    let mut file = SerializedFileWriter::new(to, Arc::new(schema()?), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for index in 0..RUN_COLUMNS.len() {
        let column = group.next_column()?;
        let mut column = column.ok_or_else(|| ParquetError::General("no column".to_owned()))?;
        write_column(&mut column, rows.iter().map(|row| &row[index]))?;
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn schema() -> Result<Type> {
    let fields = RUN_COLUMNS.map(|(name, kind)| {
        let (physical, converted) = match kind {
            CellKind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            CellKind::Count => (Physical::INT64, ConvertedType::UINT_64),
            CellKind::Number => (Physical::DOUBLE, ConvertedType::NONE),
            CellKind::Flag => (Physical::BOOLEAN, ConvertedType::NONE),
        };
        let repetition = match kind {
            CellKind::Text => Repetition::REQUIRED,
            CellKind::Count | CellKind::Number | CellKind::Flag => Repetition::OPTIONAL,
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_converted_type(converted)
            .with_repetition(repetition);
        field.build().map(Arc::new)
    });
    let fields = fields.into_iter().collect::<Result<_>>()?;
    Type::group_type_builder("runs").with_fields(fields).build()
}

fn write_column<'a>(
    column: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = &'a Cell> + Clone,
) -> Result<()> {
    // 1 where there is a value, 0 where it is not known.
    let levels: Vec<i16> = cells
        .clone()
        .map(|cell| {
            let missing = matches!(
                cell,
                Cell::Count(None) | Cell::Number(None) | Cell::Flag(None)
            );
            i16::from(!missing)
        })
        .collect();
    match column.untyped() {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let texts = cells.map(|cell| match cell {
                Cell::Text(text) => ByteArray::from(text.as_str()),
                _ => ByteArray::from(""),
            });
            writer.write_batch(&texts.collect::<Vec<_>>(), None, None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let counts = cells.filter_map(|cell| match cell {
                // The bits of an unsigned number, as the format has it.
                Cell::Count(count) => count.map(u64::cast_signed),
                _ => None,
            });
            writer.write_batch(&counts.collect::<Vec<_>>(), Some(&levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let numbers = cells.filter_map(|cell| match cell {
                Cell::Number(number) => *number,
                _ => None,
            });
            writer.write_batch(&numbers.collect::<Vec<_>>(), Some(&levels), None)?;
        }
        ColumnWriter::BoolColumnWriter(writer) => {
            let flags = cells.filter_map(|cell| match cell {
                Cell::Flag(flag) => *flag,
                _ => None,
            });
            writer.write_batch(&flags.collect::<Vec<_>>(), Some(&levels), None)?;
        }
        _ => return Err(ParquetError::General("a column of another type".to_owned())),
    }
    Ok(())
}
