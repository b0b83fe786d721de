//! Live compilers: environments, sessions, and what runs and records them.

pub(crate) mod benchmark;
pub(crate) mod compiler;
pub(crate) mod declaration;
pub(crate) mod environment;
pub(crate) mod generate;
pub(crate) mod machine;
pub(crate) mod measurement;
pub(crate) mod open_session;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod validation;
pub(crate) mod values;
pub(crate) mod worker;
