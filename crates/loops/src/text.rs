//! Programs and states as text. Equal states have equal texts.
//!
//! ```text
//! // loops-v0 state 1
//! m = 512
//! k = 256
//! n = 1024
//! %0 = input[m, k]
//! %1 = input[k, n]
//! %2 = multiply %0 %1
//! %3 = sum[k] %2
//! output %3[m, n]
//! for m by 8 parallel
//!   for k by 1
//!     for m by 1 unroll
//!       for n by 1
//!         %2
//!         %3
//! ```
//!
//! A text without loops is the program with its initial schedule. An action space with a cursor
//! adds a line `cursor 1 resize`.

use std::fmt::Write as _;
use std::sync::Arc;

use sha1::{Digest as _, Sha1};

use super::dag::{
    Binary, DIMENSIONS_MAX, Dag, DagOutput, Dim, Dimension, Dims, NodeId, Operation, Reduction,
    Unary,
};
use super::outline::Outline;
use super::rules::check;
use super::schedule::{BodyItem, LOOPS_MAX, Loop, LoopKind, Schedule};
use super::state::{Cursor, LoopsState, Mode};
use steplake_model::StateId;

/// The first line, with the version of the text.
const HEADER: &str = "// loops-v0 state 1";

/// The most bytes of a text that is read.
const BYTES_MAX: usize = 1 << 16;

/// What a dimension of a list begins an input with.
const INPUT: &str = "input";
const POSITIVE: &str = "positive";

impl LoopsState {
    /// Reads a program, or a serialised state.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in one line.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        parse(bytes)
    }

    /// Returns the text of which [`parse`](Self::parse) makes this state. Equal states have equal
    /// texts.
    pub fn text(&self) -> String {
        write(self)
    }

    /// Returns the state's name: a hash of its text, whose first line is a header with a version.
    pub fn identify(&self) -> StateId {
        StateId(Sha1::digest(self.text()).into())
    }
}

/// Returns the text of a program without a schedule.
pub fn write_program(dag: &Dag) -> String {
    let mut text = format!("{HEADER}\n");
    for dimension in dag.dimensions() {
        line(&mut text, format_args!("{} = {}", dimension.name, dimension.size));
    }
    for id in dag.ids() {
        line(&mut text, format_args!("{id} = {}", operation(dag, id)));
    }
    for DagOutput { node, axes } in dag.outputs() {
        let axes = axes.iter().map(|&dim| dag.name(dim)).collect::<Vec<_>>();
        line(&mut text, format_args!("output {node}[{}]", axes.join(", ")));
    }
    text
}

/// Returns the text of a state.
fn write(state: &LoopsState) -> String {
    let mut text = write_program(&state.dag);
    state.schedule.0.iter().for_each(|item| write_item(&mut text, &state.dag, item, 0));
    if let Some(Cursor { at, mode }) = state.cursor {
        line(&mut text, format_args!("cursor {at} {}", mode.word()));
    }
    text
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("a string takes it");
}

/// Returns what a node computes: `sum[k] %2`.
pub(super) fn operation(dag: &Dag, id: NodeId) -> String {
    let names = |dims: &[Dim], between: &str| {
        dims.iter().map(|&dim| dag.name(dim)).collect::<Vec<_>>().join(between)
    };
    match &dag.node(id).operation {
        Operation::Input { axes, is_positive } => {
            let axes = axes.iter().map(|axis| names(axis, "+")).collect::<Vec<_>>();
            let word = if *is_positive { POSITIVE } else { INPUT };
            format!("{word}[{}]", axes.join(", "))
        }
        Operation::Constant(number) => format!("constant {number:?}"),
        Operation::Unary(unary, one) => format!("{} {one}", unary.name()),
        Operation::Binary(binary, one, other) => format!("{} {one} {other}", binary.name()),
        Operation::Reduce(reduction, over, one) => {
            let over = over.iter().collect::<Vec<_>>();
            format!("{}[{}] {one}", reduction.name(), names(&over, ", "))
        }
    }
}

fn write_item(text: &mut String, dag: &Dag, item: &BodyItem, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
    let inner = match item {
        BodyItem::Leaf(node) => return line(text, format_args!("{node}")),
        BodyItem::Loop(inner) => inner,
    };
    write!(text, "for {} by {}", dag.name(inner.dim), inner.step).expect("a string takes it");
    write_marks(text, inner.run, inner.is_cached, inner.is_streamed);
    text.push('\n');
    inner.body.iter().for_each(|item| write_item(text, dag, item, depth + 1));
}

