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
use steplake::query::{Statement, StatementDescription};
use steplake_server::Queries;
use tonic::{Request, Response, Status, Streaming};

use crate::handles::Handles;
use crate::tickets::{BoundStatement, TicketSigner};
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

    /// Describes how to fetch the answer of a statement.
    async fn statement_info(
        &self,
        bound: &BoundStatement,
        descriptor: FlightDescriptor,
    ) -> Result<Response<FlightInfo>, Status> {
        let described = self.queries.describe(wire::statement(bound)?).await?;
        let ticket = TicketStatementQuery { statement_handle: self.signer.sign(bound).into() };
        let columns = wire::answer(&described.columns, described.uncounted);
        info(&columns, Ticket::new(ticket.as_any().encode_to_vec()), descriptor)
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

    /// Fetches the answer of a statement.
    async fn fetch(&self, bound: &BoundStatement) -> Result<Response<Messages>, Status> {
        let queries = self.queries.clone();
        let encode = move |answer| {
            let messages = wire::messages(answer);
            let counted = messages.inspect_ok(move |message| {
                let bytes = message.data_body.len() + message.data_header.len();
                queries.counters().bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            });
            counted.boxed()
        };
        let answer = self.queries.answer(wire::statement(bound)?, encode).await?;
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
        self.statement_info(&bound, request.into_inner()).await
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let bound = self.handles.get(&query.prepared_statement_handle)?;
        self.statement_info(&bound, request.into_inner()).await
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
        self.fetch(&self.handles.get(&query.prepared_statement_handle)?).await
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
