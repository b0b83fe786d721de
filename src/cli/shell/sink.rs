//! Where answers go.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use super::pager::{Paged, Pager, Screen};
use crate::cli::failure::Failed;
use crate::cli::rows::create;
use crate::cli::watch::{Watch, Watched};
use crate::query::Format;

/// The file that answers go to, one after another.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    file: File,
    /// Whether it has an answer already.
    is_used: bool,
}

impl OutputFile {
    /// Makes the file, or empties it.
    pub(super) fn create(path: PathBuf) -> Result<Self, Failed> {
        let file = create(&path)?;
        Ok(Self { path, file, is_used: false })
    }

    /// Another way to its end.
    pub(super) fn next(&mut self, format: Format) -> Result<Sink, Failed> {
        if self.is_used && matches!(format, Format::Arrow | Format::Parquet) {
            return Err(Failed::usage(format!(
                "{} has an answer already, and a file of {format} has one: give another with `\\o FILE`",
                self.path.display()
            )));
        }
        self.is_used = true;
        Ok(Sink::File(BufWriter::new(self.file.try_clone()?)))
    }
}

/// Where one answer goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// To the screen, or to a pager.
    Screen(Watched<Paged>),
    /// To whoever reads standard output.
    Stream(BufWriter<Watched<io::Stdout>>),
    /// To a file.
    File(BufWriter<File>),
}

impl Sink {
    /// Standard output: a screen, where there is one.
    pub(super) fn stdout(screen: Option<Screen>, watch: Watch) -> Self {
        match screen {
            Some(screen) => Self::Screen(Watched { out: Paged::new(screen), watch }),
            None => Self::Stream(BufWriter::new(Watched { out: io::stdout(), watch })),
        }
    }

    /// The pager that may come of it.
    pub(super) fn pager(&self) -> Option<Pager> {
        match self {
            Self::Screen(screen) => Some(screen.out.pager()),
            _ => None,
        }
    }

    /// Brings everything to its place; waits until a pager is left.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.out.finish(),
            Self::Stream(mut out) => out.flush(),
            Self::File(mut out) => out.flush(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Screen(out) => out.write(bytes),
            Self::Stream(out) => out.write(bytes),
            Self::File(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Screen(out) => out.flush(),
            Self::Stream(out) => out.flush(),
            Self::File(out) => out.flush(),
        }
    }
}
