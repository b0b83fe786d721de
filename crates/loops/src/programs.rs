//! The programs that have names: `matmul-64x32x128`.

use super::dag::{
    Binary, Dag, DagOutput, Dim, Dimension, Dims, NodeId, Operation, Reduction, Unary,
};

/// A family of programs, one for each list of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramFamily {
    /// The part of the name before the sizes.
    pub name: &'static str,
    /// The names of the sizes, in order.
    pub sizes: &'static [&'static str],
    /// What it computes.
    pub about: &'static str,
}

/// The families that are more than one point-wise operation, which have the operation's name and
/// one size.
pub const FAMILIES: [ProgramFamily; 7] = [
    ProgramFamily { name: "sums", sizes: &["m", "n"], about: "the sums of rows" },
    ProgramFamily { name: "maxima", sizes: &["m", "n"], about: "the largest elements of rows" },
    ProgramFamily { name: "matmul", sizes: &["m", "k", "n"], about: "[m, k] by [k, n]" },
    ProgramFamily {
        name: "linear",
        sizes: &["m", "k", "n"],
        about: "max([m, k] by [k, n] + [n], 0)",
    },
    ProgramFamily { name: "softmax", sizes: &["r", "c"], about: "the softmax of rows" },
    ProgramFamily {
        name: "layernorm",
        sizes: &["r", "c"],
        about: "rows normalised, scaled and shifted",
    },
    ProgramFamily {
        name: "conv",
        sizes: &["o", "c", "h", "w", "r", "s"],
        about: "[o, h, w], of c channels, by filters of r by s, without padding",
    },
];

/// Added to the variance of a row before it divides, as `PyTorch` does.
const LAYERNORM_EPSILON: f32 = 1e-5;

/// Names that `loops-v0` lists where somebody asks for all its programs.
pub const EXAMPLES: [&str; 12] = [
    "add-1048576",
    "multiply-65536",
    "exp-1048576",
    "sums-1024x1024",
    "maxima-1024x1024",
    "matmul-64x64x64",
    "matmul-256x256x256",
    "matmul-1024x1024x1024",
    "linear-128x256x512",
    "softmax-512x1024",
    "layernorm-512x1024",
    "conv-32x16x28x28x3x3",
];

/// Returns the program of a name.
///
/// # Errors
///
/// What is wrong with the name, in one line.
pub fn program(name: &str) -> Result<Dag, String> {
    let unknown = || {
        let families = FAMILIES.map(|family| format!("{}-{}", family.name, family.sizes.join("x")));
        format!(
            "write OPERATION-N, such as add-1024, or one of {}, with sizes for the letters",
            families.join(", ")
        )
    };
    let (kind, sizes) = name.rsplit_once('-').ok_or_else(unknown)?;
    let sizes = sizes.split('x').map(|size| {
        let number = size.parse::<u64>().ok().filter(|number| number.to_string() == size);
        number.ok_or_else(unknown)
    });
    let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
    if let ([_], Some(operation)) = (&sizes[..], pointwise(kind)) {
        let mut parts = DagBuilder::new(&["n"], &sizes);
        let n = vec![vec![Dim(0)]];
        let last = match operation {
            Pointwise::One(unary) => {
                let one =
                    parts.input(n, matches!(unary, Unary::Log | Unary::Sqrt | Unary::Reciprocal));
                parts.push(Operation::Unary(unary, one))
            }
            Pointwise::Two(binary) => {
                let one = parts.input(n.clone(), false);
                let other = parts.input(n, binary == Binary::Divide);
                parts.push(Operation::Binary(binary, one, other))
            }
        };
        return parts.finish(last, vec![Dim(0)]);
    }
    let family = FAMILIES.iter().find(|family| family.name == kind).ok_or_else(unknown)?;
    if family.sizes.len() != sizes.len() {
        return Err(unknown());
    }
    let parts = DagBuilder::new(family.sizes, &sizes);
    match kind {
        "sums" => parts.rows(Reduction::Sum),
        "maxima" => parts.rows(Reduction::Max),
        "matmul" => parts.matmul(false),
        "linear" => parts.matmul(true),
        "softmax" => parts.softmax(),
        "layernorm" => parts.layernorm(),
        _ => parts.convolution(),
    }
}

enum Pointwise {
    One(Unary),
    Two(Binary),
}

fn pointwise(name: &str) -> Option<Pointwise> {
    let one = Unary::from_name(name).map(Pointwise::One);
    one.or_else(|| Binary::from_name(name).map(Pointwise::Two))
}

/// A program that is being made.
struct DagBuilder {
    dimensions: Vec<Dimension>,
    operations: Vec<Operation>,
}

