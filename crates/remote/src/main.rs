//! Publishes lakes to object stores and fetches them from there. See [`steplake_remote`].

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    steplake_remote::cli::main()
}
