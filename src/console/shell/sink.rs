//! Destinations of answers.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::pager::{Paged, Pager, Screen};
use crate::Error;
use crate::console::progress::{AfterSpinner, Spinner};
use crate::console::whole_file::unwritable;
use crate::query::Format;

/// The output file, which takes one answer after another.
#[derive(Debug)]
pub(super) struct AnswerFile {
    path: PathBuf,
    file: File,
    /// Whether a sink was made; what a pipe got cannot be seen.
    is_used: Cell<bool>,
}

impl AnswerFile {
    /// Creates the file, or truncates it.
    pub(super) fn create(path: PathBuf) -> Result<Self, Error> {
        let file = File::create(&path).map_err(|error| unwritable(&path, &error))?;
        Ok(Self { path, file, is_used: Cell::new(false) })
    }

    /// Returns the file's name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a sink that appends the next answer.
    pub(super) fn next(&self, format: Format) -> Result<Sink, Error> {
        // A file was empty at first, so it holds an answer or a part of one.
        let there = self.file.metadata()?;
        let is_used = if there.is_file() { there.len() > 0 } else { self.is_used.get() };
        if is_used && format.is_binary() {
            return Err(Error::usage(format!(
                "{} has an answer already, and a file of {format} has one: give another with `\\o FILE`",
                self.path.display()
            )));
        }
        self.is_used.set(true);
        Ok(Sink::File(BufWriter::new(self.file.try_clone()?)))
    }
}

/// The destination of one answer.
#[derive(Debug)]
pub(super) enum Sink {
    /// The screen, or a pager.
    Screen(AfterSpinner<Paged>),
    /// The reader of standard output.
    Stream(BufWriter<AfterSpinner<io::Stdout>>),
    /// A file.
    File(BufWriter<File>),
}

impl Sink {
    /// Returns a sink for standard output: for a screen, if there is one.
    pub(super) fn stdout(screen: Option<Screen>, spinner: Spinner) -> Self {
        match screen {
            Some(screen) => Self::Screen(AfterSpinner { out: Paged::new(screen), spinner }),
            None => Self::Stream(BufWriter::new(AfterSpinner { out: io::stdout(), spinner })),
        }
    }

    /// Returns the pager that this sink may start.
    pub(super) fn pager(&self) -> Option<Pager> {
        match self {
            Self::Screen(screen) => Some(screen.out.pager()),
            _ => None,
        }
    }

    /// Whether this is the file of `\o`.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Flushes everything, and waits until the user leaves the pager.
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
