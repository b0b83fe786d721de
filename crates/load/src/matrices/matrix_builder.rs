//! Matrices that are being made, in memory or in a file.

use std::io::{self, BufWriter, Seek as _, Write};

use num_traits::AsPrimitive;
use tempfile::NamedTempFile;

use super::matrix::{HEADER_BYTES, MAGIC};
use super::number_kind::{NumberKind, of_kind};

/// A matrix that is being made, in memory. Rows have no values until they are set.
#[derive(Debug)]
pub(crate) struct MatrixBuilder {
    kind: NumberKind,
    width: usize,
    numbers: Vec<u8>,
    is_set: Vec<bool>,
    /// The least and the greatest integer so far.
    least: i64,
    greatest: i64,
}

impl MatrixBuilder {
    /// A matrix of integers, of whatever size.
    pub(crate) fn integers(rows: usize, width: usize) -> Self {
        Self::new(NumberKind::U8, rows, width)
    }

    /// A matrix of fractions.
    pub(crate) fn fractions(rows: usize, width: usize) -> Self {
        Self::new(NumberKind::F64, rows, width)
    }

    fn new(kind: NumberKind, rows: usize, width: usize) -> Self {
        let numbers = vec![0; rows * width * kind.bytes()];
        Self { kind, width, numbers, is_set: vec![false; rows], least: 0, greatest: 0 }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.is_set.len()
    }

    /// The numbers of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Adds a row without values at the end, and returns its place.
    pub(crate) fn add_row(&mut self) -> usize {
        self.is_set.push(false);
        self.numbers.resize(self.is_set.len() * self.width * self.kind.bytes(), 0);
        self.is_set.len() - 1
    }

    /// Sets a row of a matrix of integers.
    pub(crate) fn set_integers(&mut self, row: usize, values: impl Iterator<Item = i64> + Clone) {
        for value in values.clone() {
            self.least = self.least.min(value);
            self.greatest = self.greatest.max(value);
        }
        let kind = NumberKind::of_range(self.least, self.greatest);
        if kind != self.kind {
            self.widen(kind);
        }
        self.is_set[row] = true;
        let width = self.width;
        of_kind!(kind, Number => {
            let numbers = self.numbers.as_chunks_mut::<{ size_of::<Number>() }>().0;
            for (place, value) in numbers[row * width..(row + 1) * width].iter_mut().zip(values) {
                let number: Number = value.as_();
                *place = number.to_le_bytes();
            }
        });
    }

    /// Sets a row of a matrix of fractions.
    pub(crate) fn set_fractions(&mut self, row: usize, values: impl Iterator<Item = f64>) {
        assert_eq!(self.kind, NumberKind::F64, "the matrix was made for fractions");
        self.is_set[row] = true;
        let numbers = self.numbers.as_chunks_mut().0;
        let places = &mut numbers[row * self.width..(row + 1) * self.width];
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
    }

    /// Keeps the numbers as those of another kind from now on.
    fn widen(&mut self, kind: NumberKind) {
        let old = std::mem::take(&mut self.numbers);
        let mut numbers = Vec::with_capacity(old.len() / self.kind.bytes() * kind.bytes());
        of_kind!(self.kind, Old => {
            for number in old.as_chunks::<{ size_of::<Old>() }>().0 {
                let number = Old::from_le_bytes(*number);
                of_kind!(kind, New => {
                    let number: New = number.as_();
                    numbers.extend(number.to_le_bytes());
                });
            }
        });
        (self.kind, self.numbers) = (kind, numbers);
    }

    /// Writes the file that [`Matrix::open`](super::matrix::Matrix::open) reads.
    ///
    /// # Panics
    ///
    /// If it has more rows than 32 bits can count.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let unset = self.is_set.iter().enumerate().filter(|(_, is_set)| !**is_set);
        let row = |row| u32::try_from(row).expect("rows are counted in 32 bits");
        let missing: Vec<u8> = unset.flat_map(|(place, _)| row(place).to_le_bytes()).collect();
        out.write_all(&header(self.kind, self.rows(), self.width, missing.len() / 4))?;
        out.write_all(&self.numbers)?;
        out.write_all(&missing)
    }
}

/// A matrix of one column that is written row by row, for what does not fit into memory.
#[derive(Debug)]
pub(crate) struct MatrixWriter {
    out: BufWriter<NamedTempFile>,
    kind: NumberKind,
    rows: usize,
}

impl MatrixWriter {
    /// Begins with an empty file.
    pub(crate) fn new(file: NamedTempFile, kind: NumberKind) -> io::Result<Self> {
        let mut out = BufWriter::new(file);
        out.write_all(&[0; HEADER_BYTES])?;
        Ok(Self { out, kind, rows: 0 })
    }

    /// Adds an integer that the kind holds.
    pub(crate) fn add(&mut self, value: i64) -> io::Result<()> {
        self.rows += 1;
        of_kind!(self.kind, Number => {
            let number: Number = value.as_();
            self.out.write_all(&number.to_le_bytes())
        })
    }

    /// Completes the file that [`Matrix::open`](super::matrix::Matrix::open) reads.
    pub(crate) fn finish(self) -> io::Result<NamedTempFile> {
        let mut file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        file.write_all(&header(self.kind, self.rows, 1, 0))?;
        Ok(file)
    }
}

fn header(kind: NumberKind, rows: usize, width: usize, missing: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..16].copy_from_slice(MAGIC);
    let kind = NumberKind::ALL.iter().position(|&other| other == kind).unwrap_or_default();
    header[16] = u8::try_from(kind).unwrap_or_default();
    for (at, number) in [(24, rows), (32, width), (40, missing)] {
        header[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    header
}
