//! Bounds the depth and the size of a statement. The parser and the planner make trees of it, and
//! both trees are walked and dropped by recursion. Without a bound, one statement could overflow
//! the stack and end the process.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Query, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The stack size of a thread that plans statements: twice what the deepest allowed statement takes
/// in a build without optimisation. The system allocates only the pages that are used.
pub const STACK_BYTES: usize = 64 << 20;

/// The most operators, joins and subqueries that may be nested in one another.
const DEPTH_MAX: usize = 1000;

/// The most bytes of a statement.
const BYTES_MAX: usize = 1 << 20;

/// The most expressions and tables of a statement. Planning takes some 50 microseconds for each.
pub(crate) const NODES_MAX: usize = 20_000;

/// The most queries that a statement may have after each query of WITH is put wherever it is used.
/// A query that uses another one twice, which uses a third one twice, and so on, would be planned
/// for ever.
const QUERIES_MAX: usize = 1000;

/// Refuses a statement that nests too deeply, or is too long, before it becomes a tree.
///
/// # Errors
///
/// An error of planning that says what to do.
pub(crate) fn demand_shallow(text: &str) -> Result<()> {
    // The parser will report why the text cannot be split into tokens.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize() else { return Ok(()) };
    let depth = depth_of(&tokens);
    if depth > DEPTH_MAX {
        return plan_err!(
            "the statement is nested too deeply: up to {depth} operators, joins and subqueries stand inside one \
             another, and {DEPTH_MAX} may; write a list as IN (...), keep numbers in a table of VALUES to join \
             with, or ask in several statements"
        );
    }
    let bytes = text.len();
    if bytes > BYTES_MAX {
        return plan_err!(
            "the statement has {bytes} bytes, and {BYTES_MAX} may: ask in several statements, or take a long list \
             from a table, as in IN (SELECT …)"
        );
    }
    Ok(())
}

/// Refuses a parsed statement that becomes too large when each query of WITH is put wherever it is
/// used. The planner does that, and would not end.
///
/// # Errors
///
/// An error of planning that says what to do.
pub(crate) fn demand_few_queries(statement: &impl Visit) -> Result<()> {
    if queries_of(statement) > QUERIES_MAX {
        return plan_err!(
            "the queries of the WITH use one another again and again: written out, there are more than \
             {QUERIES_MAX} of them; use them fewer times, or ask in several statements"
        );
    }
    Ok(())
}

/// The number of queries in a statement, those of WITH counted wherever they are used.
fn queries_of(statement: &impl Visit) -> usize {
    let mut counted = QueryNames { named: HashMap::new(), open: vec![(0, Vec::new().into_iter())] };
    let _ = statement.visit(&mut counted);
    counted.open[0].0
}

struct QueryNames {
    /// The number of queries that each name of WITH stands for. Names are in lower case, as those
    /// without quotes are read; of equal ones the greatest counts.
    named: HashMap<String, usize>,
    /// For each query around the present place, the number of queries in it so far, and the names
    /// of its WITH that are still to come: their queries are visited first, in this order.
    open: Vec<(usize, std::vec::IntoIter<String>)>,
}

impl QueryNames {
    fn add(&mut self, queries: usize) {
        let (sum, _) = self.open.last_mut().expect("the statement stays open");
        *sum = sum.saturating_add(queries);
    }
}

impl Visitor for QueryNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        let names: Vec<String> = named.map(|query| query.alias.name.value.to_lowercase()).collect();
        self.open.push((1, names.into_iter()));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        let (queries, _) = self.open.pop().expect("it was opened before");
        match self.open.last_mut().and_then(|(_, names)| names.next()) {
            Some(name) => {
                let known = self.named.entry(name).or_default();
                *known = queries.max(*known);
            }
            None => self.add(queries),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(name)] = &name.0[..]
            && let Some(&queries) = self.named.get(&name.value.to_lowercase())
        {
            self.add(queries);
        }
        ControlFlow::Continue(())
    }
}

/// The part of the text between brackets, or between CASE and END, that was read so far.
#[derive(Debug, Default)]
struct NestingLevel {
    is_case: bool,
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
}

