//! Completes a word, given the text before it.

use rustyline::completion::Pair;

use super::commands::COMMANDS;
use crate::query::tokens::{Keyword, Token, TokenWithSpan, Word, words};
use crate::query::{Format, Function, NamedQuery, Relation};

/// The names that can complete a word.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) relations: Vec<Relation>,
    pub(super) functions: Vec<Function>,
}

/// Returns a completion that is inserted as it is listed.
fn plain(text: &str) -> Pair {
    Pair { display: text.to_owned(), replacement: text.to_owned() }
}

/// Returns a completion of an SQL name, quoted if necessary.
fn name(name: &str) -> Pair {
    let is_plain = name.chars().all(is_of_word) && !name.starts_with(|c: char| c.is_ascii_digit());
    let quoted = || format!("\"{}\"", name.replace('"', "\"\""));
    let replacement = if is_plain { name.to_owned() } else { quoted() };
    Pair { display: name.to_owned(), replacement }
}

fn function(function: &Function) -> Pair {
    let Function { name, .. } = function;
    Pair { display: format!("{name}()"), replacement: format!("{name}(") }
}

/// The SQL keywords that questions use, separated by commas.
const KEYWORDS: &str = "\
    SELECT, FROM, WHERE, GROUP BY, ORDER BY, HAVING, LIMIT, OFFSET, DISTINCT, AS, AND, OR, \
    NOT, IN, IS NULL, IS NOT NULL, BETWEEN, LIKE, ILIKE, EXISTS, CASE, WHEN, THEN, ELSE, \
    END, CAST, JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, INNER JOIN, CROSS JOIN, SEMI JOIN, \
    ANTI JOIN, ON, USING, UNION, UNION ALL, INTERSECT, EXCEPT, EXCLUDE, WITH, RECURSIVE, \
    OVER, PARTITION BY, ROWS, RANGE, PRECEDING, FOLLOWING, UNBOUNDED, CURRENT ROW, FILTER, \
    QUALIFY, ASC, DESC, NULLS FIRST, NULLS LAST, TRUE, FALSE, NULL, EXPLAIN, \
    EXPLAIN ANALYZE, DESCRIBE, SHOW TABLES";

/// The keywords that can begin a statement.
const BEGINNINGS: &str = "SELECT, WITH, EXPLAIN, EXPLAIN ANALYZE, DESCRIBE, SHOW TABLES";

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns completions for the word that ends at byte `cursor` of `line`, best first, and where the
/// word begins. `before` holds the earlier lines of the statement.
pub(super) fn complete(
    names: &Names,
    before: &str,
    line: &str,
    cursor: usize,
) -> (usize, Vec<Pair>) {
    let head = &line[..cursor];
    let begin = word_begin(head, |c| !is_of_word(c));
    let (above, _) = words(before);
    if above.is_empty() && head.trim_start().starts_with('\\') {
        return in_command(names, head);
    }
    let word = &head[begin..];
    // Nothing in a string or a comment is a name, but a name may be quoted.
    let (tokens, is_open) = words(&format!("{before}{}", &head[..begin]));
    let quoted = is_open && head[..begin].ends_with('"');
    if is_open && !quoted {
        return (begin, Vec::new());
    }
    let mut candidates = in_statement(names, before, line, &tokens, word);
    candidates.retain(|candidate| starts_with(&candidate.display, word));
    if quoted {
        for candidate in &mut candidates {
            candidate.replacement = format!("{}\"", candidate.display);
        }
    }
    let mut seen = std::collections::HashSet::new();
    candidates.retain(|candidate| seen.insert(candidate.replacement.clone()));
    (begin, candidates)
}

/// Returns where the last word of a text begins; `parts` tells the characters between words.
fn word_begin(text: &str, parts: impl Fn(char) -> bool) -> usize {
    let last = text.char_indices().rfind(|&(_, character)| parts(character));
    last.map_or(0, |(at, character)| at + character.len_utf8())
}

/// Returns whether a name begins with what was typed, ignoring case.
fn starts_with(name: &str, typed: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    typed.chars().flat_map(char::to_lowercase).all(|letter| letters.next() == Some(letter))
}

