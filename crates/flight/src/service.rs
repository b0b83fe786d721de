//! Flight SQL: translates requests of clients into the terms of this program.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{DoPutError, FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginTransactionRequest, ActionBeginTransactionResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, Any, Command, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt as _, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use prost::Message as _;
use steplake::query::{AnswerPart, Statement, StatementDescription};
use steplake_server::{PartedAnswer, PinId, Queries};
use tonic::{Request, Response, Status, Streaming};

use crate::handles::Handles;
use crate::tickets::{BoundStatement, Claim, TicketSigner};
use crate::{metadata, wire};

/// The messages of an answer on their way to a client.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// A lake that speaks Flight SQL. Clones share everything.
#[derive(Clone)]
pub(crate) struct FlightSqlServer {
    queries: Queries,
    handles: Arc<Handles>,
    signer: Arc<TicketSigner>,
}

impl FlightSqlServer {
    pub(crate) fn new(queries: Queries, signer: TicketSigner) -> Self {
        Self { queries, handles: Arc::default(), signer: Arc::new(signer) }
    }

    /// Describes how to fetch the answer of a statement: as a whole, or in parts, which clients
    /// read at once.
    async fn statement_info(
        &self,
        bound: BoundStatement,
        descriptor: FlightDescriptor,
    ) -> Result<Response<FlightInfo>, Status> {
        let PartedAnswer { description, parts } =
            self.queries.describe_parts(wire::statement(&bound)?).await?;
        let columns = wire::answer(&description.columns, description.uncounted);
        let ticket = |part: Option<(AnswerPart, PinId)>| {
            let handle = self.signer.sign(&Claim { bound: bound.clone(), part }).into();
            let ticket = TicketStatementQuery { statement_handle: handle };
            Ticket::new(ticket.as_any().encode_to_vec())
        };
        let Some((parts, pin)) = parts else { return info(&columns, ticket(None), descriptor) };
        let mut info = FlightInfo::new()
            .try_with_schema(&columns)
            .map_err(|error| unsaid(&error))?
            .with_ordered(true)
            .with_descriptor(descriptor);
        for number in 0..parts.get() {
            let part = AnswerPart { number, of: parts };
            let endpoint = FlightEndpoint::new().with_ticket(ticket(Some((part, pin))));
            info = info.with_endpoint(endpoint);
        }
        Ok(Response::new(info))
    }

    /// Returns the rows that answer an encoded command about the server itself; `None` for any
    /// other command.
    pub(crate) async fn metadata(&self, command: &[u8]) -> Result<Option<RecordBatch>, Status> {
        match Any::decode(command).map(Command::try_from) {
            Ok(Ok(command)) => metadata::rows(&self.queries, command).await,
            // The handler of the other commands reports what cannot be decoded.
            _ => Ok(None),
        }
    }

    /// Fetches the answer of a statement, or a part of it.
    async fn fetch(&self, claim: &Claim) -> Result<Response<Messages>, Status> {
        let queries = self.queries.clone();
        let encode = move |answer| {
            let messages = wire::messages(answer);
            let counted = messages.inspect_ok(move |message| {
                let bytes = message.data_body.len() + message.data_header.len();
                queries.counters().bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            });
            counted.boxed()
        };
        let (part, pin) = claim.part.unzip();
        let statement = Statement { part, ..wire::statement(&claim.bound)? };
        let answer = self.queries.answer(statement, pin, encode).await?;
        Ok(Response::new(Box::pin(answer)))
    }

    /// Returns why a statement that should change something is refused.
    async fn refuse(&self, text: String) -> Status {
        match self.queries.describe(Statement { text, ..Statement::default() }).await {
            Err(status) => status,
            Ok(_reads) => Status::invalid_argument(
                "this statement reads, and was sent as one that changes something: send it as a query",
            ),
        }
    }
}

/// Describes how to fetch an answer.
pub(crate) fn info(
    columns: &SchemaRef,
    ticket: Ticket,
    descriptor: FlightDescriptor,
) -> Result<Response<FlightInfo>, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(ticket);
    let info = FlightInfo::new().try_with_schema(columns).map_err(|error| unsaid(&error))?;
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(descriptor)))
}

/// Sends rows that already exist.
pub(crate) fn sent(batch: &RecordBatch) -> Response<Messages> {
    let rows = futures::stream::iter([Ok::<_, FlightError>(batch.clone())]);
    let messages = FlightDataEncoderBuilder::new().with_schema(batch.schema()).build(rows);
    Response::new(Box::pin(messages.map_err(Status::from)))
}

fn unsaid(error: &arrow::error::ArrowError) -> Status {
    Status::internal(format!("the columns cannot be described: {error}"))
}