impl NestingLevel {
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
        use Keyword::{
            AND, APPLY, AT, BETWEEN, COLLATE, DIV, EXCEPT, EXPLAIN, FROM, GROUP, HAVING, ILIKE, IN,
            INTERSECT, INTERVAL, IS, JOIN, LATERAL, LIKE, LIMIT, MATCH, MATCH_RECOGNIZE, MEMBER,
            MINUS, NOT, NOTNULL, OPERATOR, OR, ORDER, OVER, OVERLAPS, PIVOT, QUALIFY, REGEXP,
            RLIKE, SELECT, SIMILAR, UNION, UNPIVOT, WHERE, WINDOW, XOR,
        };
        match keyword {
            AND | OR | XOR => {
                self.end_term();
                self.junctions += 1;
            }
            SELECT => {
                self.end_part();
                (self.has_query, self.is_from) = (true, false);
            }
            FROM => (self.has_query, self.is_from) = (true, true),
            WHERE | HAVING | QUALIFY | LIMIT => {
                self.end_part();
                self.is_from = false;
            }
            // These words end no part: they also occur in expressions, such as WITHIN GROUP.
            GROUP | WINDOW | ORDER => self.is_from = false,
            UNION | EXCEPT | INTERSECT | MINUS | JOIN | APPLY | LATERAL | PIVOT | UNPIVOT
            | MATCH_RECOGNIZE | OVER | EXPLAIN => self.steps += 1,
            NOT | NOTNULL | IS | IN | BETWEEN | OVERLAPS | LIKE | ILIKE | RLIKE | REGEXP
            | MATCH | SIMILAR | MEMBER | OPERATOR | DIV | COLLATE | INTERVAL | AT => {
                self.operators += 1;
            }
            _ => {}
        }
    }

    fn comma(&mut self) {
        self.end_part();
        // The tables of a FROM are joined one after another.
        self.steps += usize::from(self.is_from);
    }
}

/// An upper bound of the depth of a statement's trees. A text that does not parse has one too.
fn depth_of(tokens: &[Token]) -> usize {
    let mut reading = NestingScanner::default();
    let mut words_since_period = usize::MAX;
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        match token {
            // A name of two parts is one name; each further part may be a field of the one before.
            Token::Period => reading.level.operators += usize::from(words_since_period == 1),
            Token::Word(word) if word.quote_style.is_none() => reading.keyword(word.keyword),
            Token::Word(_) => {}
            token => reading.sign(token),
        }
        words_since_period =
            if *token == Token::Period { 0 } else { words_since_period.saturating_add(1) };
    }
    while !reading.levels.is_empty() {
        reading.close();
    }
    reading.level.depth()
}

/// The state of reading a statement.
#[derive(Debug, Default)]
struct NestingScanner {
    /// The levels around the current one, the outermost first.
    levels: Vec<NestingLevel>,
    level: NestingLevel,
}

impl NestingScanner {
    fn open(&mut self, is_case: bool) {
        let outer =
            std::mem::replace(&mut self.level, NestingLevel { is_case, ..NestingLevel::default() });
        self.levels.push(outer);
    }

    /// Ends a level, if there is one: the text may have too many closing brackets.
    fn close(&mut self) {
        self.level.is_case = false;
        if let Some(outer) = self.levels.pop() {
            let inner = std::mem::replace(&mut self.level, outer);
            self.level.take(inner);
        }
    }

    fn keyword(&mut self, keyword: Keyword) {
        match keyword {
            Keyword::CASE => self.open(true),
            Keyword::END if self.level.is_case => self.close(),
            keyword => self.level.word(keyword),
        }
    }

    fn sign(&mut self, token: &Token) {
        match token {
            Token::LParen | Token::LBrace => self.open(false),
            Token::LBracket => {
                self.level.operators += 1;
                self.open(false);
            }
            Token::RParen | Token::RBrace | Token::RBracket => {
                while self.level.is_case {
                    self.close();
                }
                self.close();
            }
            Token::Comma => self.level.comma(),
            Token::VerticalBarRightAngleBracket => self.level.steps += 1,
            // These contain no other expression.
            Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::SemiColon
            | Token::EOF => {}
            _ => self.level.operators += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn depth_of(text: &str) -> usize {
        super::depth_of(&Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap())
    }

    #[test]
    fn what_with_names_counts_wherever_it_is_used() {
        let parsed = |text: &str| Parser::parse_sql(&GenericDialect {}, text).unwrap();
        for (text, wanted) in [
            ("SELECT 1", 1),
            ("SELECT (SELECT 1), x IN (SELECT 2) FROM (SELECT 3)", 4),
            ("WITH a AS (SELECT 1) SELECT a.x, a.y FROM a", 2),
            ("WITH a AS (SELECT 1), b AS (SELECT * FROM a, a c) SELECT * FROM b, b c", 7),
            ("WITH a (x, y) AS (SELECT 1, 2) SELECT * FROM a, \"a\" b", 3),
            ("WITH A AS (SELECT 1), b AS (SELECT * FROM a, A c) SELECT * FROM B, b c", 7),
            ("SELECT CAST(x AS DECIMAL(10, 2)) AS a FROM (VALUES (1)) AS t (x)", 2),
        ] {
            assert_eq!(queries_of(&parsed(text)), wanted, "{text}");
        }
        let mut text = "WITH w0 AS (SELECT 1)".to_owned();
        for number in 1..100 {
            let from = number - 1;
            write!(text, ", w{number} AS (SELECT * FROM w{from} a, w{from} b)").unwrap();
        }
        let text = format!("{text} SELECT * FROM w99");
        let said = demand_few_queries(&parsed(&text)).unwrap_err();
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
