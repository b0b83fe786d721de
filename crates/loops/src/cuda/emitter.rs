//! The state of a kernel that is being written: where its loops are, and how they are opened.

use super::super::dag::{Dag, Dim, NodeId};
use super::super::outline::LoopNumber;
use super::super::schedule::LoopKind;
use super::lines::KernelText;
use super::mapping::{GpuLocation, Launch, Mapping};

/// The most places of a thread's part of a tile that are hoped to be registers.
pub(super) const REGISTER_PLACES_MAX: u64 = 256;

/// The most iterations of a loop around threads that are unrolled, so that their loads are under
/// way together.
const BATCH_MAX: u64 = 8;

/// The position of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GpuPosition {
    /// A variable.
    At(String),
    /// All positions at once.
    Lane,
}

/// A number that is known, or a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// A number.
    Known(u64),
    /// An expression.
    Variable(String),
}

/// A part of an input that the threads of a block copy into shared memory before they read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staged {
    /// The leaf that reads it.
    pub(super) leaf: usize,
    /// The input.
    pub(super) node: NodeId,
    /// The loop of which each iteration has a part.
    pub(super) at: LoopNumber,
    /// The dimensions of each axis, outermost first.
    pub(super) axes: Vec<Vec<Dim>>,
    /// The extent of each axis.
    pub(super) extents: Vec<u64>,
    /// The distance between neighbours on each axis in shared memory.
    pub(super) distances: Vec<u64>,
    /// The number of places in shared memory.
    pub(super) places: u64,
    /// Whether the part of the next iteration is on its way while one is computed.
    pub(super) is_pipelined: bool,
}

impl Staged {
    /// Whether it is what a leaf reads of an input.
    pub(super) fn is_for(&self, leaf: usize, node: NodeId) -> bool {
        (self.leaf, self.node) == (leaf, node)
    }

    /// The distance between neighbours of each dimension.
    pub(super) fn strides(&self) -> Vec<(Dim, u64)> {
        let axes = self.axes.iter().zip(&self.distances);
        axes.flat_map(|(axis, &distance)| axis.iter().map(move |&dim| (dim, distance))).collect()
    }

    /// Its name in the kernel.
    pub(super) fn name(leaf: usize, input: usize) -> String {
        format!("g{leaf}_{input}")
    }
}

/// Writes a kernel.
#[derive(Debug)]
pub(super) struct Emitter<'a> {
    pub(super) dag: &'a Dag,
    pub(super) mapping: &'a Mapping,
    pub(super) lines: KernelText,
    /// The root item that the kernel runs.
    pub(super) root: usize,
    /// What is copied into shared memory.
    pub(super) staged: Vec<Staged>,
    /// The position of each loop that is open.
    pub(super) positions: Vec<GpuPosition>,
    /// How far one iteration of each open loop goes.
    pub(super) covered: Vec<Extent>,
    /// The number of lanes of the vector that is being written.
    pub(super) lanes: Option<u64>,
    /// The loops that are unrolled.
    unrolled: Vec<bool>,
}

impl<'a> Emitter<'a> {
    /// Begins a kernel.
    pub(super) fn new(
        dag: &'a Dag,
        mapping: &'a Mapping,
        root: usize,
        staged: Vec<Staged>,
    ) -> Self {
        let loops = mapping.runs.len();
        let position = |number| GpuPosition::At(format!("p{number}"));
        let mut emitter = Self {
            dag,
            mapping,
            lines: KernelText::default(),
            root,
            staged,
            positions: (0..loops).map(position).collect(),
            covered: vec![Extent::Known(1); loops],
            lanes: None,
            unrolled: Vec::new(),
        };
        emitter.unrolled = (0..loops).map(|number| emitter.is_unrolled(number)).collect();
        emitter
    }

