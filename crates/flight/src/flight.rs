//! Flight itself, for what the trait of Flight SQL lacks: the columns of an answer without its
//! rows, and one place for the commands about the server.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, PollInfo, SchemaResult, Ticket,
};
use tonic::{Request, Response, Status, Streaming};

use crate::service::{FlightSqlServer, info, sent};

/// Flight SQL with the methods of Flight that its trait omits.
#[derive(Clone)]
pub(crate) struct Flight(pub(crate) FlightSqlServer);

#[tonic::async_trait]
impl FlightService for Flight {
    type HandshakeStream = <FlightSqlServer as FlightService>::HandshakeStream;
    type ListFlightsStream = <FlightSqlServer as FlightService>::ListFlightsStream;
    type DoGetStream = <FlightSqlServer as FlightService>::DoGetStream;
    type DoPutStream = <FlightSqlServer as FlightService>::DoPutStream;
    type DoActionStream = <FlightSqlServer as FlightService>::DoActionStream;
    type ListActionsStream = <FlightSqlServer as FlightService>::ListActionsStream;
    type DoExchangeStream = <FlightSqlServer as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        self.0.handshake(request).await
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented("there is no list of flights: ask for the tables of Flight SQL"))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        match self.0.metadata(&request.get_ref().cmd).await? {
            Some(rows) => {
                // The command is its own ticket.
                let descriptor = request.into_inner();
                info(&rows.schema(), Ticket::new(descriptor.cmd.clone()), descriptor)
            }
            None => self.0.get_flight_info(request).await,
        }
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        // Nothing is computed before it is fetched, so there is nothing to wait for.
        let info = self.get_flight_info(request).await?.into_inner();
        let (info, flight_descriptor) = (Some(info), None);
        Ok(Response::new(PollInfo { info, flight_descriptor, ..PollInfo::default() }))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let info = self.get_flight_info(request).await?.into_inner();
        Ok(Response::new(SchemaResult { schema: info.schema }))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        match self.0.metadata(&request.get_ref().ticket).await? {
            Some(rows) => Ok(sent(&rows)),
            None => self.0.do_get(request).await,
        }
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.0.do_put(request).await
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented(
            "there is nothing to exchange: the lake is served for reading only",
        ))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        self.0.do_action(request).await
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let actions = [
            (
                "CreatePreparedStatement",
                "Prepares a statement: ActionCreatePreparedStatementRequest",
            ),
            ("ClosePreparedStatement", "Forgets it again: ActionClosePreparedStatementRequest"),
        ];
        let actions = actions.map(|(name, about)| {
            Ok(ActionType { r#type: name.to_owned(), description: about.to_owned() })
        });
        Ok(Response::new(Box::pin(futures::stream::iter(actions))))
    }
}
