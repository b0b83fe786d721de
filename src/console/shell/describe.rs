//! Descriptions of tables, functions and named queries in the shell.

use std::fmt::Write as _;

use indicatif::HumanCount;

use crate::Error;
use crate::model::suggestions::did_you_mean;
use crate::query::{Function, NamedQuery, Relation};
use steplake_terminal::output::counted;

/// The minimum width of the last column in characters, on any screen.
const LAST_WIDTH_MIN: usize = 24;
/// The maximum width of any other column in characters. After a longer cell, the line continues
/// below it.
const WIDTH_MAX: usize = 34;

/// Formats lines of cells, each column as wide as its widest cell. The last column is wrapped to
/// fit into `width`.
fn columns<const N: usize>(lines: &[[String; N]], width: Option<usize>) -> String {
    let letters = |cell: &String| cell.chars().count();
    let widest = |column: usize| {
        let lengths = lines.iter().map(|cells| letters(&cells[column]));
        lengths.filter(|&length| length <= WIDTH_MAX).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(widest);
    let before: usize = widths[..N - 1].iter().map(|width| width + 2).sum();
    let last = width.map_or(usize::MAX, |width| width.saturating_sub(before).max(LAST_WIDTH_MIN));
    let mut text = String::new();
    for cells in lines {
        let mut line = String::new();
        let mut begin = 0;
        for (cell, width) in cells.iter().zip(widths).take(N - 1) {
            begin += width + 2;
            if letters(cell) > width {
                let _ = writeln!(text, "{line}{cell}");
                line = " ".repeat(begin);
            } else {
                let _ = write!(line, "{cell:width$}  ");
            }
        }
        for part in wrapped(&cells[N - 1], last) {
            let _ = writeln!(text, "{}", (line + &part).trim_end());
            line = " ".repeat(before);
        }
    }
    text
}

/// Wraps a text into lines of at most `width` characters, except for longer words; at least one
/// line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split(' ') {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > width {
            lines.push(String::new());
            length = 0;
        }
        let line = lines.last_mut().expect("there is one from the beginning");
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += letters;
    }
    lines
}

/// `\d`: lists the tables and views.
pub(super) fn relations(relations: &[Relation], width: Option<usize>) -> String {
    let rows =
        |rows: Option<u64>| rows.map_or("view".to_owned(), |rows| HumanCount(rows).to_string());
    let widest = relations.iter().map(|relation| rows(relation.rows).len()).max().unwrap_or(0);
    let widest = widest.max("rows".len());
    let mut lines =
        vec![["table".to_owned(), format!("{:>widest$}", "rows"), "a row is".to_owned()]];
    lines.extend(relations.iter().map(|relation| {
        let rows = format!("{:>widest$}", rows(relation.rows));
        [relation.name.clone(), rows, relation.description.clone()]
    }));
    columns(&lines, width) + "`\\d NAME` describes the columns of one table.\n"
}

/// `\d NAME`: describes the columns of one table.
pub(super) fn relation(
    relations: &[Relation],
    name: &str,
    width: Option<usize>,
) -> Result<String, Error> {
    let Some(relation) = relations.iter().find(|relation| relation.name == name) else {
        let names: Vec<&str> = relations.iter().map(|relation| relation.name.as_str()).collect();
        let hint = match did_you_mean(name, names.iter().copied()) {
            none if none.is_empty() => format!(": there are {}", names.join(", ")),
            hint => hint,
        };
        return Err(Error::usage(format!("there is no table `{name}`{hint}")));
    };
    let mut lines = vec![["column".to_owned(), "type".to_owned(), "meaning".to_owned()]];
    lines.extend(
        relation
            .columns
            .iter()
            .map(|column| [column.name.clone(), column.kind.clone(), column.description.clone()]),
    );
    let rows = match relation.rows {
        Some(rows) => counted(rows, "row"),
        None => "a view".to_owned(),
    };
    Ok(format!("{name} ({rows}): {}\n\n{}", relation.description, columns(&lines, width)))
}

/// `\df`: lists the functions whose names contain `pattern`, those of the field separately.
pub(super) fn functions(
    functions: &[Function],
    pattern: Option<&str>,
    width: Option<usize>,
) -> Result<String, Error> {
    let wanted = pattern.unwrap_or_default().to_lowercase();
    let found: Vec<&Function> = functions
        .iter()
        .filter(|function| function.name.to_lowercase().contains(&wanted))
        .collect();
    if found.is_empty() {
        return Err(Error::usage(format!("no function has `{wanted}` in its name")));
    }
    let listed = |of_the_field: bool| {
        let functions = found.iter().filter(|function| function.is_of_the_field == of_the_field);
        let line = |function: &&Function| {
            [
                function.syntax.clone(),
                function.kind.as_str().to_owned(),
                function.description.clone(),
            ]
        };
        columns(&functions.map(line).collect::<Vec<_>>(), width)
    };
    let (field, everywhere) = (listed(true), listed(false));
    let between = if field.is_empty() || everywhere.is_empty() { "" } else { "\n" };
    Ok(field + between + &everywhere)
}

/// `\l`: lists the named queries.
pub(super) fn queries(width: Option<usize>) -> String {
    let lines: Vec<_> = NamedQuery::list()
        .iter()
        .map(|query| {
            let parameters = query.parameters.iter().map(|parameter| parameter.name);
            let parameters = parameters.collect::<Vec<_>>().join(" ");
            [query.name.to_owned(), parameters, query.title.to_owned()]
        })
        .collect();
    columns(&lines, width) + "`\\l NAME` tells more about one, `\\query NAME` asks it.\n"
}

/// `\l NAME`: returns one query with its parameters and its text.
pub(super) fn query(name: &str) -> Result<String, Error> {
    Ok(NamedQuery::get(name)?.sql.trim_end().to_owned() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_each_other() {
        let lines = [["a", "é", "x"], ["bcd", "", ""], ["", "fg", "y"]];
        let lines = lines.map(|cells| cells.map(str::to_owned));
        assert_eq!(columns(&lines, None), "a    é   x\nbcd\n     fg  y\n");
    }

    #[test]
    fn what_is_wide_goes_on_below() {
        let lines = [["name".to_owned(), "one two three four five six seven".to_owned()]];
        let wide = "name  one two three four five six seven\n";
        assert_eq!(columns(&lines, Some(80)), wide);
        assert_eq!(columns(&lines, Some(30)), "name  one two three four five\n      six seven\n");
        assert_eq!(columns(&lines, Some(1)), columns(&lines, Some(30)));
        let long = [["x".repeat(WIDTH_MAX + 1), "text".to_owned()], ["y".into(), "text".into()]];
        assert_eq!(columns(&long, None), format!("{}\n   text\ny  text\n", long[0][0]));
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
    }
}
