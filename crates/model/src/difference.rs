//! What differs between two runs of a program, as it is recorded.

crate::named! {
    /// What of a program's behaviour differs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum DifferenceKind {
        /// What it writes to its standard output or standard error.
        Output = "output",
        /// Its exit status, or the signal that ended it.
        ExitStatus = "exit-status",
        /// A file that it writes.
        File = "file",
        /// What a sanitizer reports.
        Sanitizer = "sanitizer",
        /// It does not end in its time.
        TimeOut = "time-out",
        /// It cannot be built.
        Build = "build",
    }

    /// Its name in the column `kind`.
    fn as_str;
}

/// Something that a program gives: its output, a file, or its exit status as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// BLAKE3 of all of it, in hexadecimal digits.
    pub digest: String,
    /// A part of it for people, short, from where the difference begins.
    pub excerpt: String,
}
