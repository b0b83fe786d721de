//! The text of one function, as it grows.

use std::fmt::Write as _;

/// A function that is being written.
#[derive(Debug, Default)]
pub(super) struct FunctionText {
    body: String,
    /// What is set up once, at the beginning.
    entry: String,
    /// The number of the next name.
    next: usize,
    /// The name of the block that is being written.
    block: String,
}

impl FunctionText {
    /// Begins the first block after the entry.
    pub(super) fn new() -> Self {
        Self { block: "body".to_owned(), ..Self::default() }
    }

    /// Returns the blocks of the function.
    pub(super) fn finish(self) -> String {
        format!("entry:\n{}  br label %body\nbody:\n{}", self.entry, self.body)
    }

    /// The number of bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("%v{}", self.next)
    }

    /// Writes an instruction without a result.
    pub(super) fn put(&mut self, instruction: &str) {
        writeln!(self.body, "  {instruction}").expect("a string takes it");
    }

    /// Writes an instruction, and returns the name of its result.
    pub(super) fn value(&mut self, instruction: &str) -> String {
        let name = self.name();
        writeln!(self.body, "  {name} = {instruction}").expect("a string takes it");
        name
    }

    /// Reserves an array of numbers for the time of a call.
    pub(super) fn local(&mut self, places: u64) -> String {
        let name = self.name();
        writeln!(self.entry, "  {name} = alloca [{places} x float], align 64")
            .expect("a string takes it");
        name
    }

    fn begin(&mut self, label: &str) {
        writeln!(self.body, "{label}:").expect("a string takes it");
        label.clone_into(&mut self.block);
    }

    /// Begins a loop from one number to another. One that is sure runs at least once.
    pub(super) fn open(&mut self, from: &str, to: &str, is_sure: bool) -> OpenLoop {
        self.next += 1;
        let (head, exit) = (format!("loop{}", self.next), format!("exit{}", self.next));
        if is_sure {
            self.put(&format!("br label %{head}"));
        } else {
            let any = self.value(&format!("icmp ult i64 {from}, {to}"));
            self.put(&format!("br i1 {any}, label %{head}, label %{exit}"));
        }
        let before = self.block.clone();
        self.begin(&head);
        let (position, after) = (self.name(), self.name());
        let (at, from, to) = (self.body.len(), from.to_owned(), to.to_owned());
        OpenLoop { position, after, head, exit, before, from, to, at }
    }

    /// Ends a loop.
    pub(super) fn close(&mut self, open: &OpenLoop) {
        let OpenLoop { position, after, head, exit, before, from, to, at } = open;
        let latch = &self.block;
        let phi = format!("  {position} = phi i64 [ {from}, %{before} ], [ {after}, %{latch} ]\n");
        self.body.insert_str(*at, &phi);
        self.put(&format!("{after} = add nuw nsw i64 {position}, 1"));
        let more = self.value(&format!("icmp ult i64 {after}, {to}"));
        self.put(&format!("br i1 {more}, label %{head}, label %{exit}"));
        self.begin(exit);
    }

    /// Begins what is run if a condition holds. Returns the label at which it ends.
    pub(super) fn open_if(&mut self, condition: &str) -> String {
        self.next += 1;
        let (then, exit) = (format!("then{}", self.next), format!("exit{}", self.next));
        self.put(&format!("br i1 {condition}, label %{then}, label %{exit}"));
        self.begin(&then);
        exit
    }

    /// Ends what is run if a condition holds.
    pub(super) fn close_if(&mut self, exit: &str) {
        self.put(&format!("br label %{exit}"));
        self.begin(exit);
    }
}

/// A loop that is being written.
#[derive(Debug)]
pub(super) struct OpenLoop {
    /// The name of the position.
    pub(super) position: String,
    after: String,
    head: String,
    exit: String,
    before: String,
    from: String,
    to: String,
    /// Where the first instruction of the head belongs.
    at: usize,
}