fn schema_message(schema: &Schema) -> Result<prost::bytes::Bytes, Status> {
    let options = IpcWriteOptions::default();
    let message = SchemaAsIpc::new(schema, &options).try_into();
    let IpcMessage(bytes) = message.map_err(|error| unsaid(&error))?;
    Ok(bytes)
}

/// Returns the parameters as columns; null is the type of those that accept any.
fn parameter_schema(described: &StatementDescription) -> Schema {
    let fields = described.parameters.iter().map(|(name, kind)| {
        Field::new(name.trim_start_matches('$'), kind.clone().unwrap_or(DataType::Null), true)
    });
    wire::schema(&Schema::new(fields.collect::<Vec<_>>())).as_ref().clone()
}

fn read_only(what: &str) -> Status {
    Status::permission_denied(format!(
        "{what} is refused: the lake is served for reading only; ask with SELECT, EXPLAIN, SHOW or DESCRIBE"
    ))
}

/// Reads one row of values for the parameters of a statement, in stored form.
async fn values(sent: PeekableFlightDataStream) -> Result<Vec<u8>, Status> {
    let data = sent.map_err(|status| FlightError::Tonic(Box::new(status)));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(data);
    let mut values = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        match (batch.num_rows(), values.is_empty()) {
            (0, _) => {}
            (1, true) => {
                values = wire::keep_values(&batch).map_err(|error| {
                    Status::invalid_argument(format!("these values cannot be kept: {error}"))
                })?;
            }
            _ => {
                return Err(Status::invalid_argument(
                    "a statement takes one row of values: execute it again for every other one",
                ));
            }
        }
    }
    Ok(values)
}

#[tonic::async_trait]
impl FlightSqlService for FlightSqlServer {
    type FlightService = Self;

    async fn do_handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<
        Response<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>>,
        Status,
    > {
        Err(Status::unimplemented(
            "there is no handshake with this server: send its token, if it requires one, with every request as the \
             header `authorization: Bearer <token>`",
        ))
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let bound = BoundStatement { text: query.query, values: Vec::new() };
        self.statement_info(bound, request.into_inner()).await
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let bound = self.handles.get(&query.prepared_statement_handle)?;
        self.statement_info(bound, request.into_inner()).await
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        _: Request<Ticket>,
    ) -> Result<Response<Messages>, Status> {
        self.fetch(&self.signer.verify(&ticket.statement_handle)?).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        _: Request<Ticket>,
    ) -> Result<Response<Messages>, Status> {
        let bound = self.handles.get(&query.prepared_statement_handle)?;
        self.fetch(&Claim { bound, part: None }).await
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let bound = BoundStatement { text: query.query, values: Vec::new() };
        let described = self.queries.describe(wire::statement(&bound)?).await?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: self.handles.add(bound)?.into(),
            dataset_schema: schema_message(&wire::answer(&described.columns, described.uncounted))?,
            parameter_schema: schema_message(&parameter_schema(&described))?,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        self.handles.remove(&query.prepared_statement_handle);
        Ok(())
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        _: Request<Action>,
    ) -> Result<ActionBeginTransactionResult, Status> {
        Err(Status::unimplemented(
            "there are no transactions: the lake is served for reading only, and each statement reads one snapshot",
        ))
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let handle = query.prepared_statement_handle;
        self.handles.get(&handle)?;
        // Arrow checks much of what it decodes, but not everything.
        let values = AssertUnwindSafe(values(request.into_inner())).catch_unwind().await;
        let values = values.unwrap_or_else(|_panic| {
            Err(Status::invalid_argument(
                "these values cannot be read: they are not valid Arrow data",
            ))
        })?;
        self.handles.bind(&handle, values)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn do_put_statement_update(
        &self,
        query: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(self.refuse(query.query).await)
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(self.refuse(self.handles.get(&query.prepared_statement_handle)?.text).await)
    }

    async fn do_put_statement_ingest(
        &self,
        query: CommandStatementIngest,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only(&format!("writing to the table `{}`", query.table)))
    }

    async fn do_put_error_callback(
        &self,
        _: Request<PeekableFlightDataStream>,
        _: DoPutError,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(read_only("writing to the lake"))
    }

