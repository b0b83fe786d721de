//! Programs as a service knows them.

use std::sync::Arc;

use steplake::model::Benchmark;

use crate::proto::{self, AddBenchmarkRequest, File, file};

/// A program of ours, which is sent, or one that the service has.
#[derive(Debug, Clone)]
pub(super) struct ServiceProgram {
    uri: String,
    /// Empty if the service has it.
    program: Arc<[u8]>,
}

impl ServiceProgram {
    /// A program of ours is named by its content: the service may have been sent another one of the
    /// same name. The name of its file stays, since its ending may say how to read it.
    pub(super) fn new(benchmark: &Benchmark) -> Self {
        let (uri, program) = (benchmark.uri.as_str(), Arc::clone(&benchmark.program));
        if program.is_empty() {
            return Self { uri: uri.to_owned(), program };
        }
        let digest = blake3::hash(&program).to_hex();
        let name = uri.rsplit('/').next().unwrap_or_default();
        Self { uri: format!("benchmark://steplake-{}-v0/{name}", &digest[..40]), program }
    }

    /// Whether it is a program of ours.
    pub(super) fn is_ours(&self) -> bool {
        !self.program.is_empty()
    }

    /// The program by its name.
    pub(super) fn named(&self) -> proto::Benchmark {
        proto::Benchmark { uri: self.uri.clone(), program: None, dynamic_config: None }
    }

    /// The program with its content if it is ours, or else its bare name: a service may load what
    /// it knows by name only when it is told to.
    pub(super) fn sent(&self) -> AddBenchmarkRequest {
        let content = || file::Data::Contents(self.program.to_vec());
        let program = self.is_ours().then(|| File { data: Some(content()) });
        AddBenchmarkRequest { benchmark: vec![proto::Benchmark { program, ..self.named() }] }
    }

    /// What the service said of the program, as its user names it.
    pub(super) fn told(&self, said: &str, uri: &str) -> String {
        said.replace(&self.uri, uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_ours_is_named_by_its_content() {
        let benchmark = |uri: &str, program: &[u8]| Benchmark {
            uri: uri.parse().unwrap(),
            program: program.into(),
            provenance: steplake::model::Provenance::default(),
            execution: None,
        };
        let program = ServiceProgram::new(&benchmark("file:///a/b/sum.txt", b"1 + 2"));
        assert!(program.is_ours() && program.named().uri.ends_with("-v0/sum.txt"));
        let other = ServiceProgram::new(&benchmark("file:///a/b/sum.txt", b"1 + 3"));
        assert_ne!(program.named().uri, other.named().uri);
        let said = format!("{} is wrong", other.named().uri);
        assert_eq!(other.told(&said, "file:///a/b/sum.txt"), "file:///a/b/sum.txt is wrong");
        let known = ServiceProgram::new(&benchmark("benchmark://own-v0/sum", b""));
        assert_eq!(
            (known.is_ours(), known.named().uri.as_str()),
            (false, "benchmark://own-v0/sum")
        );
    }
}
