//! Calls of a service, which wait no longer than they may.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use steplake::Error;
use steplake::env::RemoteService;
use steplake::env::worker::WorkerConfig;
use steplake_server::{failed, is_of_this_machine};
use tokio::runtime::{Builder, Runtime};
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};

use crate::proto::compiler_gym_service_client::CompilerGymServiceClient;
use crate::proto::{GetSpacesReply, GetSpacesRequest, GetVersionReply, GetVersionRequest};

pub(super) type Client = CompilerGymServiceClient<InterceptedService<Channel, SentToken>>;

/// The certificates that a service's is checked against, where `SSL_CERT_FILE` names no others.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How long it may take to reach a service.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The time after which the operating system finds out that a peer is gone.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The interval at which a waiting call looks for an interrupt.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The time that a call may take if nobody sets another limit.
const CALL_MAX: Duration = Duration::from_mins(2);

/// The header of the answer to `GetSpaces` in which our own service names the observation spaces
/// that show [what its compiler makes of a state](steplake::model::ObservationSpace::is_compiled),
/// with commas between them.
pub(crate) const COMPILED: &str = "steplake-compiled";

/// The time that the end of a session may take, for which nobody cares.
const END_MAX: Duration = Duration::from_secs(1);

/// A connection to a service. It comes back by itself after the service was away.
pub(super) struct Connection {
    runtime: Runtime,
    channel: Channel,
    token: SentToken,
}

/// The token that every call carries, if there is one: that of `STEPLAKE_SERVICE_TOKEN`.
#[derive(Clone)]
pub(super) struct SentToken(Option<AsciiMetadataValue>);

impl SentToken {
    /// Reads the variable, for calls of this host.
    fn of_environment(authority: &str, is_encrypted: bool) -> Result<Self, Error> {
        let Some(token) = std::env::var_os("STEPLAKE_SERVICE_TOKEN") else {
            return Ok(Self(None));
        };
        if !is_encrypted && !is_of_this_machine(authority) {
            return Err(Error::usage(format!(
                "the token of STEPLAKE_SERVICE_TOKEN is not sent to {authority} unless the connection is \
                 encrypted: write grpc+tls://, or unset the variable"
            )));
        }
        let token = token.to_str().map(str::trim).filter(|token| !token.is_empty());
        let header = token.map(|token| format!("Bearer {token}"));
        let header = header.and_then(|header| AsciiMetadataValue::try_from(header).ok());
        let mut header = header.ok_or_else(|| {
            Error::usage(
                "STEPLAKE_SERVICE_TOKEN has no valid token: write one line of visible characters, or unset it",
            )
        })?;
        header.set_sensitive(true);
        Ok(Self(Some(header)))
    }
}

impl Interceptor for SentToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Silence {
    /// The service says so.
    Status(Status),
    /// It took longer than this.
    TooLong(Duration),
    /// Whoever waited gave up.
    Interrupted,
}

/// What a call waits for, which decides how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// A step, or a look at a state.
    Step,
    /// The start of a program.
    Start,
    /// So many steps at once, after a start.
    Back(u32),
}

/// What a service says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Description {
    pub(super) version: GetVersionReply,
    pub(super) spaces: GetSpacesReply,
    /// The names of the observation spaces that show what its compiler makes of a state.
    pub(super) compiled: Vec<String>,
}

impl Connection {
    /// Reaches the service at `HOST:PORT`.
    ///
    /// # Errors
    ///
    /// If nothing answers there; or if the token or the certificates of this process are wrong.
    pub(super) fn open(authority: &str, is_encrypted: bool) -> Result<Self, Error> {
        let token = SentToken::of_environment(authority, is_encrypted)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed("threads cannot be started", &error))?;
        let scheme = if is_encrypted { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{authority}"));
        let mut endpoint = endpoint
            .map_err(|error| Error::usage(format!("`{authority}` is no address: {error}")))?
            .connect_timeout(CONNECT_MAX)
            .tcp_keepalive(Some(KEEPALIVE));
        if is_encrypted {
            endpoint = endpoint.tls_config(trusted()?).map_err(|error| {
                failed("the certificates to check services against cannot be used", &error)
            })?;
        }
        let channel = runtime.block_on(endpoint.connect()).map_err(|error| {
            let what = if is_encrypted {
                format!(
                    "no service answers at {authority} with a certificate that is trusted here: start it, correct \
                     the address of --env, or name its issuer's certificate by SSL_CERT_FILE"
                )
            } else {
                format!("no service answers at {authority}: start it, or correct the address of --env")
            };
            failed(&what, &error)
        })?;
        Ok(Self { runtime, channel, token })
    }

    fn client(&self) -> Client {
        Client::new(InterceptedService::new(self.channel.clone(), self.token.clone()))
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    /// Calls the service, and waits for the answer as long as `served` allows `work`.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub(super) fn call<T, F>(
        &self,
        served: &RemoteService,
        work: CallKind,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, Silence>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let limits = served.limits();
        let step_max = limits.map_or(CALL_MAX, WorkerConfig::step_wall_max);
        let start_max = limits.map_or(CALL_MAX, WorkerConfig::start_wall_max);
        let longest = match work {
            CallKind::Step => step_max,
            CallKind::Start => start_max,
            CallKind::Back(steps) => start_max.saturating_add(step_max.saturating_mul(steps)),
        };
        let interrupted = async {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                if limits.is_some_and(|limits| limits.interrupt.is_raised()) {
                    break;
                }
            }
        };
        let answer = call(self.client());
        self.runtime.block_on(async {
            tokio::select! {
                answer = answer => answer.map(Response::into_inner).map_err(Silence::Status),
                () = interrupted => Err(Silence::Interrupted),
                () = tokio::time::sleep(longest) => Err(Silence::TooLong(longest)),
            }
        })
    }

    /// Asks the service what it is.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub(super) fn described(&self, served: &RemoteService) -> Result<Description, Silence> {
        let version = self.call(served, CallKind::Step, async |mut client| {
            client.get_version(GetVersionRequest {}).await
        })?;
        let (spaces, compiled) = self.call(served, CallKind::Step, async |mut client| {
            let answer = client.get_spaces(GetSpacesRequest {}).await?;
            let names = answer.metadata().get(COMPILED).and_then(|names| names.to_str().ok());
            let names = names.unwrap_or_default().split(',').map(str::to_owned).collect();
            Ok(answer.map(|spaces| (spaces, names)))
        })?;
        Ok(Description { version, spaces, compiled })
    }

    /// Calls the service without interest in the answer.
    pub(super) fn tell<T, F>(&self, call: impl FnOnce(Client) -> F)
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let told = call(self.client());
        let told = self.runtime.block_on(async { tokio::time::timeout(END_MAX, told).await });
        if !matches!(told, Ok(Ok(_))) {
            tracing::debug!("a session could not be ended at its service");
        }
    }
}

/// The certificates to check a service's against.
fn trusted() -> Result<ClientTlsConfig, Error> {
    let path = std::env::var_os("SSL_CERT_FILE").unwrap_or_else(|| ROOTS.into());
    let roots = std::fs::read(&path).map_err(|error| {
        Error::usage(format!(
            "the certificates to check services against cannot be read from {}: {error}; the variable \
             SSL_CERT_FILE names another file",
            path.display()
        ))
    })?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(roots)))
}
