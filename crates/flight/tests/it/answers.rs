//! Statements: the same answers as from an engine in the same process, and errors that explain the
//! problem.

use arrow::array::AsArray as _;
use arrow::datatypes::{DataType, Int64Type};
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt as _};
use arrow_flight::{FlightDescriptor, Ticket};
use prost::Message as _;
use tonic::Code;

use crate::served::{embedded, lake, rows};
use crate::support::{Server, ask, number, refusal, status};

#[tokio::test]
async fn answers_are_those_of_an_engine_in_this_process() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    for sql in [
        "SELECT * FROM steps ORDER BY episode_id, step_index",
        "SELECT * FROM state_transitions ORDER BY state_key, state_id, action",
        "SELECT * FROM observations ORDER BY state_key, state_id",
        "SELECT * FROM steps_with_actions ORDER BY 1, 2, 3 LIMIT 50",
        "SELECT action_name(action), count(*) FROM steps GROUP BY 1 ORDER BY 1",
        "SELECT state_id FROM steps WHERE state_id = '0000000000000000000000000000000000000000'",
        "SELECT 1 AS a UNION ALL SELECT 2.5 ORDER BY 1",
        "DESCRIBE steps",
        "EXPLAIN SELECT 1",
    ] {
        let found = rows(&ask(&mut client, sql).await.unwrap());
        assert_eq!(found, embedded(&lake, sql).await, "{sql}");
    }
    // The tables have no order of their own.
    let mut found = rows(&ask(&mut client, "SHOW TABLES").await.unwrap());
    let mut wanted = embedded(&lake, "SHOW TABLES").await;
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn rows_come_in_the_order_of_the_statement() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    // Batches with more and with fewer bytes, some of more than a message.
    let sql =
        "SELECT value, repeat('x', value % 7 * 100) FROM generate_series(1, 100000) ORDER BY 1";
    let batches = ask(&mut client, sql).await.unwrap();
    assert!(batches.len() > 10, "{} batches", batches.len());
    let values =
        batches.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values());
    assert!(values.copied().eq(1..=100_000));
}

#[tokio::test]
async fn types_are_those_that_every_client_knows() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let tables =
        ask(&mut client, "SELECT table_name FROM information_schema.tables").await.unwrap();
    for table in rows(&tables) {
        let sql = if table.contains("df_settings") || table == "schemata" {
            format!("SELECT * FROM information_schema.{table} LIMIT 1")
        } else {
            format!("SELECT * FROM {table} LIMIT 1")
        };
        let Ok(batches) = ask(&mut client, &sql).await else { continue };
        for field in batches.iter().flat_map(|batch| batch.schema().fields().to_vec()) {
            let shown = field.data_type().to_string();
            let odd = ["View", "Dictionary", "RunEnd"].iter().any(|name| shown.contains(name));
            assert!(!odd, "{table}.{} is {shown}", field.name());
        }
    }
    let states = ask(&mut client, "SELECT state_id FROM steps LIMIT 1").await.unwrap();
    assert_eq!(*states[0].schema().field(0).data_type(), DataType::FixedSizeBinary(20));
}

#[tokio::test]
async fn the_ir_of_any_state_is_there_also_of_those_that_are_not_stored() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let states = number(&mut client, "SELECT count(*) FROM observations").await;
    let stored = number(&mut client, "SELECT count(*) FROM ir").await;
    assert!(stored < states, "{stored} of {states} are stored");
    let shown = "SELECT count(ir(state_id)), min(length(ir(state_id))) > 0 FROM observations";
    let found = rows(&ask(&mut client, shown).await.unwrap());
    assert_eq!(found, [format!("{states} | true")]);
}

#[tokio::test]
async fn what_is_wrong_is_said_with_a_code() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    for (sql, code, said) in [
        ("SELEC 1", Code::InvalidArgument, "line 1, column 1: "),
        ("SELECT a FROM steps", Code::InvalidArgument, "there is no column `a`"),
        ("SELECT * FROM step", Code::InvalidArgument, "there is no table `step`"),
        ("SELECT 1; SELECT 2", Code::InvalidArgument, "one statement at a time"),
        ("SELECT ?", Code::InvalidArgument, "takes 1 as values of its parameters, and none came"),
        (
            "SELECT 1 / (step_index - step_index) FROM steps",
            Code::InvalidArgument,
            "a number is divided by zero",
        ),
        ("SELECT state('xyz')", Code::InvalidArgument, "expected 40 hexadecimal digits"),
    ] {
        let status = refusal(&mut client, sql).await;
        assert!(status.message().contains(said), "{sql}: {}", status.message());
        assert_eq!(status.code(), code, "{sql}: {}", status.message());
        assert!(!status.message().contains('\n'), "{sql}: {}", status.message());
    }
}

#[tokio::test]
async fn what_writes_is_refused() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await;
    let writes = [
        "INSERT INTO steps SELECT * FROM steps",
        "DELETE FROM steps",
        "UPDATE steps SET action = 0",
        "DROP TABLE steps",
        "CREATE TABLE t AS SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/tmp/t.csv'",
        "COPY steps TO '/tmp/steps.csv'",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN ANALYZE INSERT INTO steps SELECT * FROM steps",
    ];
    for sql in writes {
        let status = refusal(&mut client, sql).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{sql}: {}", status.message());
        assert!(status.message().contains("a query only reads"), "{sql}: {}", status.message());
        let status = self::status(client.execute_update(sql.to_owned(), None).await.unwrap_err());
        assert_eq!(status.code(), Code::PermissionDenied, "{sql}: {}", status.message());
        let status = self::status(client.prepare(sql.to_owned(), None).await.unwrap_err());
        assert_eq!(status.code(), Code::PermissionDenied, "{sql}: {}", status.message());
    }
    let update = client.execute_update("SELECT 1".to_owned(), None).await.unwrap_err();
    assert!(status(update).message().contains("send it as a query"));
    let begun = status(client.begin_transaction().await.unwrap_err());
    assert_eq!(begun.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_ticket_is_good_for_its_server_alone() {
    let (_folder, lake) = lake();
    let (server, other) = (Server::start(&lake, &[]), Server::start(&lake, &[]));
    let (mut client, mut stranger) = (server.client().await, other.client().await);
    let info = client.execute("SELECT 7".to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let refused = status(stranger.do_get(ticket.clone()).await.map(|_| ()).unwrap_err());
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("not of this server"), "{}", refused.message());
    let nonsense = Ticket::new(vec![1, 2, 3]);
    assert!(client.do_get(nonsense).await.is_err());
    // A ticket can be used again while it is valid.
    for _ in 0..2 {
        assert!(client.do_get(ticket.clone()).await.is_ok());
    }
}

#[tokio::test]
async fn columns_can_be_asked_for_without_rows() {
    let (_folder, lake) = lake();
    let server = Server::start(&lake, &[]);
    let mut client = server.client().await.into_inner();
    let query = CommandStatementQuery {
        query: "SELECT state_id, action FROM steps".to_owned(),
        transaction_id: None,
    };
    let descriptor = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
    let columns = client.get_schema(descriptor).await.unwrap().into_inner();
    let columns = arrow::datatypes::Schema::try_from(&columns).unwrap();
    let names: Vec<_> = columns.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["state_id", "action"]);
    assert_eq!(server.metric("steplake_queries_total"), 0);
}
