//! The arguments of `steplake datasets`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DatasetsCommand {
    /// List the datasets.
    List,
    /// Fetch what a dataset or its benchmarks need, so that they work without a network.
    Install {
        /// A dataset or some of its benchmarks, e.g. `benchmark://debian-v0/zlib`.
        #[arg(required = true, value_name = "URI")]
        uris: Vec<String>,
    },
    /// List the benchmarks that a pattern names.
    Benchmarks {
        /// A dataset, a range or a glob, or the path of a folder of your own files.
        #[arg(required = true, value_name = "URI|PATH")]
        uris: Vec<String>,
    },
}
