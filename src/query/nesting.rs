//! How deeply a statement may nest. A parser makes a tree of it, a planner another one, and both are walked, and
//! dropped, by recursion: without a bound, one statement could be the end of the process.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The stack that a thread wants which plans statements: twice as much as the deepest one that is let through
/// takes in a build without optimisation. Memory is used only as far as it is needed.
pub const STACK_BYTES: usize = 64 << 20;

/// Operators, joins and subqueries that may stand inside one another.
const DEPTH_MAX: usize = 1000;

/// Refuses a statement that nests too deeply, before anything makes a tree of it.
///
/// # Errors
///
/// An error of planning that says what to do.
pub(super) fn demand_shallow(text: &str) -> Result<()> {
    // What cannot be split into words is not worth a look: the parser says what is wrong with it.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize() else { return Ok(()) };
    let depth = depth(&tokens);
    if depth > DEPTH_MAX {
        return plan_err!(
            "the statement is nested too deeply: up to {depth} operators, joins and subqueries stand inside one \
             another, and {DEPTH_MAX} may; write a list as IN (...), keep numbers in a table of VALUES to join \
             with, or ask in several statements"
        );
    }
    Ok(())
}

/// What stands between brackets, or between CASE and END, as far as it was read.
#[derive(Debug, Default)]
struct Level {
    is_case: bool,
    has_query: bool,
    is_from: bool,
    /// What stands around all that came before in this level: joins, unions, subqueries.
    steps: usize,
    /// The deepest of the parts between commas.
    parts: usize,
    /// AND and OR in this part; they stand around each of its terms.
    junctions: usize,
    /// The deepest of the terms of this part.
    terms: usize,
    /// Operators of this term.
    operators: usize,
    /// The deepest level in this term.
    inner: usize,
}

impl Level {
    fn end_term(&mut self) {
        self.terms = self.terms.max(self.operators + self.inner);
        (self.operators, self.inner) = (0, 0);
    }

    fn end_part(&mut self) {
        self.end_term();
        self.parts = self.parts.max(self.junctions + self.terms);
        (self.junctions, self.terms) = (0, 0);
    }

    fn depth(&mut self) -> usize {
        self.end_part();
        self.steps + self.parts
    }

    /// Takes in what stood in brackets.
    fn take(&mut self, mut inner: Self) {
        let depth = inner.depth() + 1;
        if inner.has_query {
            // Those of a WITH may stand on one another, although they are written side by side.
            self.has_query = true;
            self.steps += depth;
        } else {
            self.inner = self.inner.max(depth);
        }
    }

    fn word(&mut self, keyword: Keyword) {
        match keyword {
            Keyword::AND | Keyword::OR | Keyword::XOR => {
                self.end_term();
                self.junctions += 1;
            }
            Keyword::SELECT => (self.has_query, self.is_from) = (true, false),
            Keyword::FROM => (self.has_query, self.is_from) = (true, true),
            Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::WINDOW
            | Keyword::QUALIFY
            | Keyword::ORDER
            | Keyword::LIMIT => self.is_from = false,
            Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::MINUS
            | Keyword::JOIN
            | Keyword::APPLY
            | Keyword::LATERAL
            | Keyword::PIVOT
            | Keyword::UNPIVOT
            | Keyword::MATCH_RECOGNIZE
            | Keyword::OVER
            | Keyword::EXPLAIN => self.steps += 1,
            Keyword::NOT
            | Keyword::NOTNULL
            | Keyword::IS
            | Keyword::IN
            | Keyword::BETWEEN
            | Keyword::OVERLAPS
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::MATCH
            | Keyword::SIMILAR
            | Keyword::MEMBER
            | Keyword::OPERATOR
            | Keyword::DIV
            | Keyword::COLLATE
            | Keyword::INTERVAL
            | Keyword::AT => self.operators += 1,
            _ => {}
        }
    }

    fn comma(&mut self) {
        self.end_part();
        // The tables of a FROM are joined one after another.
        self.steps += usize::from(self.is_from);
    }
}

