//! The tokens of SQL text, for those who complete it or look for the ends of statements.

use datafusion::sql::sqlparser::dialect::GenericDialect;
pub use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
pub use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};

/// The tokens of a text, by the engine's own parser.
#[derive(Debug)]
pub struct Read {
    /// All tokens up to the first invalid one, with space.
    pub tokens: Vec<TokenWithSpan>,
    /// How they end.
    pub ending: Ending,
}

/// How the tokens of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Between two tokens.
    Clean,
    /// In a string, a quoted name or a comment.
    Open,
    /// With invalid text.
    Wrong,
}

/// Returns the tokens of a text.
pub fn read(text: &str) -> Read {
    let mut tokens = Vec::new();
    let read =
        Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
    let ending = match read {
        Ok(()) => Ending::Clean,
        Err(error) => {
            let is_open = ["Unterminated", "EOF", "end of file"];
            let is_open = is_open.iter().any(|words| error.message.contains(words));
            if is_open { Ending::Open } else { Ending::Wrong }
        }
    };
    Read { tokens, ending }
}

/// Returns the tokens of a text other than space, up to the first invalid one; and whether the text
/// ends in a string, a quoted name or a comment.
pub fn words(text: &str) -> (Vec<TokenWithSpan>, bool) {
    let Read { mut tokens, ending } = read(text);
    tokens.retain(|token| !is_space(token));
    (tokens, ending == Ending::Open)
}

/// Returns the first token other than space.
pub fn first(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    tokens.iter().find(|token| !is_space(token))
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

/// Returns the byte offset of a place, which the tokenizer gives by line and character, from 1.
pub fn offset(text: &str, place: Location) -> usize {
    let lines = usize::try_from(place.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let line: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let characters = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
    let rest = &text[line..];
    line + rest.char_indices().nth(characters).map_or(rest.len(), |(at, _)| at)
}