fn in_statement(
    names: &Names,
    before: &str,
    line: &str,
    earlier: &[TokenWithSpan],
    word: &str,
) -> Vec<Pair> {
    // Tables may be named after the word: SELECT comes before FROM.
    let (all, _) = words(&format!("{before}{line}"));
    let tables = || names.relations.iter().map(|relation| name(&relation.name));
    let rows = |relations: &[&Relation]| -> Vec<Pair> {
        let columns = relations.iter().flat_map(|relation| &relation.columns);
        columns.map(|column| name(&column.name)).collect()
    };
    if let [.., owner, dot] = earlier
        && dot.token == Token::Period
        && let Some(owner) = word_of(owner)
    {
        let relation = named(names, &owner.value).or_else(|| aliased(names, &all, &owner.value));
        return rows(relation.as_slice());
    }
    let last = earlier.last().map(|token| &token.token);
    if let Some(Token::Word(last)) = last
        && [Keyword::FROM, Keyword::JOIN, Keyword::DESCRIBE].contains(&last.keyword)
    {
        let functions = names.functions.iter().filter(|f| f.kind.as_str() == "table");
        let functions = functions.filter(|_| !word.is_empty());
        return tables().chain(functions.map(function)).collect();
    }
    if last.is_none_or(|token| *token == Token::SemiColon) {
        return keywords(BEGINNINGS, word);
    }
    let everything: Vec<&Relation> = names.relations.iter().collect();
    let in_use = in_use(names, &all);
    let mut candidates = rows(&in_use);
    if word.is_empty() {
        return if in_use.is_empty() { rows(&everything) } else { candidates };
    }
    candidates.extend(names.functions.iter().map(function));
    candidates.extend(tables());
    candidates.extend(keywords(KEYWORDS, word));
    if in_use.is_empty() {
        candidates.extend(rows(&everything));
    }
    candidates
}

/// Returns keywords in the case of the typed word.
fn keywords(keywords: &str, word: &str) -> Vec<Pair> {
    let is_lower = !word.is_empty() && word.chars().all(|letter| !letter.is_uppercase());
    let keywords = if is_lower { keywords.to_lowercase() } else { keywords.to_owned() };
    keywords.split(", ").map(plain).collect()
}

fn named<'a>(names: &'a Names, name: &str) -> Option<&'a Relation> {
    names.relations.iter().find(|relation| relation.name == name)
}

/// Returns the table that a statement calls `alias`: `steps s`, `steps AS s`.
fn aliased<'a>(names: &'a Names, tokens: &[TokenWithSpan], alias: &str) -> Option<&'a Relation> {
    let is_alias = |&at: &usize| word_of(&tokens[at]).is_some_and(|word| word.value == alias);
    (1..tokens.len()).filter(is_alias).find_map(|at| {
        let is_as = word_of(&tokens[at - 1]).is_some_and(|word| word.keyword == Keyword::AS);
        let owner = if is_as { at.checked_sub(2)? } else { at - 1 };
        named(names, &word_of(&tokens[owner])?.value)
    })
}

fn word_of(token: &TokenWithSpan) -> Option<&Word> {
    match &token.token {
        Token::Word(word) => Some(word),
        _ => None,
    }
}

/// Returns the tables that a statement names.
fn in_use<'a>(names: &'a Names, tokens: &[TokenWithSpan]) -> Vec<&'a Relation> {
    let is = |token: &TokenWithSpan, name: &str| word_of(token).is_some_and(|w| w.value == name);
    let named = |relation: &&Relation| tokens.iter().any(|token| is(token, &relation.name));
    names.relations.iter().filter(named).collect()
}

