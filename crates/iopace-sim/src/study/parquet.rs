//! Columns, as those of [`super::columns`], as a Parquet file: one row group.

use super::columns::{Cells, Column};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::sync::Arc;

/// The bytes of the file; `name` is that of its schema.
///
/// # Errors
/// The library cannot write it.
pub fn parquet(name: &str, columns: &[Column]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(field).collect::<Result<Vec<Arc<Type>>, ParquetError>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut cells) = group.next_column()? else { break };
        write(&mut cells, column)?;
        cells.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match column.cells {
        Cells::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Cells::Count(_) => (Physical::INT64, None),
        Cells::Figure(_) => (Physical::DOUBLE, None),
    };
    let builder = Type::primitive_type_builder(&column.name, physical);
    let field = builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build()?;
    Ok(Arc::new(field))
}

/// The values that are there, and for each row whether it has one.
fn split<C, T>(cells: &[Option<C>], value: impl Fn(&C) -> T) -> (Vec<T>, Vec<i16>) {
    let levels = cells.iter().map(|cell| i16::from(cell.is_some()));
    (cells.iter().flatten().map(value).collect(), levels.collect())
}

fn write(cells: &mut SerializedColumnWriter<'_>, column: &Column) -> Result<(), ParquetError> {
    match &column.cells {
        Cells::Text(all) => {
            let (values, levels) = split(all, |text| ByteArray::from(text.as_str()));
            cells.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
        }
        Cells::Count(all) => {
            let (values, levels) = split(all, |count| i64::try_from(*count).unwrap_or(i64::MAX));
            cells.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        Cells::Figure(all) => {
            let (values, levels) = split(all, |figure| figure.as_f64());
            cells.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
        }
    }
    Ok(())
}
