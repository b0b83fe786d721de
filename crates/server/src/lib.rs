//! What the servers of steplake share: connections and access, their threads and how they end,
//! queries within limits on the newest contents of a lake, and live sessions that give up their
//! compilers while nobody uses them.
//!
//! The modules are listed in the order in which a request passes through them.

#![forbid(unsafe_code)]

// The command line.
mod arguments;

// The process, connections, access.
mod process;
mod incoming;
mod drain_on_close;
mod access;
mod guard;
mod tls;
mod http;

// Questions to a lake.
mod queries;
mod response_channel;
mod newest;
mod pins;
mod status;

// Live sessions.
mod parking;

pub use self::access::{Access, Denial, Right};
pub use self::arguments::{AccessArguments, Limit, QueryArguments, Span};
pub use self::drain_on_close::DrainOnClose;
pub use self::guard::Guard;
pub use self::http::{HttpListener, HttpStream};
pub use self::incoming::{KEEPALIVE, incoming, is_of_this_machine, listen};
pub use self::newest::{NewestEngine, Served, ServedContexts};
pub use self::parking::ParkingEnvironment;
pub use self::pins::{PINNED_MAX, PinId};
pub use self::process::{Stopped, begin, failed, query_threads, runtime};
pub use self::queries::{
    AnswerRows, FirstRows, PartedAnswer, Queries, QueryCounters, QueryLimits, RowStream,
};
pub use self::response_channel::ResponseStream;
pub use self::tls::Certificate;