/// Completes a command: its name, then its arguments.
fn in_command(names: &Names, head: &str) -> (usize, Vec<Pair>) {
    let begin = word_begin(head, char::is_whitespace);
    let mut earlier = head[..begin].split_whitespace();
    let candidates: Vec<Pair> = match (earlier.next(), earlier.next()) {
        (None, _) => COMMANDS.iter().map(|(name, ..)| plain(name)).collect(),
        (Some("\\d"), None) => {
            names.relations.iter().map(|relation| plain(&relation.name)).collect()
        }
        (Some("\\df"), None) => {
            names.functions.iter().map(|function| plain(&function.name)).collect()
        }
        (Some("\\l" | "\\query"), None) => {
            NamedQuery::list().iter().map(|query| plain(query.name)).collect()
        }
        (Some("\\query"), Some(query)) => NamedQuery::get(query).map_or(Vec::new(), |query| {
            let parameter = |name| plain(&format!("{name}="));
            query.parameters.iter().map(|known| parameter(known.name)).collect()
        }),
        (Some("\\format"), None) => Format::ALL.iter().map(|(_, word, _)| plain(word)).collect(),
        (Some("\\x" | "\\timing"), None) => ["on", "off"].map(plain).to_vec(),
        _ => Vec::new(),
    };
    let word = &head[begin..];
    (
        begin,
        candidates.into_iter().filter(|candidate| candidate.display.starts_with(word)).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{FunctionKind, RelationColumn};

    fn names() -> Names {
        let column = |name: &&str| RelationColumn {
            name: (*name).to_owned(),
            kind: "int64".to_owned(),
            description: String::new(),
        };
        let relation = |name: &str, columns: &[&str]| Relation {
            name: name.to_owned(),
            description: String::new(),
            rows: None,
            columns: columns.iter().map(column).collect(),
        };
        let function = |name: &str, kind| Function {
            name: name.to_owned(),
            kind,
            syntax: String::new(),
            description: String::new(),
            is_of_the_field: false,
        };
        Names {
            relations: vec![
                relation("steps", &["step_index", "state_id", "Odd name"]),
                relation("observations", &["state_id", "InstCount"]),
            ],
            functions: vec![
                function("state", FunctionKind::Scalar),
                function("count", FunctionKind::Aggregate),
                function("series", FunctionKind::Table),
            ],
        }
    }

    /// Completes at the `^` of `line`.
    fn completed(before: &str, line: &str) -> Vec<String> {
        let cursor = line.find('^').unwrap();
        let (begin, candidates) = complete(&names(), before, &line.replace('^', ""), cursor);
        assert!(begin <= cursor);
        candidates.into_iter().map(|candidate| candidate.replacement).collect()
    }

    #[test]
    fn columns_of_the_tables_that_are_named_come_first() {
        assert_eq!(completed("", "SELECT sta^ FROM steps"), ["state_id", "state("]);
        assert_eq!(completed("SELECT sum(\n", "  inst^\nFROM observations"), ["InstCount"]);
        assert_eq!(completed("SELECT *\nFROM steps\n", "WHERE step_^"), ["step_index"]);
        assert_eq!(completed("", "SELECT ^ FROM observations"), ["state_id", "InstCount"]);
        assert_eq!(completed("", "SELECT max(^").len(), 4);
        // Without a table, any column may be meant; names that are valid already come first.
        assert_eq!(completed("", "SELECT st^"), ["state(", "steps", "step_index", "state_id"]);
    }

    #[test]
    fn an_owner_has_its_columns_alone() {
        assert_eq!(
            completed("", "SELECT o.^ FROM steps s, observations o"),
            ["state_id", "InstCount"]
        );
        assert_eq!(completed("", "SELECT s.st^ FROM steps AS s"), ["step_index", "state_id"]);
        assert_eq!(completed("", "SELECT observations.I^"), ["InstCount"]);
        assert_eq!(completed("", "SELECT nobody.s^ FROM steps"), [""; 0]);
    }

    #[test]
    fn tables_follow_from_and_join() {
        assert_eq!(completed("", "SELECT count(*) FROM s^"), ["steps", "series("]);
        assert_eq!(completed("", "SELECT * FROM steps JOIN ^"), ["steps", "observations"]);
    }

    #[test]
    fn keywords_keep_the_case_of_the_word() {
        assert_eq!(completed("", "SELECT 1 ord^"), ["order by"]);
        assert_eq!(completed("", "SEL^"), ["SELECT"]);
        assert_eq!(completed("", "SELECT 1; wi^"), ["with"]);
        assert_eq!(completed("", "^").len(), BEGINNINGS.split(", ").count());
        assert_eq!(completed("", "SELECT cou^"), ["count("]);
    }

    #[test]
    fn names_are_quoted_where_they_have_to_be() {
        assert_eq!(completed("", "SELECT Odd^ FROM steps"), ["\"Odd name\""]);
        assert_eq!(completed("", "SELECT \"Odd^ FROM steps"), ["Odd name\""]);
    }

    #[test]
    fn texts_and_comments_are_left_alone() {
        assert_eq!(completed("", "SELECT 'st^"), [""; 0]);
        assert_eq!(completed("SELECT 'a\n", "st^"), [""; 0]);
        assert_eq!(completed("/* a\n", "st^"), [""; 0]);
    }

    #[test]
    fn commands_and_what_they_take_are_completed() {
        assert_eq!(completed("", "\\qui^"), ["\\quit"]);
        assert_eq!(completed("", "\\d st^"), ["steps"]);
        assert_eq!(completed("", "\\df sta^"), ["state"]);
        assert_eq!(completed("", "\\query mean_^"), ["mean_reward"]);
        assert_eq!(completed("", "\\query mean_reward rew^"), ["reward="]);
        assert_eq!(completed("", "\\format js^"), ["json"]);
        assert_eq!(completed("", "\\snapshot ^"), [""; 0]);
        // A space of several bytes, and a word with such characters.
        assert_eq!(completed("", "\\d\u{a0}st^"), ["steps"]);
        assert_eq!(completed("", "\\d\u{2003}é^"), [""; 0]);
        assert_eq!(completed("SELECT\n", "\\qui^"), [""; 0]);
    }
}
