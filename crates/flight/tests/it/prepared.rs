//! Prepared statements, with and without parameters.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandPreparedStatementQuery, ProstMessageExt as _,
};
use arrow_flight::{Action, FlightData, FlightDescriptor};
use futures::TryStreamExt as _;
use prost::Message as _;
use tonic::Code;

use crate::served::{embedded, lake, rows};
use crate::support::{Client, Server, fetch, status};

fn row(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

fn long(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

/// Prepares a statement, binds values and fetches the answer.
async fn run(
    client: &mut Client,
    sql: &str,
    values: Vec<(&str, ArrayRef)>,
) -> Result<Vec<String>, tonic::Status> {
    let mut statement = client.prepare(sql.to_owned(), None).await.map_err(status)?;
    if !values.is_empty() {
        statement.set_parameters(row(values)).unwrap();
    }
    let info = statement.execute().await.map_err(status)?;
    let found = rows(&fetch(client, info).await.map_err(status)?);
    statement.close().await.map_err(status)?;
    Ok(found)
}

#[tokio::test]
async fn without_parameters_it_is_the_statement() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let sql = "SELECT * FROM episodes ORDER BY episode_id";
    let mut statement = client.prepare(sql.to_owned(), None).await.unwrap();
    assert_eq!(statement.parameter_schema().unwrap().fields().len(), 0);
    let columns = statement.dataset_schema().unwrap().clone();
    for _ in 0..2 {
        let info = statement.execute().await.unwrap();
        assert_eq!(info.clone().try_decode_schema().unwrap(), columns);
        let found = rows(&fetch(&mut client, info).await.unwrap());
        assert_eq!(found, embedded(&lake, sql).await);
    }
}

#[tokio::test]
async fn values_take_the_places_of_parameters() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let one = embedded(&lake, "SELECT hex(state_id) FROM observations ORDER BY 1 LIMIT 1").await;
    let state = one[0].clone();
    let of_state = format!(
        "SELECT episode_id, step_index FROM steps WHERE state_id = '{state}' ORDER BY 1, 2"
    );
    let of_state = embedded(&lake, &of_state).await;
    assert!(!of_state.is_empty());
    let select = |filter: &str| {
        format!("SELECT episode_id, step_index FROM steps WHERE {filter} ORDER BY 1, 2")
    };
    for (filter, values) in [
        ("state_id = ?", vec![("1", text(&state))]),
        ("state_id IN (?, ?)", vec![("1", text(&state)), ("2", text(&state))]),
        ("state_id = $state", vec![("state", text(&state))]),
        ("state_id = $1 AND $1 = state_id", vec![("1", text(&state))]),
    ] {
        assert_eq!(run(&mut client, &select(filter), values).await.unwrap(), of_state, "{filter}");
    }
    let found = run(
        &mut client,
        "SELECT count(*) FROM steps WHERE step_index < ? AND '?' <> ? LIMIT ?",
        vec![
            ("a", Arc::new(Int32Array::from(vec![3])) as ArrayRef),
            ("b", text("x")),
            ("c", long(5)),
        ],
    );
    let wanted = embedded(&lake, "SELECT count(*) FROM steps WHERE step_index < 3").await;
    assert_eq!(found.await.unwrap(), wanted);
}

#[tokio::test]
async fn the_types_of_parameters_are_told_where_they_are_known() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let sql = "SELECT ? FROM steps WHERE state_id = ? AND step_index = ?";
    let statement = client.prepare(sql.to_owned(), None).await.unwrap();
    let parameters = statement.parameter_schema().unwrap();
    let kinds: Vec<_> = parameters.fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(kinds, [DataType::Null, DataType::FixedSizeBinary(20), DataType::Int32]);
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    for (sql, values, said) in [
        ("SELECT ?, ?", vec![("1", long(1))], "takes 2 as values of its parameters, and 1 came"),
        ("SELECT 1", vec![("1", long(1))], "takes none as values of its parameters, and 1 came"),
        ("SELECT $a", vec![("b", long(1))], "the parameter `$a` has no value"),
        ("SELECT 1 FROM steps WHERE state_id = ?", vec![("1", text("abc"))], "40"),
        ("SELECT 1 FROM steps WHERE action = ?", vec![("1", text("x"))], "cannot be Int32"),
    ] {
        let refused = run(&mut client, sql, values).await.unwrap_err();
        assert!(refused.message().contains(said), "{sql}: {}", refused.message());
        assert_eq!(refused.code(), Code::InvalidArgument, "{sql}: {}", refused.message());
    }
    let mut statement = client.prepare("SELECT ?".to_owned(), None).await.unwrap();
    let two = Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
    statement.set_parameters(row(vec![("1", two)])).unwrap();
    let refused = status(statement.execute().await.unwrap_err());
    assert!(refused.message().contains("one row of values"), "{}", refused.message());
}

/// Arrow panics over some unsound data.
#[tokio::test]
async fn values_that_are_no_sound_data_are_refused() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await.into_inner();
    let query = "SELECT ?".to_owned();
    let wanted = ActionCreatePreparedStatementRequest { query, transaction_id: None };
    let action = Action::new("CreatePreparedStatement", wanted.as_any().encode_to_vec());
    let mut made = client.do_action(action).await.unwrap().into_inner();
    let made = Any::decode(made.message().await.unwrap().unwrap().body).unwrap();
    let made: ActionCreatePreparedStatementResult = made.unpack().unwrap().unwrap();
    let prepared_statement_handle = made.prepared_statement_handle;
    let command = CommandPreparedStatementQuery { prepared_statement_handle };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let row = row(vec![("1", long(1))]);
    let messages = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(descriptor))
        .with_schema(row.schema())
        .build(futures::stream::iter([Ok(row)]));
    let mut messages: Vec<FlightData> = messages.try_collect().await.unwrap();
    // The batch announces bytes that do not come.
    messages.last_mut().unwrap().data_body = prost::bytes::Bytes::new();
    let put = async {
        let mut put = client.do_put(futures::stream::iter(messages)).await?.into_inner();
        put.message().await
    };
    let refused = put.await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{}", refused.message());
    assert!(refused.message().contains("not valid Arrow data"), "{}", refused.message());
}

#[tokio::test]
async fn a_closed_statement_is_not_found() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let statement = client.prepare("SELECT 1".to_owned(), None).await.unwrap();
    let mut copy = statement.clone();
    statement.close().await.unwrap();
    let refused = status(copy.execute().await.unwrap_err());
    assert_eq!(refused.code(), Code::NotFound, "{}", refused.message());
    assert!(refused.message().contains("prepare it again"), "{}", refused.message());
}