    fn is_unrolled(&self, number: LoopNumber) -> bool {
        let (outline, extent) = (&self.mapping.outline, self.mapping.facts(number).extent());
        if self.mapping.runs[number] != LoopKind::Serial {
            return true;
        }
        // An index of registers has to be known.
        let is_axis = outline.leaves.iter().any(|leaf| {
            let tile = outline.cached(self.dag, leaf).map(|at| outline.tile(self.dag, leaf, at));
            tile.is_some_and(|tile| {
                tile.contains(&number) && self.tile_places(&tile) <= REGISTER_PLACES_MAX
            })
        });
        let is_around = |leaf: &[LoopNumber]| {
            let within = leaf.iter().skip_while(|&&at| at != number);
            within.skip(1).any(|&at| self.mapping.runs[at] == LoopKind::Block)
        };
        let is_batch = outline.leaves.iter().any(|leaf| is_around(&leaf.path));
        is_axis || (is_batch && extent <= BATCH_MAX && self.staged.is_empty() && !self.waits())
    }

    /// Whether threads of the kernel use what others make.
    fn waits(&self) -> bool {
        let roots = self.mapping.roots.iter().enumerate();
        roots.filter(|(_, root)| **root == self.root).any(|(leaf, _)| self.is_exchanged(leaf))
    }

    /// Whether the value of a leaf goes from one thread of a block to another.
    pub(super) fn is_exchanged(&self, leaf: usize) -> bool {
        self.mapping.launches[self.root].threads > 1
            && self.mapping.places[leaf].0 != GpuLocation::Thread
            && self.mapping.uses(self.dag, leaf).next().is_some()
    }

    /// Whether the iterations of a loop are dealt to blocks or threads.
    pub(super) fn is_dealt(&self, number: LoopNumber) -> bool {
        self.mapping.runs[number].is_concurrent()
    }

    /// How far a loop goes now.
    pub(super) fn range(&self, number: LoopNumber) -> Extent {
        let facts = self.mapping.facts(number);
        let loops = &self.mapping.outline.loops;
        let mut around = std::iter::successors(facts.parent, |&at| loops[at].parent);
        let same = around.find(|&at| loops[at].dim == facts.dim);
        same.map_or(Extent::Known(facts.range), |at| self.covered[at].clone())
    }

    /// The number of iterations of a loop now.
    pub(super) fn count(&self, number: LoopNumber) -> Extent {
        let step = self.mapping.facts(number).step;
        match self.range(number) {
            Extent::Known(range) => Extent::Known(range.div_ceil(step)),
            Extent::Variable(range) if step == 1 => Extent::Variable(range),
            Extent::Variable(range) => {
                Extent::Variable(format!("({range} + {}) / {step}", step - 1))
            }
        }
    }

    /// Opens a loop. Returns the number of braces to close.
    pub(super) fn open(&mut self, number: LoopNumber) -> usize {
        let count = self.count(number);
        let (extent, position) = (self.mapping.facts(number).extent(), format!("p{number}"));
        self.positions[number] = GpuPosition::At(position.clone());
        let head =
            |count: &str| format!("for (int {position} = 0; {position} < {count}; ++{position})");
        let braces = if self.is_dealt(number) {
            self.open_dealt(number, &count)
        } else {
            let is_unrolled = self.unrolled[number];
            if is_unrolled {
                self.lines.put("#pragma unroll");
            }
            match count {
                Extent::Known(count) => self.lines.open(&head(&count.to_string())),
                Extent::Variable(_) if is_unrolled => self.lines.open(&head(&extent.to_string())),
                Extent::Variable(ref count) => self.lines.open(&head(count)),
            }
            match count {
                Extent::Variable(count) if is_unrolled => {
                    self.lines.open(&format!("if ({position} < {count})"));
                    2
                }
                _ => 1,
            }
        };
        self.cover(number);
        braces
    }