/// Writes the marks of a loop, each after a blank.
pub(super) fn write_marks(text: &mut String, run: LoopKind, is_cached: bool, is_streamed: bool) {
    let marks = [run.word(), is_cached.then_some("cache"), is_streamed.then_some("stream")];
    for mark in marks.into_iter().flatten() {
        text.push(' ');
        text.push_str(mark);
    }
}

/// Reads a state. Its schedule follows the rules.
///
/// # Errors
///
/// What is wrong with the text, in one line.
fn parse(bytes: &[u8]) -> Result<LoopsState, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!("it has more than {BYTES_MAX} bytes"));
    }
    let text = str::from_utf8(bytes).map_err(|error| format!("it is no text: {error}"))?;
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(format!("its first line is not `{HEADER}`"));
    }
    let mut parts = ParsedDag::default();
    let mut lines = lines.peekable();
    while let Some(line) = lines.next_if(|line| !is_scheduled(line)) {
        parts.read(line).map_err(|what| format!("`{line}`: {what}"))?;
    }
    let dag = Dag::new(parts.dimensions, parts.operations, parts.outputs)?;
    let mut tree = OpenBodies::default();
    let mut cursor = None;
    for line in lines {
        let read = match line.strip_prefix("cursor ") {
            Some(rest) => read_cursor(rest).map(|read| cursor = Some(read)),
            None if cursor.is_some() => Err("it comes after the cursor".to_owned()),
            None => tree.read(&dag, line),
        };
        read.map_err(|what| format!("`{line}`: {what}"))?;
    }
    let schedule = match tree.finish() {
        items if items.is_empty() => Schedule::initial(&dag),
        items => Schedule(items),
    };
    check(&schedule, &dag)?;
    // Baselines are those of the initial schedule.
    Outline::of(&Schedule::initial(&dag), &dag)
        .map_err(|what| format!("its initial schedule: {what}"))?;
    let state = LoopsState { dag: Arc::new(dag), schedule, cursor };
    state.check_cursor()?;
    Ok(state)
}

/// Whether a line is part of the schedule, or comes after it.
fn is_scheduled(line: &str) -> bool {
    let line = line.trim_start();
    let is_leaf = line.starts_with('%') && !line.contains('=');
    is_leaf || line.starts_with("for ") || line.starts_with("cursor ")
}

fn read_cursor(text: &str) -> Result<Cursor, String> {
    let read = || {
        let (at, mode) = text.split_once(' ')?;
        Some(Cursor { at: number(at)?.try_into().ok()?, mode: Mode::from_word(mode)? })
    };
    read().ok_or_else(|| "it is no cursor".to_owned())
}

/// Reads a number as it is written.
fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text)
}

/// The parts of a program.
#[derive(Default)]
struct ParsedDag {
    dimensions: Vec<Dimension>,
    operations: Vec<Operation>,
    outputs: Vec<DagOutput>,
}

impl ParsedDag {
    fn read(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("output ") {
            let (node, axes) = named_list(rest).ok_or("it names no dimensions")?;
            let output = DagOutput { node: node_id(node)?, axes: self.dims(axes)? };
            self.outputs.push(output);
            return Ok(());
        }
        let (name, value) = line.split_once(" = ").ok_or("it is no part of a program")?;
        if !name.starts_with('%') {
            let size = number(value).ok_or("a dimension has a size")?;
            if self.dimensions.len() == DIMENSIONS_MAX {
                return Err(format!("there are more than {DIMENSIONS_MAX} dimensions"));
            }
            self.dimensions.push(Dimension { name: name.to_owned(), size });
            return Ok(());
        }
        if node_id(name)?.place() != self.operations.len() {
            return Err(format!("the next node is %{}", self.operations.len()));
        }
        let operation = self.operation(value)?;
        self.operations.push(operation);
        Ok(())
    }

