//! The steplake binary. See [`steplake::cli`].

fn main() -> std::process::ExitCode {
    steplake::cli::main()
}