    /// Opens a loop that is dealt to blocks or threads: its body is run for one position, or not.
    fn open_dealt(&mut self, number: LoopNumber, count: &Extent) -> usize {
        let (run, launch) = (self.mapping.runs[number], self.mapping.launches[self.root]);
        let (extent, within) = (self.mapping.facts(number).extent(), self.mapping.within[number]);
        let loops = &self.mapping.outline.loops;
        let mut around = std::iter::successors(loops[number].parent, |&at| loops[at].parent);
        let outer = around.find(|&at| self.mapping.runs[at] == run);
        let (source, available) = match (run, outer) {
            (LoopKind::Parallel, _) => {
                let Launch { blocks, threads } = launch;
                (format!("block * {threads} + thread"), blocks * threads)
            }
            (_, Some(outer)) => (format!("r{outer}"), self.mapping.within[outer]),
            (LoopKind::Grid, None) => ("block".to_owned(), launch.blocks),
            _ => ("thread".to_owned(), launch.threads),
        };
        self.lines.open("");
        if within == 1 {
            self.lines.put(&format!("const int p{number} = {source};"));
        } else {
            self.lines.put(&format!("const int p{number} = {source} / {within};"));
            self.lines.put(&format!("const int r{number} = {source} % {within};"));
        }
        let count = match count {
            Extent::Known(_) if extent * within == available => return 1,
            Extent::Known(count) => count.to_string(),
            Extent::Variable(count) => count.clone(),
        };
        self.lines.open(&format!("if (p{number} < {count})"));
        2
    }

    /// Notes how far one iteration of a loop goes.
    fn cover(&mut self, number: LoopNumber) {
        let step = self.mapping.facts(number).step;
        let range = match self.range(number) {
            _ if step == 1 => return self.covered[number] = Extent::Known(1),
            Extent::Known(range) if range.is_multiple_of(step) => {
                return self.covered[number] = Extent::Known(step);
            }
            Extent::Known(range) => range.to_string(),
            Extent::Variable(range) => range,
        };
        let line = format!("const int c{number} = least({step}, {range} - p{number} * {step});");
        self.lines.put(&line);
        self.covered[number] = Extent::Variable(format!("c{number}"));
    }

    /// Runs `visit` within loops, the last one as a vector if it is one.
    pub(super) fn each(&mut self, loops: &[LoopNumber], visit: &mut dyn FnMut(&mut Self)) {
        match loops {
            [] => visit(self),
            &[last] if self.mapping.runs[last] == LoopKind::Vector => self.vector(last, visit),
            &[first, ref rest @ ..] => {
                let braces = self.open(first);
                self.each(rest, visit);
                self.lines.close(braces);
            }
        }
    }

    /// Runs `visit` for all lanes of a loop at once, or for one after another where it is short.
    pub(super) fn vector(&mut self, number: LoopNumber, visit: &mut dyn FnMut(&mut Self)) {
        let lanes = self.mapping.facts(number).extent();
        let count = self.count(number);
        if let Extent::Variable(count) = &count {
            self.lines.open(&format!("if ({count} == {lanes})"));
        } else {
            self.lines.open("");
        }
        self.positions[number] = GpuPosition::Lane;
        self.lanes = Some(lanes);
        visit(self);
        self.lanes = None;
        self.lines.close(1);
        if matches!(count, Extent::Variable(_)) {
            self.lines.open("else");
            let braces = self.open(number);
            visit(self);
            self.lines.close(braces + 1);
        }
    }

    /// What has to be so for a thread to compute a leaf, if not all threads do.
    pub(super) fn guard(&self, leaf: usize) -> Option<String> {
        let (place, launch) = (self.mapping.places[leaf].0, self.mapping.launches[self.root]);
        let path = &self.mapping.outline.leaves[leaf].path;
        let first = |runs: &[LoopKind], name: &str, all: u64| {
            let innermost = self.mapping.innermost(path, runs);
            let width = innermost.map_or(all, |at| self.mapping.within[at]);
            let name = innermost.map_or(name.to_owned(), |at| format!("r{at}"));
            (width > 1).then(|| format!("{name} == 0"))
        };
        let of_threads = (place != GpuLocation::Thread)
            .then(|| first(&[LoopKind::Block, LoopKind::Parallel], "thread", launch.threads));
        let of_blocks = place
            .is_of_device()
            .then(|| first(&[LoopKind::Grid, LoopKind::Parallel], "block", launch.blocks));
        let parts = [of_threads, of_blocks].into_iter().flatten().flatten().collect::<Vec<_>>();
        (!parts.is_empty()).then(|| parts.join(" && "))
    }
}