    async fn do_put_fallback(
        &self,
        _: Request<PeekableFlightDataStream>,
        _: Any,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(read_only("writing to the lake"))
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::{NonZeroU64, NonZeroUsize};
    use std::path::Path;

    use steplake::environments::Environments;
    use steplake::lake::Lake;
    use steplake::query::EngineOptions;
    use steplake_server::{NewestEngine, QueryLimits, ServedContexts};
    use tokio::runtime::Handle;
    use tokio::sync::watch;

    use super::*;
    use crate::served::{embedded, lake, record, record_hot, rows};

    /// A server of a lake whose answers come in parts, however small they are.
    /// It stops when the sender is dropped.
    async fn served(
        lake: &Path,
        rows: Option<NonZeroU64>,
    ) -> (FlightSqlServer, watch::Sender<bool>) {
        let two = NonZeroUsize::MIN.saturating_add(1);
        let options = EngineOptions { threads: Some(two), ..EngineOptions::default() };
        let lake = Lake::open(lake).unwrap();
        let (environments, threads) = (Environments::default(), Handle::current());
        let contexts = ServedContexts::All;
        let newest = NewestEngine::open(environments, lake, contexts, None, options, threads);
        let newest = Arc::new(newest.await.unwrap());
        let limits = QueryLimits {
            time: None,
            memory_bytes: None,
            rows,
            queries: NonZeroUsize::new(4).unwrap(),
            part_bytes_min: NonZeroU64::MIN,
        };
        let (stop, stopping) = watch::channel(false);
        let queries = Queries::new(Handle::current(), 2, newest, limits, stopping);
        (FlightSqlServer::new(queries, TicketSigner::new().unwrap()), stop)
    }

    async fn info(server: &FlightSqlServer, sql: &str) -> FlightInfo {
        let query = CommandStatementQuery { query: sql.to_owned(), transaction_id: None };
        let request = Request::new(FlightDescriptor::default());
        server.get_flight_info_statement(query, request).await.unwrap().into_inner()
    }

    /// Fetches an endpoint of an answer.
    async fn part(server: &FlightSqlServer, info: &FlightInfo, number: usize) -> Vec<String> {
        let ticket = info.endpoint[number].ticket.clone().unwrap();
        let command = Any::decode(&*ticket.ticket).unwrap();
        let query = command.unpack::<TicketStatementQuery>().unwrap().unwrap();
        let messages = server.do_get_statement(query, Request::new(ticket)).await.unwrap();
        let messages = messages.into_inner().map_err(|status| FlightError::Tonic(Box::new(status)));
        let batches = FlightRecordBatchStream::new_from_flight_data(messages);
        rows(&batches.try_collect::<Vec<_>>().await.unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parts_of_a_scan_are_together_the_answer_when_it_was_asked() {
        let (_folder, lake) = lake();
        record(&lake, 8);
        let (server, _stop) = served(&lake, None).await;
        let statement = "SELECT episode_id, step_index, state_id FROM steps WHERE action <> 1";
        let wanted = embedded(&lake, &format!("{statement} ORDER BY 1, 2")).await;
        let info = info(&server, statement).await;
        assert_eq!(info.endpoint.len(), 2, "two runs are two files");
        assert!(info.ordered);
        // What is recorded meanwhile is not in any part.
        let first = part(&server, &info, 0).await;
        record(&lake, 9);
        let second = part(&server, &info, 1).await;
        assert!(!first.is_empty() && !second.is_empty());
        assert_eq!([first, second].concat(), wanted);

        let bound = BoundStatement { text: statement.to_owned(), values: Vec::new() };
        let two = NonZeroUsize::MIN.saturating_add(1);
        let lost = Some((AnswerPart { number: 1, of: two }, PinId(99)));
        let refused = server.fetch(&Claim { bound, part: lost }).await.err().unwrap();
        assert!(refused.message().contains("ask for the statement again"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_does_more_than_scan_comes_whole() {
        let (_folder, lake) = lake();
        record(&lake, 8);
        let (server, _stop) = served(&lake, None).await;
        for sql in [
            "SELECT count(*) FROM steps",
            "SELECT * FROM steps ORDER BY wall_time_us",
            "SELECT * FROM steps LIMIT 1000000",
            "SELECT DISTINCT benchmark_uri FROM steps",
            "SELECT * FROM steps AS a JOIN steps AS b USING (state_id)",
            "SELECT * FROM steps WHERE state_id = (SELECT max(state_id) FROM steps)",
            "SELECT *, row_number() OVER () FROM steps",
            "SELECT now(), * FROM steps",
            "SELECT * FROM steps WHERE to_timestamp(0) < now()",
        ] {
            let info = info(&server, sql).await;
            assert_eq!(info.endpoint.len(), 1, "{sql}");
            let whole: BTreeSet<String> = part(&server, &info, 0).await.into_iter().collect();
            assert!(!whole.is_empty(), "{sql}");
        }
        // Hot rows are in no range of keys.
        record_hot(&lake, 9);
        let mixed = info(&server, "SELECT * FROM steps").await;
        assert_eq!(mixed.endpoint.len(), 1);
        let wanted = embedded(&lake, "SELECT * FROM steps").await.len();
        assert_eq!(part(&server, &mixed, 0).await.len(), wanted);
        // Where answers have a largest number of rows, one query counts them.
        let (server, _stop) = served(&lake, NonZeroU64::new(10)).await;
        assert_eq!(info(&server, "SELECT * FROM steps").await.endpoint.len(), 1);
    }
}
