//! Bounds the depth and the size of a statement. The parser and the planner make trees of it, and
//! both trees are walked and dropped by recursion. Without a bound, one statement could overflow
//! the stack and end the process.

use std::collections::HashMap;

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};

/// The stack size of a thread that plans statements: twice what the deepest allowed statement takes
/// in a build without optimisation. The system allocates only the pages that are used.
pub const STACK_BYTES: usize = 64 << 20;

/// The most operators, joins and subqueries that may be nested in one another.
const DEPTH_MAX: usize = 1000;

/// The most queries that a statement may have after each query of WITH is put wherever it is used.
/// A query that uses another one twice, which uses a third one twice, and so on, would be planned
/// for ever.
const QUERIES_MAX: usize = 1000;

/// Refuses a statement that nests too deeply, or that becomes too large, before it becomes a tree.
///
/// # Errors
///
/// An error of planning that says what to do.
pub(super) fn demand_shallow(text: &str) -> Result<()> {
    // The parser will report why the text cannot be split into tokens.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize() else { return Ok(()) };
    let Extent { depth, queries } = extent(&tokens);
    if depth > DEPTH_MAX {
        return plan_err!(
            "the statement is nested too deeply: up to {depth} operators, joins and subqueries stand inside one \
             another, and {DEPTH_MAX} may; write a list as IN (...), keep numbers in a table of VALUES to join \
             with, or ask in several statements"
        );
    }
    if queries > QUERIES_MAX {
        return plan_err!(
            "the queries of the WITH use one another again and again: written out, there are more than \
             {QUERIES_MAX} of them; use them fewer times, or ask in several statements"
        );
    }
    Ok(())
}

/// The part of the text between brackets, or between CASE and END, that was read so far.
#[derive(Debug, Default)]
struct Level {
    opening: Opening,
    has_query: bool,
    is_from: bool,
    /// The joins, unions and subqueries around everything before in this level.
    steps: usize,
    /// The deepest of the parts between commas.
    parts: usize,
    /// The ANDs and ORs in this part, which are around each of its terms.
    junctions: usize,
    /// The deepest of the terms of this part.
    terms: usize,
    /// Operators of this term.
    operators: usize,
    /// The deepest level in this term.
    inner: usize,
    /// The queries in this level, including those of the names that it uses.
    queries: usize,
    /// The name before it.
    name: Option<String>,
}

