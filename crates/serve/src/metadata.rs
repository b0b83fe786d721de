//! Requests about the server itself: catalogs, schemas, tables, types.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTableTypes,
    CommandGetTables, CommandGetXdbcTypeInfo, Nullable, Searchable, SqlInfo,
    SqlSupportedCaseSensitivity, SqlSupportedTransaction, XdbcDataType,
};
use datafusion::common::DataFusionError;
use datafusion::datasource::TableType;
use tonic::Status;

use crate::newest::Served;
use crate::wire;

/// The name of the server.
const NAME: &str = "steplake";

/// The supported version of Arrow's own format.
const ARROW_VERSION: &str = "1.5";

/// Returns the catalogs: one.
///
/// # Errors
///
/// If Arrow cannot hold them. The same goes for the functions below.
pub(crate) fn catalogs(served: &Served, query: CommandGetCatalogs) -> Result<RecordBatch, Status> {
    let mut rows = query.into_builder();
    for name in served.engine.context().catalog_names() {
        rows.append(name);
    }
    rows.build().map_err(|error| failed(&error))
}

/// Returns the schemas: that of the tables, and that of the information about them.
pub(crate) fn schemas(served: &Served, query: CommandGetDbSchemas) -> Result<RecordBatch, Status> {
    let mut rows = query.into_builder();
    for (catalog, schema) in places(served) {
        rows.append(catalog, schema);
    }
    rows.build().map_err(|error| failed(&error))
}

/// Returns the tables and views, with their columns on request.
pub(crate) async fn tables(
    served: &Served,
    query: CommandGetTables,
) -> Result<RecordBatch, Status> {
    let mut rows = query.into_builder();
    for (catalog_name, schema_name) in places(served) {
        let catalog = served.engine.context().catalog(&catalog_name);
        let Some(schema) = catalog.and_then(|catalog| catalog.schema(&schema_name)) else {
            continue;
        };
        for name in schema.table_names() {
            let table = schema.table(&name).await.map_err(|error: DataFusionError| {
                Status::internal(format!("the table `{name}` cannot be looked at: {error}"))
            })?;
            let Some(table) = table else { continue };
            let columns = wire::schema(&table.schema());
            rows.append(&catalog_name, &schema_name, &name, kind(table.table_type()), &columns)
                .map_err(|error| failed(&error))?;
        }
    }
    rows.build().map_err(|error| failed(&error))
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

/// Returns the kinds of tables.
pub(crate) fn table_types(query: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut rows = query.into_builder();
    for kind in [TableType::Base, TableType::View] {
        rows.append(self::kind(kind));
    }
    rows.build().map_err(|error| failed(&error))
}

/// Returns the abilities of the server.
pub(crate) fn sql_info(query: CommandGetSqlInfo) -> Result<RecordBatch, Status> {
    query.into_builder(&SQL_INFO).build().map_err(|error| failed(&error))
}

/// Returns the types of columns, by their names in SQL.
pub(crate) fn type_info(query: CommandGetXdbcTypeInfo) -> Result<RecordBatch, Status> {
    query.into_builder(&TYPE_INFO).build().map_err(|error| failed(&error))
}

/// Returns the primary keys of a table: none are declared.
pub(crate) fn primary_keys() -> RecordBatch {
    static COLUMNS: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            Field::new("catalog_name", DataType::Utf8, true),
            Field::new("db_schema_name", DataType::Utf8, true),
            Field::new("table_name", DataType::Utf8, false),
            Field::new("column_name", DataType::Utf8, false),
            Field::new("key_sequence", DataType::Int32, false),
            Field::new("key_name", DataType::Utf8, true),
        ]))
    });
    RecordBatch::new_empty(Arc::clone(&COLUMNS))
}

/// Returns the references between tables: none are declared.
pub(crate) fn foreign_keys() -> RecordBatch {
    static COLUMNS: LazyLock<SchemaRef> = LazyLock::new(|| {
        let side = |side: &str| {
            [
                ("catalog_name", true),
                ("db_schema_name", true),
                ("table_name", false),
                ("column_name", false),
            ]
            .map(|(name, null)| Field::new(format!("{side}_{name}"), DataType::Utf8, null))
        };
        let mut fields: Vec<Field> = side("pk").into_iter().chain(side("fk")).collect();
        fields.push(Field::new("key_sequence", DataType::Int32, false));
        fields.push(Field::new("fk_key_name", DataType::Utf8, true));
        fields.push(Field::new("pk_key_name", DataType::Utf8, true));
        fields.push(Field::new("update_rule", DataType::UInt8, false));
        fields.push(Field::new("delete_rule", DataType::UInt8, false));
        Arc::new(Schema::new(fields))
    });
    RecordBatch::new_empty(Arc::clone(&COLUMNS))
}

fn failed(error: &FlightError) -> Status {
    Status::internal(format!("the server cannot be described: {error}"))
}

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