impl DagBuilder {
    fn new(names: &[&str], sizes: &[u64]) -> Self {
        let dimension = |(&name, &size): (&&str, &u64)| Dimension { name: name.to_owned(), size };
        let dimensions = names.iter().zip(sizes).map(dimension).collect();
        Self { dimensions, operations: Vec::new() }
    }

    fn push(&mut self, operation: Operation) -> NodeId {
        let id = u8::try_from(self.operations.len()).expect("a family has few nodes");
        self.operations.push(operation);
        NodeId(id)
    }

    fn input(&mut self, axes: Vec<Vec<Dim>>, is_positive: bool) -> NodeId {
        self.push(Operation::Input { axes, is_positive })
    }

    fn array(&mut self, dims: &[Dim]) -> NodeId {
        self.input(dims.iter().map(|&dim| vec![dim]).collect(), false)
    }

    fn binary(&mut self, binary: Binary, one: NodeId, other: NodeId) -> NodeId {
        self.push(Operation::Binary(binary, one, other))
    }

    fn reduce(&mut self, reduction: Reduction, over: &[Dim], one: NodeId) -> NodeId {
        self.push(Operation::Reduce(reduction, over.iter().copied().collect::<Dims>(), one))
    }

    fn finish(self, node: NodeId, axes: Vec<Dim>) -> Result<Dag, String> {
        Dag::new(self.dimensions, self.operations, vec![DagOutput { node, axes }])
    }

    fn rows(mut self, reduction: Reduction) -> Result<Dag, String> {
        let [m, n] = [Dim(0), Dim(1)];
        let one = self.array(&[m, n]);
        let last = self.reduce(reduction, &[n], one);
        self.finish(last, vec![m])
    }

    fn matmul(mut self, is_layer: bool) -> Result<Dag, String> {
        let [m, k, n] = [Dim(0), Dim(1), Dim(2)];
        let (one, other) = (self.array(&[m, k]), self.array(&[k, n]));
        let products = self.binary(Binary::Multiply, one, other);
        let mut last = self.reduce(Reduction::Sum, &[k], products);
        if is_layer {
            let bias = self.array(&[n]);
            last = self.binary(Binary::Add, last, bias);
            let zero = self.push(Operation::Constant(0.0));
            last = self.binary(Binary::Max, last, zero);
        }
        self.finish(last, vec![m, n])
    }

    fn softmax(mut self) -> Result<Dag, String> {
        let [r, c] = [Dim(0), Dim(1)];
        let one = self.array(&[r, c]);
        let largest = self.reduce(Reduction::Max, &[c], one);
        let below = self.binary(Binary::Subtract, one, largest);
        let powers = self.push(Operation::Unary(Unary::Exp, below));
        let sum = self.reduce(Reduction::Sum, &[c], powers);
        let last = self.binary(Binary::Divide, powers, sum);
        self.finish(last, vec![r, c])
    }

    #[expect(clippy::cast_precision_loss, reason = "the number of columns, to 24 bits")]
    fn layernorm(mut self) -> Result<Dag, String> {
        let [r, c] = [Dim(0), Dim(1)];
        let share = 1.0 / self.dimensions[1].size as f32;
        let one = self.array(&[r, c]);
        let (scale, shift) = (self.array(&[c]), self.array(&[c]));
        let share = self.push(Operation::Constant(share));
        let epsilon = self.push(Operation::Constant(LAYERNORM_EPSILON));
        let sum = self.reduce(Reduction::Sum, &[c], one);
        let mean = self.binary(Binary::Multiply, sum, share);
        let centred = self.binary(Binary::Subtract, one, mean);
        let squares = self.binary(Binary::Multiply, centred, centred);
        let sum = self.reduce(Reduction::Sum, &[c], squares);
        let variance = self.binary(Binary::Multiply, sum, share);
        let shifted = self.binary(Binary::Add, variance, epsilon);
        let deviation = self.push(Operation::Unary(Unary::Sqrt, shifted));
        let inverse = self.push(Operation::Unary(Unary::Reciprocal, deviation));
        let normal = self.binary(Binary::Multiply, centred, inverse);
        let scaled = self.binary(Binary::Multiply, normal, scale);
        let last = self.binary(Binary::Add, scaled, shift);
        self.finish(last, vec![r, c])
    }

    fn convolution(mut self) -> Result<Dag, String> {
        let [out, channel, row, column] = [0, 1, 2, 3].map(Dim);
        let [down, right] = [4, 5].map(Dim);
        let axes = vec![vec![channel], vec![row, down], vec![column, right]];
        let image = self.input(axes, false);
        let filters = self.array(&[out, channel, down, right]);
        let products = self.binary(Binary::Multiply, image, filters);
        let last = self.reduce(Reduction::Sum, &[channel, down, right], products);
        self.finish(last, vec![out, row, column])
    }
}