/// The opening of a level.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Opening {
    #[default]
    Bracket,
    Case,
    /// A bracket after AS, whose content WITH gives the name before it.
    Named,
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

    /// Adds a level that was inside this one.
    fn take(&mut self, mut inner: Self) {
        let depth = inner.depth() + 1;
        if inner.has_query {
            // The queries of a WITH may use one another, although they are written side by side.
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
            Keyword::SELECT => {
                self.end_part();
                (self.has_query, self.is_from) = (true, false);
            }
            Keyword::FROM => (self.has_query, self.is_from) = (true, true),
            Keyword::WHERE | Keyword::HAVING | Keyword::QUALIFY | Keyword::LIMIT => {
                self.end_part();
                self.is_from = false;
            }
            // These words end no part: they also occur in expressions, such as WITHIN GROUP.
            Keyword::GROUP | Keyword::WINDOW | Keyword::ORDER => self.is_from = false,
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

/// An upper bound of the depth and size of a statement's trees. A text that does not parse has one
/// too.
#[derive(Debug, PartialEq, Eq)]
struct Extent {
    depth: usize,
    queries: usize,
}

fn extent(tokens: &[Token]) -> Extent {
    let mut reading = Reading::default();
    let mut tokens =
        tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).peekable();
    let mut words_since_period = usize::MAX;
    while let Some(token) = tokens.next() {
        match token {
            // A name of two parts is one name; each further part may be a field of the one before.
            Token::Period => reading.level.operators += usize::from(words_since_period == 1),
            Token::Word(word) => reading.word(word, tokens.peek() == Some(&&Token::Period)),
            token => reading.sign(token),
        }
        words_since_period =
            if *token == Token::Period { 0 } else { words_since_period.saturating_add(1) };
    }
    while !reading.levels.is_empty() {
        reading.close();
    }
    Extent { depth: reading.level.depth(), queries: reading.level.queries }
}

/// The state of reading a statement.
#[derive(Debug, Default)]
struct Reading {
    /// The levels around the current one, the outermost first.
    levels: Vec<Level>,
    level: Level,
    /// The number of queries that each name of WITH stands for.
    named: HashMap<String, usize>,
    /// The word before, or before a list of columns, and whether AS follows it.
    last: Option<String>,
    is_after_as: bool,
}

impl Reading {
    fn open(&mut self) {
        self.levels.push(std::mem::take(&mut self.level));
        self.level.name = self.last.take();
        if std::mem::take(&mut self.is_after_as) {
            self.level.opening = Opening::Named;
        }
    }

    /// Ends a level, if there is one: the text may have too many closing brackets.
    fn close(&mut self) {
        let Some(outer) = self.levels.pop() else {
            self.level.opening = Opening::Bracket;
            return;
        };
        let mut inner = std::mem::replace(&mut self.level, outer);
        let queries = inner.queries.saturating_add(usize::from(inner.has_query));
        let name = inner.name.take();
        match &name {
            Some(name) if inner.opening == Opening::Named => {
                let known = self.named.entry(name.clone()).or_default();
                *known = queries.max(*known);
            }
            _ => self.level.queries = self.level.queries.saturating_add(queries),
        }
        self.level.take(inner);
        (self.last, self.is_after_as) = (name, false);
    }

    fn word(&mut self, word: &Word, is_qualifier: bool) {
        let keyword = if word.quote_style.is_none() { word.keyword } else { Keyword::NoKeyword };
        if !is_qualifier && let Some(queries) = self.named.get(&word.value) {
            self.level.queries = self.level.queries.saturating_add(*queries);
        }
        match keyword {
            Keyword::AS => self.is_after_as = true,
            Keyword::NOT | Keyword::MATERIALIZED if self.is_after_as => {}
            _ => (self.last, self.is_after_as) = (Some(word.value.clone()), false),
        }
        match keyword {
            Keyword::CASE => {
                self.open();
                self.level.opening = Opening::Case;
            }
            Keyword::END if self.level.opening == Opening::Case => self.close(),
            keyword => self.level.word(keyword),
        }
    }

    fn sign(&mut self, token: &Token) {
        match token {
            Token::LParen | Token::LBrace => return self.open(),
            Token::LBracket => {
                self.level.operators += 1;
                return self.open();
            }
            Token::RParen | Token::RBrace | Token::RBracket => {
                while self.level.opening == Opening::Case {
                    self.close();
                }
                return self.close();
            }
            Token::Comma => self.level.comma(),
            Token::VerticalBarRightAngleBracket => self.level.steps += 1,
            token if is_value(token) => {}
            _ => self.level.operators += 1,
        }
        (self.last, self.is_after_as) = (None, false);
    }
}

/// Whether a token is a value, which contains no other expression.
fn is_value(token: &Token) -> bool {
    matches!(
        token,
        Token::EOF
            | Token::SemiColon
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
    use std::fmt::Write as _;

    use super::*;

    fn extent_of(text: &str) -> Extent {
        extent(&Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap())
    }

    fn depth_of(text: &str) -> usize {
        extent_of(text).depth
    }

    #[test]
    fn what_with_names_counts_wherever_it_is_used() {
        for (text, wanted) in [
            ("SELECT 1", 0),
            ("SELECT (SELECT 1), x IN (SELECT 2) FROM (SELECT 3)", 3),
            ("WITH a AS (SELECT 1) SELECT a.x, a.y FROM a", 1),
            ("WITH a AS (SELECT 1), b AS (SELECT * FROM a, a c) SELECT * FROM b, b c", 6),
            ("WITH a (x, y) AS NOT MATERIALIZED (SELECT 1, 2) SELECT * FROM a, \"a\" b", 2),
            ("SELECT CAST(x AS DECIMAL(10, 2)) AS a FROM (VALUES (1)) AS t (x)", 0),
        ] {
            assert_eq!(extent_of(text).queries, wanted, "{text}");
        }
        let mut text = "WITH w0 AS (SELECT 1)".to_owned();
        for number in 1..100 {
            let from = number - 1;
            write!(text, ", w{number} AS (SELECT * FROM w{from} a, w{from} b)").unwrap();
        }
        let said = demand_shallow(&format!("{text} SELECT * FROM w99")).unwrap_err();
        assert!(said.strip_backtrace().contains("use one another again"), "{said}");
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
            ("SELECT count(*) FROM t WHERE a = 1 OR b = 2", 2),
            ("SELECT a IS DISTINCT FROM b IS DISTINCT FROM c", 2),
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
