//! Compiles schedules of loops for GPUs, runs, checks and times them.
//!
//! The program builds without CUDA and finds its libraries when it runs: `compile` needs NVRTC and
//! no GPU, `actions` neither, the other commands a driver and a device.

mod back_end;
mod bench;
mod cli;
mod compiler;
mod contest;
mod copies;
mod cubin;
mod device;
mod measure;
mod rounds;
mod run;
mod schedules;

fn main() -> std::process::ExitCode {
    steplake_terminal::exit::exit_code(cli::main())
}