    fn operation(&self, text: &str) -> Result<Operation, String> {
        let unknown = || {
            "there is no such operation, or not with so many operands: docs/LOOPS.md lists them"
                .to_owned()
        };
        if let Some((word, list)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            if ![INPUT, POSITIVE].contains(&word) {
                return Err(unknown());
            }
            let axes = list.split(", ").map(|axis| axis.split('+').map(|one| self.dim(one)));
            let axes = axes.map(Iterator::collect).collect::<Result<_, _>>()?;
            return Ok(Operation::Input { axes, is_positive: word == POSITIVE });
        }
        let (word, rest) = text.split_once(' ').ok_or_else(unknown)?;
        if word == "constant" {
            let number = rest.parse::<f32>().ok().filter(|number| format!("{number:?}") == rest);
            return number.map(Operation::Constant).ok_or_else(|| "it is no number".to_owned());
        }
        if let Some((word, list)) = text.split_once("] ").and_then(|(head, _)| head.split_once('['))
        {
            let reduction = Reduction::from_name(word).ok_or_else(unknown)?;
            let dims = self.dims(list)?;
            if !dims.is_sorted_by(|one, next| one < next) {
                return Err("dimensions are reduced in their order".to_owned());
            }
            let (_, operand) = text.split_once("] ").ok_or_else(unknown)?;
            let over = dims.into_iter().collect::<Dims>();
            return Ok(Operation::Reduce(reduction, over, node_id(operand)?));
        }
        match rest.split_once(' ') {
            None => {
                let unary = Unary::from_name(word).ok_or_else(unknown)?;
                Ok(Operation::Unary(unary, node_id(rest)?))
            }
            Some((one, other)) => {
                let binary = Binary::from_name(word).ok_or_else(unknown)?;
                Ok(Operation::Binary(binary, node_id(one)?, node_id(other)?))
            }
        }
    }

    fn dims(&self, list: &str) -> Result<Vec<Dim>, String> {
        if list.is_empty() {
            return Ok(Vec::new());
        }
        list.split(", ").map(|name| self.dim(name)).collect()
    }

    fn dim(&self, name: &str) -> Result<Dim, String> {
        let place = self.dimensions.iter().position(|dimension| dimension.name == name);
        let dim = place.and_then(|place| u8::try_from(place).ok()).map(Dim);
        dim.ok_or_else(|| format!("there is no dimension `{name}` before it"))
    }
}

/// Splits `%3[m, n]`.
fn named_list(text: &str) -> Option<(&str, &str)> {
    text.strip_suffix(']')?.split_once('[')
}

fn node_id(text: &str) -> Result<NodeId, String> {
    let place = text.strip_prefix('%').and_then(number).and_then(|place| place.try_into().ok());
    place.map(NodeId).ok_or_else(|| format!("`{text}` is no node"))
}

/// The bodies of the loops that are being read, the innermost one last.
#[derive(Default)]
struct OpenBodies {
    items: Vec<BodyItem>,
    open: Vec<Loop>,
}

impl OpenBodies {
    fn read(&mut self, dag: &Dag, line: &str) -> Result<(), String> {
        let content = line.trim_start_matches(' ');
        let depth = line.len() - content.len();
        if depth % 2 == 1 || depth / 2 > self.open.len() {
            return Err("it is indented by two blanks for each loop around it".to_owned());
        }
        self.close(depth / 2);
        let Some(head) = content.strip_prefix("for ") else {
            self.put(BodyItem::Leaf(node_id(content)?));
            return Ok(());
        };
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let dim = dag.dims().find(|&dim| dag.name(dim) == name);
        let dim = dim.ok_or_else(|| format!("there is no dimension `{name}`"))?;
        let step = words.next().filter(|word| *word == "by").and_then(|_| words.next());
        let step = step.and_then(number).ok_or("a loop goes by a number")?;
        let mut inner = Loop::new(dim, step, Vec::new());
        let marks = words.collect::<Vec<_>>();
        for mark in &marks {
            match LoopKind::MARKED.into_iter().find(|run| run.word() == Some(mark)) {
                Some(run) => inner.run = run,
                None if *mark == "cache" => inner.is_cached = true,
                None if *mark == "stream" => inner.is_streamed = true,
                None => {
                    let runs = LoopKind::MARKED.into_iter().filter_map(LoopKind::word);
                    let known = runs.chain(["cache", "stream"]).collect::<Vec<_>>().join(", ");
                    return Err(format!("there is no mark `{mark}`: known are {known}"));
                }
            }
        }
        let mut written = String::new();
        write_marks(&mut written, inner.run, inner.is_cached, inner.is_streamed);
        if !written.split(' ').skip(1).eq(marks) {
            return Err(format!("its marks are written `{}`", written.trim_start()));
        }
        if self.open.len() == LOOPS_MAX {
            return Err(format!("there are more than {LOOPS_MAX} loops"));
        }
        self.open.push(inner);
        Ok(())
    }

    fn put(&mut self, item: BodyItem) {
        match self.open.last_mut() {
            Some(inner) => inner.body.push(item),
            None => self.items.push(item),
        }
    }

    fn close(&mut self, depth: usize) {
        while self.open.len() > depth
            && let Some(inner) = self.open.pop()
        {
            self.put(BodyItem::Loop(inner));
        }
    }

    fn finish(mut self) -> Vec<BodyItem> {
        self.close(0);
        self.items
    }
}
