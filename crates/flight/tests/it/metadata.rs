//! Requests about the server: catalogs, schemas, tables, types, keys.

use arrow::array::{AsArray as _, RecordBatch};
use arrow_flight::FlightInfo;
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};

use crate::served::{lake, rows};
use crate::support::{Client, Server, fetch};

async fn all(client: &mut Client, info: FlightInfo) -> Vec<RecordBatch> {
    fetch(client, info).await.unwrap()
}

#[tokio::test]
async fn tables_are_listed_with_their_columns() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(rows(&all(&mut client, info).await), ["datafusion"]);
    let info = client.get_db_schemas(CommandGetDbSchemas::default()).await.unwrap();
    let schemas = rows(&all(&mut client, info).await);
    assert!(schemas.contains(&"datafusion | public".to_owned()), "{schemas:?}");
    let info = client.get_table_types().await.unwrap();
    assert_eq!(rows(&all(&mut client, info).await), ["TABLE", "VIEW"]);

    let public = CommandGetTables {
        db_schema_filter_pattern: Some("public".to_owned()),
        ..CommandGetTables::default()
    };
    let info = client.get_tables(public.clone()).await.unwrap();
    let tables = rows(&all(&mut client, info).await);
    for wanted in ["steps | TABLE", "state_transitions | TABLE", "steps_with_actions | VIEW"] {
        let wanted = format!("datafusion | public | {wanted}");
        assert!(tables.contains(&wanted), "{wanted} is not in {tables:?}");
    }
    let steps = CommandGetTables {
        table_name_filter_pattern: Some("step_".to_owned()),
        include_schema: true,
        ..public
    };
    let info = client.get_tables(steps).await.unwrap();
    let found = all(&mut client, info).await;
    assert_eq!(found[0].num_rows(), 1);
    let message = found[0].column(4).as_binary::<i32>().value(0);
    let columns = arrow::ipc::convert::try_schema_from_ipc_buffer(message).unwrap();
    let info = client.execute("SELECT * FROM steps".to_owned(), None).await.unwrap();
    assert_eq!(columns, info.try_decode_schema().unwrap());
}

#[tokio::test]
async fn the_server_says_what_it_is() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let wanted = vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerReadOnly];
    let info = client.get_sql_info(wanted).await.unwrap();
    let found = rows(&all(&mut client, info).await);
    assert_eq!(found, ["0 | {string_value=steplake}", "3 | {bool_value=true}"]);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo::default()).await.unwrap();
    let types = rows(&all(&mut client, info).await);
    assert!(types.iter().any(|row| row.starts_with("VARCHAR | ")), "{types:?}");
}

#[tokio::test]
async fn no_keys_are_declared() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let table = || "steps".to_owned();
    let primary = CommandGetPrimaryKeys { table: table(), ..CommandGetPrimaryKeys::default() };
    let exported = CommandGetExportedKeys { table: table(), ..CommandGetExportedKeys::default() };
    let imported = CommandGetImportedKeys { table: table(), ..CommandGetImportedKeys::default() };
    let infos = [
        client.get_primary_keys(primary).await.unwrap(),
        client.get_exported_keys(exported).await.unwrap(),
        client.get_imported_keys(imported).await.unwrap(),
        client.get_cross_reference(CommandGetCrossReference::default()).await.unwrap(),
    ];
    for info in infos {
        assert_eq!(rows(&all(&mut client, info).await), [""; 0]);
    }
}
