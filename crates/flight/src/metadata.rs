//! Requests about the server itself: catalogs, schemas, tables, types.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Command, CommandGetTables, Nullable, Searchable, SqlInfo, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, XdbcDataType,
};
use steplake::query::TableType;
use steplake_server::{Queries, Served};
use tonic::Status;

use crate::wire;

/// The name of the server.
const NAME: &str = "steplake";

/// The supported version of Arrow's own format.
const ARROW_VERSION: &str = "1.5";

/// Returns the rows that answer a command about the server; `None` for any other command.
///
/// # Errors
///
/// If the lake cannot be read, or Arrow cannot hold the rows.
pub(crate) async fn rows(
    queries: &Queries,
    command: Command,
) -> Result<Option<RecordBatch>, Status> {
    let rows = match command {
        Command::CommandGetCatalogs(query) => {
            let mut rows = query.into_builder();
            for name in queries.newest().await?.engine.context().catalog_names() {
                rows.append(name);
            }
            rows.build()
        }
        Command::CommandGetDbSchemas(query) => {
            let mut rows = query.into_builder();
            for (catalog, schema) in places(&*queries.newest().await?) {
                rows.append(catalog, schema);
            }
            rows.build()
        }
        Command::CommandGetTables(query) => tables(&*queries.newest().await?, query).await,
        Command::CommandGetTableTypes(query) => {
            let mut rows = query.into_builder();
            for kind in [TableType::Base, TableType::View] {
                rows.append(self::kind(kind));
            }
            rows.build()
        }
        Command::CommandGetSqlInfo(query) => query.into_builder(&SQL_INFO).build(),
        Command::CommandGetXdbcTypeInfo(query) => query.into_builder(&TYPE_INFO).build(),
        // No keys are declared.
        Command::CommandGetPrimaryKeys(_) => Ok(RecordBatch::new_empty(Arc::clone(&PRIMARY_KEYS))),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => {
            Ok(RecordBatch::new_empty(Arc::clone(&FOREIGN_KEYS)))
        }
        _ => return Ok(None),
    };
    rows.map(Some)
        .map_err(|error| Status::internal(format!("the server cannot be described: {error}")))
}

/// Returns the tables and views, with their columns on request.
async fn tables(served: &Served, query: CommandGetTables) -> Result<RecordBatch, FlightError> {
    let mut rows = query.into_builder();
    for (catalog_name, schema_name) in places(served) {
        let catalog = served.engine.context().catalog(&catalog_name);
        let Some(schema) = catalog.and_then(|catalog| catalog.schema(&schema_name)) else {
            continue;
        };
        for name in schema.table_names() {
            let table = schema.table(&name).await.map_err(|error| {
                FlightError::from_external_error(Box::new(error.context(format!("table `{name}`"))))
            })?;
            let Some(table) = table else { continue };
            let columns = wire::schema(&table.schema());
            rows.append(&catalog_name, &schema_name, &name, kind(table.table_type()), &columns)?;
        }
    }
    rows.build()
}

fn places(served: &Served) -> Vec<(String, String)> {
    let context = served.engine.context();
    let mut places = Vec::new();
    for catalog_name in context.catalog_names() {
        let Some(catalog) = context.catalog(&catalog_name) else { continue };
        places.extend(catalog.schema_names().into_iter().map(|name| (catalog_name.clone(), name)));
    }
    places
}

const fn kind(table: TableType) -> &'static str {
    match table {
        TableType::Base | TableType::Temporary => "TABLE",
        TableType::View => "VIEW",
    }
}

static PRIMARY_KEYS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("key_name", DataType::Utf8, true),
    ]))
});

static FOREIGN_KEYS: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name: &str, null: bool| Field::new(name, DataType::Utf8, null);
    let mut fields = Vec::new();
    for side in ["pk", "fk"] {
        fields.push(text(&format!("{side}_catalog_name"), true));
        fields.push(text(&format!("{side}_db_schema_name"), true));
        fields.push(text(&format!("{side}_table_name"), false));
        fields.push(text(&format!("{side}_column_name"), false));
    }
    fields.push(Field::new("key_sequence", DataType::Int32, false));
    fields.extend([text("fk_key_name", true), text("pk_key_name", true)]);
    fields.push(Field::new("update_rule", DataType::UInt8, false));
    fields.push(Field::new("delete_rule", DataType::UInt8, false));
    Arc::new(Schema::new(fields))
});

static SQL_INFO: LazyLock<SqlInfoData> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, NAME);
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
    info.append(SqlInfo::FlightSqlServerReadOnly, true);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(SqlInfo::FlightSqlServerCancel, false);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, false);
    // Names are used as written.
    let as_written = SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32;
    info.append(SqlInfo::SqlIdentifierCase, as_written);
    info.append(SqlInfo::SqlQuotedIdentifierCase, as_written);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlNamedParametersSupported, true);
    info.build().expect("every value has a name of its own")
});

static TYPE_INFO: LazyLock<XdbcTypeInfoData> = LazyLock::new(|| {
    use XdbcDataType::{
        XdbcBigint, XdbcBinary, XdbcBit, XdbcDate, XdbcDecimal, XdbcDouble, XdbcFloat, XdbcInteger,
        XdbcSmallint, XdbcTimestamp, XdbcTinyint, XdbcVarbinary, XdbcVarchar,
    };
    let types = [
        ("BIGINT", XdbcBigint, Some(64)),
        ("BINARY", XdbcBinary, None),
        ("BOOLEAN", XdbcBit, Some(1)),
        ("BYTEA", XdbcVarbinary, None),
        ("DATE", XdbcDate, None),
        ("DECIMAL", XdbcDecimal, Some(38)),
        ("DOUBLE", XdbcDouble, Some(53)),
        ("INTEGER", XdbcInteger, Some(32)),
        ("REAL", XdbcFloat, Some(24)),
        ("SMALLINT", XdbcSmallint, Some(16)),
        ("TIMESTAMP", XdbcTimestamp, None),
        ("TINYINT", XdbcTinyint, Some(8)),
        ("VARCHAR", XdbcVarchar, None),
    ];
    let mut info = XdbcTypeInfoDataBuilder::new();
    for (name, kind, size) in types {
        let quoted = matches!(kind, XdbcVarchar | XdbcDate | XdbcTimestamp);
        let quote = quoted.then(|| "'".to_owned());
        info.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: kind,
            sql_data_type: kind,
            column_size: size,
            literal_prefix: quote.clone(),
            literal_suffix: quote,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: kind == XdbcVarchar,
            searchable: Searchable::Full,
            unsigned_attribute: Some(false),
            ..XdbcTypeInfo::default()
        });
    }
    info.build().expect("every type has a name")
});
