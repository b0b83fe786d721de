//! Finds the ends of statements in text that arrives line by line.

use std::mem;

use crate::query::tokens::{Ending, Read, Token, TokenWithSpan, first, offset, read};

use crate::query::Position;

/// A statement or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellInput {
    /// The kind of the piece.
    pub(super) kind: InputKind,
    /// The text: a statement without its semicolon, a command with its backslash.
    pub(super) text: String,
    /// Where the piece begins in the whole text.
    pub(super) at: Position,
}

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputKind {
    Statement,
    Command,
}

/// Splits lines into statements, which end with a semicolon, and commands. A command begins with a
/// backslash where a statement could begin, and ends with the line.
#[derive(Debug)]
pub(super) struct Statements {
    /// The text taken but not yet returned.
    waiting: String,
    /// Where `waiting` begins in the whole text.
    at: Position,
    /// The number of bytes of `waiting` already read. They end between two tokens and end no piece,
    /// so that no line is read again for later ones.
    read: usize,
    /// Where a statement begins in `waiting`.
    begin: Option<usize>,
}

impl Default for Statements {
    fn default() -> Self {
        let at = Position { line: 1, column: 1 };
        Self { waiting: String::new(), at, read: 0, begin: None }
    }
}

impl Statements {
    /// Adds a line, given without its end.
    pub(super) fn push(&mut self, line: &str) {
        self.waiting.push_str(line);
        self.waiting.push('\n');
    }

    /// Returns the text of the unfinished piece.
    pub(super) fn waiting(&self) -> &str {
        &self.waiting
    }

    /// Returns whether nothing is unfinished, except perhaps comments.
    pub(super) fn is_blank(&self) -> bool {
        if self.begin.is_some() {
            return false;
        }
        let Read { tokens, ending } = read(&self.waiting[self.read..]);
        ending == Ending::Clean && first(&tokens).is_none()
    }

    /// Returns the next finished piece.
    pub(super) fn next(&mut self) -> Option<ShellInput> {
        loop {
            let new = &self.waiting[self.read..];
            let Read { tokens, ending } = read(new);
            let place = |token: &TokenWithSpan| self.read + offset(new, token.span.start);
            if self.begin.is_none()
                && let Some(start) = first(&tokens)
            {
                let begin = place(start);
                match start.token {
                    Token::SemiColon => {
                        self.skip(begin + 1);
                        continue;
                    }
                    Token::Backslash => {
                        let line = self.waiting[begin..].find('\n');
                        let end = line.map_or(self.waiting.len(), |at| begin + at);
                        return Some(self.cut(InputKind::Command, begin, end, 1));
                    }
                    _ => self.begin = Some(begin),
                }
            }
            let semicolon = tokens.iter().find(|token| token.token == Token::SemiColon);
            let end = match (semicolon, ending) {
                (Some(semicolon), _) => Some(place(semicolon)),
                // No further line can repair it, so the statement ends here and its error is
                // reported.
                (None, Ending::Wrong) => self.waiting.trim_end().strip_suffix(';').map(str::len),
                (None, _) => None,
            };
            if let Some((begin, end)) = self.begin.zip(end) {
                return Some(self.cut(InputKind::Statement, begin, end, 1));
            }
            if ending == Ending::Clean {
                self.read = self.waiting.len();
            }
            return None;
        }
    }

    /// Returns what is left after the last line: a statement without its semicolon.
    pub(super) fn rest(&mut self) -> Option<ShellInput> {
        if self.is_blank() {
            return None;
        }
        let new = &self.waiting[self.read..];
        let begin = self.begin.unwrap_or_else(|| {
            let start = first(&read(new).tokens).map(|token| offset(new, token.span.start));
            self.read + start.unwrap_or(0)
        });
        let end = self.waiting.trim_end().len().max(begin);
        Some(self.cut(InputKind::Statement, begin, end, 0))
    }

