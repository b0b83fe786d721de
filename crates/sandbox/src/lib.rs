//! Confinement of compilers and their tools: their input may make them do anything.
//!
//! There are three mechanisms, none of which needs a privilege:
//!
//! - Landlock lets a thread and its child processes open the named files only, and bars TCP, and
//!   signals and abstract sockets to the outside. A kernel without Landlock, or without a part of
//!   it, leaves that part open.
//! - A seccomp filter refuses every new socket.
//! - A second filter keeps processes in their process group, so that all of them can be ended.
//! - A limit of zero open files refuses every new file and socket, on every kernel. It suits
//!   processes that need none.
//!
//! Whatever is already open stays usable.

#![forbid(unsafe_code)]

mod awake;
mod confinement;
mod enclosure;
mod interrupt;
mod process;

pub use self::awake::awake;
pub use self::confinement::{OpenPaths, confine_process, confine_thread};
pub use self::enclosure::Enclosure;
pub use self::interrupt::Interrupt;
pub use self::process::{
    Limits, Missing, Process, ProcessEnd, ProcessError, find, inherited, installation,
    plain_environment, search,
};
