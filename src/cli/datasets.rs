//! `datasets`.

use std::fmt::Write;

use indicatif::HumanCount;

use super::args::DatasetsCommand;
use crate::Error;
use crate::datasets::{DatasetFolders, Datasets};
use crate::model::BenchmarkUri;
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{bar, counted_are, print};

pub(super) fn run(global: &GlobalArgs, command: &DatasetsCommand) -> Result<(), Error> {
    let datasets = Datasets::new(&DatasetFolders::from_environment()?);
    match command {
        DatasetsCommand::List => print(&list(&datasets)),
        DatasetsCommand::Install { uris } => uris.iter().try_for_each(|uri| {
            let bar = bar(global, 0, "{bar:24.cyan} {pos}/{len} {wide_msg}");
            let count = datasets.install(uri, &mut |made, all| {
                bar.set_length(all as u64);
                bar.set_message(made.to_string());
                bar.inc(1);
            })?;
            drop(bar);
            print(&format!("{uri}: {} ready\n", counted_are(count as u64, "benchmark")))
        }),
        DatasetsCommand::Benchmarks { uris } => {
            for uri in uris {
                let named = datasets.expand(uri)?;
                let lines: Vec<&str> = named.iter().map(BenchmarkUri::as_str).collect();
                print(&(lines.join("\n") + "\n"))?;
                for missing in datasets.unavailable(uri)? {
                    tracing::warn!("{} is left out: {}", missing.uri, missing.reason);
                }
            }
            Ok(())
        }
    }
}

fn list(datasets: &Datasets) -> String {
    let mut text = String::new();
    for about in datasets.about() {
        let size = about.size.map_or("unlimited".into(), |size| HumanCount(size).to_string());
        let _ = writeln!(
            text,
            "{:<28} {:>14}  {}\n{:<28} {:>14}  e.g. {}",
            about.uri, size, about.description, "", "", about.example
        );
    }
    text
}
