//! The bearer token.

use std::env::VarError;
use std::fmt;
use std::path::Path;

use steplake::Error;

/// The token that clients must send as `authorization: Bearer <token>`. Only its digest is kept.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl Token {
    /// Parses the token in a text, ignoring surrounding spaces and line ends; `None` if there is
    /// none, or if it could not stand in a header.
    pub fn new(text: &str) -> Option<Self> {
        let token = text.trim();
        let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        visible.then(|| Self(blake3::hash(token.as_bytes())))
    }

    /// Returns whether the header `authorization` has the token. The comparison of digests takes
    /// the same time for every token.
    pub fn is_sent(&self, header: Option<&str>) -> bool {
        header.and_then(|value| value.split_once(' ')).is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && blake3::hash(token.trim().as_bytes()) == self.0
        })
    }
}

/// Returns the token that clients must send, if any, and its text: that of the file, or that of
/// `STEPLAKE_TOKEN`.
///
/// # Errors
///
/// If it cannot be read, or is invalid.
pub fn read_token(file: Option<&Path>) -> Result<Option<(Token, String)>, Error> {
    let (text, from) = match file {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Error::usage(format!("the token cannot be read from {}: {error}", path.display()))
            })?;
            (text, path.display().to_string())
        }
        None => match std::env::var("STEPLAKE_TOKEN") {
            Ok(text) => (text, "STEPLAKE_TOKEN".to_owned()),
            Err(VarError::NotPresent) => return Ok(None),
            // The user meant to set a token: without it, everybody could read the lake.
            Err(VarError::NotUnicode(_)) => {
                return Err(Error::usage(
                    "STEPLAKE_TOKEN is not text: write one line of visible characters, or unset it",
                ));
            }
        },
    };
    let token = Token::new(&text).ok_or_else(|| {
        Error::usage(format!(
            "{from} has no valid token: write one line of visible characters, e.g. from `openssl rand -hex 32`"
        ))
    })?;
    Ok(Some((token, text.trim().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token::new(" s3cret\n").unwrap();
        let sent = |value: &str| token.is_sent(Some(value));
        assert!(sent("Bearer s3cret") && sent("bearer s3cret"));
        assert!(
            !sent("Bearer s3cre")
                && !sent("Bearer s3cret2")
                && !sent("s3cret")
                && !sent("Basic s3cret")
        );
        assert!(!token.is_sent(None));
        assert!(Token::new("\n").is_none() && Token::new("a b").is_none());
    }
}
