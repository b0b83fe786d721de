//! Knots: files of one module that use one another in circles, so that none can be read first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::imports::{Code, Uses, by_path, crates};
use crate::tree::{demand, demand_none, module_of, tree};

/// How many files of a module may use one another in circles, with the reason. A module that is
/// not listed has no circles. Lower a number when a knot becomes smaller.
const KNOTS: &[(&str, usize, &str)] = &[];

/// The files of a circle, in order.
type Knot = Vec<usize>;

/// The largest sets of files that all use one another, be it through others: Tarjan's algorithm.
fn knots(count: usize, uses: &BTreeSet<(usize, usize)>) -> Vec<Knot> {
    let mut search = Search {
        uses,
        next: 0,
        order: vec![None; count],
        lowest: vec![0; count],
        open: Vec::new(),
        found: Vec::new(),
    };
    for file in 0..count {
        if search.order[file].is_none() {
            search.visit(file);
        }
    }
    search.found
}

struct Search<'u> {
    uses: &'u BTreeSet<(usize, usize)>,
    next: usize,
    /// When each file was reached.
    order: Vec<Option<usize>>,
    /// The earliest that was reached of the open files that each one leads to.
    lowest: Vec<usize>,
    /// Files that may be in a knot with what is reached next.
    open: Vec<usize>,
    found: Vec<Knot>,
}

impl Search<'_> {
    fn visit(&mut self, file: usize) {
        let place = self.next;
        self.next += 1;
        self.order[file] = Some(place);
        self.lowest[file] = place;
        self.open.push(file);
        for &(_, used) in self.uses.range((file, 0)..(file + 1, 0)) {
            match self.order[used] {
                None => {
                    self.visit(used);
                    self.lowest[file] = self.lowest[file].min(self.lowest[used]);
                }
                Some(reached) if self.open.contains(&used) => {
                    self.lowest[file] = self.lowest[file].min(reached);
                }
                Some(_) => {}
            }
        }
        if self.lowest[file] == place {
            let from = self.open.iter().position(|&one| one == file).unwrap_or_default();
            let mut knot = self.open.split_off(from);
            knot.sort_unstable();
            self.found.push(knot);
        }
    }
}

/// By module: its largest knot.
fn largest<'a>(code: &Code<'a>, uses: &Uses<'_>) -> BTreeMap<&'a str, Knot> {
    let module = |file: usize| module_of(code.files[file]);
    let inside = uses.keys().filter(|(from, to)| module(*from) == module(*to));
    let mut largest: BTreeMap<&str, Knot> = BTreeMap::new();
    for knot in knots(code.files.len(), &inside.copied().collect()) {
        let kept = largest.entry(module(knot[0])).or_default();
        if knot.len() > kept.len() {
            *kept = knot;
        }
    }
    largest
}

/// A knot's files, each with what it uses of the others.
fn described(code: &Code<'_>, uses: &Uses<'_>, knot: &Knot) -> String {
    let mut text = String::new();
    for &file in knot {
        let _ = writeln!(text, "    {}", code.files[file]);
        for (&(_, to), items) in uses.range((file, 0)..(file + 1, 0)) {
            if knot.contains(&to) {
                let items = items.iter().copied().collect::<Vec<_>>().join(", ");
                let _ = writeln!(text, "        uses of {}: {items}", code.files[to]);
            }
        }
    }
    text
}

/// Modules with a larger knot than `allowed`, and what in `allowed` is of no use.
pub(crate) fn problems(
    code: &Code<'_>,
    uses: &Uses<'_>,
    allowed: &[(&str, usize, &str)],
) -> Vec<String> {
    let largest = largest(code, uses);
    let most = |module: &str| allowed.iter().find(|(name, ..)| *name == module).map_or(1, |a| a.1);
    let tied = largest.iter().filter(|(module, knot)| knot.len() > most(module));
    let tied = tied.map(|(module, knot)| {
        let (count, most) = (knot.len(), most(module));
        let files = described(code, uses, knot);
        format!(
            "{module}: {count} files use one another in a circle, at most {most} may. Move an \
             item that closes the circle into a file that uses none of these:\n{files}"
        )
    });
    let stale =
        allowed.iter().filter(|(module, most, _)| *most < 2 || !largest.contains_key(module));
    let stale = stale.map(|(module, ..)| format!("{module}: not to be listed in KNOTS"));
    tied.chain(stale).collect()
}

#[test]
#[expect(clippy::print_stdout, reason = "`-- --nocapture` shows what to move to untie a knot")]
fn imports_tie_no_more_files_into_circles_than_may_be() {
    let files = tree();
    let texts = by_path(&files);
    let code = demand(Code::read(&texts, crates(&texts), false));
    let uses = demand(code.uses());
    for (module, knot) in largest(&code, &uses) {
        let files = if knot.len() > 1 { described(&code, &uses, &knot) } else { String::new() };
        println!("{module}: {}\n{files}", knot.len());
    }
    demand_none(&problems(&code, &uses, KNOTS));
}

/// The knots of a graph, the files of each in order.
fn of(count: usize, uses: &[(usize, usize)]) -> BTreeSet<Knot> {
    knots(count, &uses.iter().copied().collect()).into_iter().collect()
}

#[test]
fn knots_are_what_leads_back_to_itself() {
    let set = |knots: &[&[usize]]| knots.iter().map(|knot| knot.to_vec()).collect();
    assert_eq!(of(3, &[(0, 1), (1, 2), (0, 2)]), set(&[&[0], &[1], &[2]]));
    assert_eq!(of(4, &[(0, 1), (1, 2), (2, 0), (2, 3)]), set(&[&[0, 1, 2], &[3]]));
    assert_eq!(of(4, &[(0, 1), (1, 0), (1, 2), (2, 3), (3, 2)]), set(&[&[0, 1], &[2, 3]]));
    assert_eq!(of(4, &[(3, 1), (1, 2), (2, 1), (2, 0), (0, 3)]), set(&[&[0, 1, 2, 3]]));
    assert_eq!(of(4, &[(0, 1), (2, 1), (1, 3), (3, 2)]), set(&[&[0], &[1, 2, 3]]));
}