    /// Discards the unfinished piece.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn cut(&mut self, kind: InputKind, begin: usize, end: usize, terminator: usize) -> ShellInput {
        self.skip(begin);
        let text = self.waiting[..end - begin].trim_end().to_owned();
        let at = self.at;
        self.skip((end - begin + terminator).min(self.waiting.len()));
        ShellInput { kind, text, at }
    }

    /// Drops the first `bytes`, and advances the position.
    fn skip(&mut self, bytes: usize) {
        (self.read, self.begin) = (0, None);
        let rest = self.waiting.split_off(bytes);
        for character in mem::replace(&mut self.waiting, rest).chars() {
            if character == '\n' {
                self.at = Position { line: self.at.line + 1, column: 1 };
            } else {
                self.at.column += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(lines: &[&str]) -> (Vec<String>, Option<String>) {
        let mut statements = Statements::default();
        let mut found = Vec::new();
        for line in lines {
            statements.push(line);
            while let Some(piece) = statements.next() {
                found.push(piece.text);
            }
        }
        (found, statements.rest().map(|piece| piece.text))
    }

    #[test]
    fn a_semicolon_ends_a_statement_and_only_that_of_sql_does() {
        for (lines, wanted, rest) in [
            (&["SELECT 1;"][..], &["SELECT 1"][..], None),
            (&["SELECT 1; SELECT 2;; ;SELECT 3"], &["SELECT 1", "SELECT 2"], Some("SELECT 3")),
            (
                &["SELECT ';', \"a;b\" -- no;", "/* ; */ ;"],
                &["SELECT ';', \"a;b\" -- no;\n/* ; */"],
                None,
            ),
            (&["SELECT 'a", "b;", "c';"], &["SELECT 'a\nb;\nc'"], None),
            (&["SELECT 'it''s;';"], &["SELECT 'it''s;'"], None),
            (&["-- a comment", "", "/* another */"], &[], None),
            (&["-- first", "SELECT 1 -- last", ";"], &["SELECT 1 -- last"], None),
            (&["SELECT 'é;ü', 1; SELECT 2;"], &["SELECT 'é;ü', 1", "SELECT 2"], None),
            (&["SELECT 'open"], &[], Some("SELECT 'open")),
            (&["/* open"], &[], Some("/* open")),
            (&[""], &[], None),
        ] {
            let (found, left) = pieces(lines);
            assert_eq!(
                (found, left.as_deref()),
                (wanted.iter().map(|s| (*s).to_owned()).collect(), rest),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_command_ends_with_its_line_and_begins_where_a_statement_could() {
        let (found, rest) =
            pieces(&["\\d 'steps", "SELECT 1; \\x", "SELECT", "\\nope;", "-- c", "\\timing off;"]);
        assert_eq!(found, ["\\d 'steps", "SELECT 1", "\\x", "SELECT\n\\nope", "\\timing off;"]);
        assert_eq!(rest, None);
    }

    #[test]
    fn pieces_know_where_they_begin() {
        let mut statements = Statements::default();
        for line in ["-- é", "", "  SELECT 1; SELECT", "2;"] {
            statements.push(line);
        }
        let places: Vec<_> = std::iter::from_fn(|| statements.next())
            .map(|piece| (piece.at.line, piece.at.column))
            .collect();
        assert_eq!(places, [(3, 3), (3, 13)]);
    }

    #[test]
    fn a_line_is_read_once_however_many_follow() {
        let mut statements = Statements::default();
        let lines = ["-- é", "", "  SELECT 'a", "b' IN (", "  ';'", ", 1", "/*", "*/", ") ; \\x"];
        let mut read = Vec::new();
        for line in lines {
            assert_eq!(statements.next(), None);
            read.push(statements.read == statements.waiting.len());
            statements.push(line);
        }
        // Lines that leave a string or a comment open are read again.
        assert_eq!(read, [true, true, true, false, true, true, true, false, true]);
        let piece = statements.next().unwrap();
        let text = "SELECT 'a\nb' IN (\n  ';'\n, 1\n/*\n*/\n)";
        let at = Position { line: 3, column: 3 };
        assert_eq!(piece, ShellInput { kind: InputKind::Statement, text: text.to_owned(), at });
        let piece = statements.next().unwrap();
        let at = Position { line: 9, column: 5 };
        assert_eq!(piece, ShellInput { kind: InputKind::Command, text: "\\x".to_owned(), at });
        assert!(statements.is_blank());
    }

    #[test]
    fn what_waits_is_told_from_what_is_blank() {
        for (text, blank) in [("", true), ("-- c", true), ("SELECT", false), ("'", false)] {
            let mut statements = Statements::default();
            statements.push(text);
            assert_eq!(statements.next(), None);
            assert_eq!(statements.is_blank(), blank, "{text}");
            statements.clear();
            assert!(statements.is_blank());
        }
    }
}