/// How deeply a statement nests, at the most: its trees are no deeper. What does not parse has some number too.
fn depth(tokens: &[Token]) -> usize {
    let mut levels = Vec::new();
    let mut level = Level::default();
    let mut words_since_period = usize::MAX;
    for token in tokens {
        match token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBrace => levels.push(std::mem::take(&mut level)),
            Token::LBracket => {
                level.operators += 1;
                levels.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBrace | Token::RBracket => {
                while level.is_case {
                    close(&mut levels, &mut level);
                }
                close(&mut levels, &mut level);
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE => {
                    levels.push(std::mem::take(&mut level));
                    level.is_case = true;
                }
                Keyword::END if level.is_case => close(&mut levels, &mut level),
                keyword => level.word(keyword),
            },
            Token::Comma => level.comma(),
            Token::VerticalBarRightAngleBracket => level.steps += 1,
            // A name of two parts is one name; each part more may be a field of the one before.
            Token::Period => level.operators += usize::from(words_since_period == 1),
            _ if is_value(token) => {}
            _ => level.operators += 1,
        }
        words_since_period =
            if *token == Token::Period { 0 } else { words_since_period.saturating_add(1) };
    }
    while !levels.is_empty() {
        close(&mut levels, &mut level);
    }
    level.depth()
}

/// Ends a level; there may be none to end where the text is wrong.
fn close(levels: &mut Vec<Level>, level: &mut Level) {
    let Some(outer) = levels.pop() else {
        level.is_case = false;
        return;
    };
    let inner = std::mem::replace(level, outer);
    level.take(inner);
}

/// Whether nothing stands inside a token.
fn is_value(token: &Token) -> bool {
    matches!(
        token,
        Token::EOF
            | Token::SemiColon
            | Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(text: &str) -> usize {
        depth(&Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap())
    }

    #[test]
    fn what_stands_inside_one_another_adds_up() {
        for (text, wanted) in [
            ("SELECT 1", 0),
            ("SELECT 1 + 2 + 3", 2),
            ("SELECT ((1 + 2) + 3)", 4),
            ("SELECT CASE WHEN a + a = 1 AND b THEN 1 END + 1 + 1", 6),
            ("SELECT a FROM b JOIN c ON b.x = c.x JOIN d ON d.x = b.x", 4),
            ("SELECT a FROM b, c, d", 2),
            ("SELECT 1 UNION SELECT 2, 3 UNION SELECT 4, 5", 2),
            ("WITH a AS (SELECT 1 + 1), b AS (SELECT x + 1 FROM a) SELECT x FROM b", 4),
            ("SELECT x[1][2][3]", 4),
            ("SELECT (a).b.c.d", 3),
            ("EXPLAIN EXPLAIN SELECT 1", 2),
        ] {
            assert_eq!(depth_of(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_stands_side_by_side_does_not() {
        let many = |part: &str, between: &str| vec![part; 5000].join(between);
        let list = format!("SELECT 1 FROM steps WHERE action IN ({})", many("-1", ", "));
        assert_eq!(depth_of(&list), 3);
        let columns = format!("SELECT {} FROM steps", many("a.x + 1", ", "));
        assert_eq!(depth_of(&columns), 1);
        let rows = format!("VALUES {}", many("(1 + 1, 'a')", ", "));
        assert_eq!(depth_of(&rows), 2);
        let ors = format!("SELECT 1 WHERE {}", vec!["a + b = 1"; 500].join(" OR "));
        assert_eq!(depth_of(&ors), 501);
    }

    #[test]
    fn a_wrong_text_has_some_depth_too() {
        for text in
            [")))", "(((", "CASE (END) CASE ) ]", "SELECT end FROM case", "END END", "", ".."]
        {
            let depth = depth_of(text);
            assert!(depth < 10, "{text}: {depth}");
        }
        let sum = format!("SELECT 1{}", " + 1".repeat(100_000));
        assert_eq!(depth_of(&sum), 100_000);
        let said = demand_shallow(&sum).unwrap_err().strip_backtrace();
        assert!(said.contains("nested too deeply: up to 100000 operators"), "{said}");
        assert!(demand_shallow("SELECT 'unended").is_ok());
    }
}
