//! Which file uses which: every path of the code, followed to the file that defines what it names.
//!
//! Paths are followed as the compiler does, through imports, re-exports and globs; a path that
//! belongs to the project and leads nowhere is a problem, never skipped. What takes types to know
//! is not seen: calls of methods, and of associated functions behind `impl` blocks in a file other
//! than their type's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::lexer::{Token, tokens};
use crate::scopes::{Around, Child, Meaning, Reader, Scope, without_tests};

/// A crate of the project.
#[derive(Debug, Clone)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Its first file.
    pub(crate) root: String,
    /// The crates that it depends on.
    pub(crate) dependencies: Rc<[String]>,
}

/// The code as scopes, in which paths can be followed.
#[derive(Debug, Default)]
pub(crate) struct Code<'a> {
    pub(crate) files: Vec<&'a str>,
    scopes: Vec<Scope<'a>>,
    /// By file: the words of its code.
    words: Vec<BTreeSet<&'a str>>,
    /// By file: the crates that its crate depends on.
    dependencies: Vec<Rc<[String]>>,
    /// The root scopes of the crates that others can use.
    libraries: BTreeMap<String, usize>,
}

/// What a path leads to. Items come with the names that they were defined by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target<'a> {
    Module(usize),
    Type(usize, &'a str),
    Value(usize, &'a str),
    Foreign,
}

/// Imports that are being followed for a name of a scope, since some name themselves:
/// `use identity::identity` beside `mod identity`.
type UnderWay<'s, 'a> = Vec<(usize, &'a str, &'s [&'a str])>;

/// From a file to another one, with what the first uses of the second.
pub(crate) type Uses<'a> = BTreeMap<(usize, usize), BTreeSet<&'a str>>;

/// Heads of paths that are neither modules nor crates: types and lints that are part of Rust.
const BUILT_IN: &[&str] = &[
    "alloc", "bool", "char", "clippy", "core", "f32", "f64", "i8", "i16", "i32", "i64", "i128",
    "isize", "rustdoc", "rustfmt", "std", "str", "u8", "u16", "u32", "u64", "u128", "usize",
];

/// The reading of the crates' files.
struct Loader<'a, 't> {
    code: Code<'a>,
    /// By path.
    texts: &'t BTreeMap<&'a str, &'a str>,
    tests: bool,
    problems: Vec<String>,
}

impl<'a> Loader<'a, '_> {
    /// Reads a file and those of the modules in it; the answer is its scope.
    fn file(
        &mut self,
        path: &'a str,
        text: &'a str,
        dependencies: &Rc<[String]>,
        parent: Option<usize>,
    ) -> usize {
        let all = tokens(text);
        let kept = if self.tests { all } else { without_tests(&all) };
        self.refuse_unknown(path, &kept);
        let code = &mut self.code;
        let scope = code.scopes.len();
        code.scopes.push(Scope::new(code.files.len(), Around::Module(parent)));
        code.files.push(path);
        code.dependencies.push(Rc::clone(dependencies));
        let mut reader = Reader::new(&mut code.scopes);
        reader.read(&kept, scope);
        let Reader { children, words, .. } = reader;
        code.words.push(words);
        for child in children {
            let places = places(path, &child);
            let found = places.iter().find_map(|place| self.texts.get_key_value(place.as_str()));
            let Some((path, text)) = found else {
                let name = child.name;
                self.problems.push(format!("{path}: `mod {name};` is in none of {places:?}"));
                continue;
            };
            let inner = self.file(path, text, dependencies, Some(child.scope));
            self.code.scopes[child.scope].declare(child.name, Meaning::Module(inner));
        }
        scope
    }

    /// Attributes and macros by which code comes from elsewhere than where paths are looked for.
    fn refuse_unknown(&mut self, path: &str, tokens: &[Token<'_>]) {
        for three in tokens.windows(3) {
            let is_attribute =
                |name: &str, next: &str| three[0].is("[") && three[1].is(name) && three[2].is(next);
            let whole = is_attribute("path", "=") || is_attribute("macro_use", "]");
            let include = three[0].is("include") && three[1].is("!");
            if whole || include {
                let what = if whole { three[1] } else { three[0] }.text();
                self.problems.push(format!("{path}: tests/tidy/ does not follow `{what}`"));
            }
        }
    }
}

impl<'a> Code<'a> {
    /// Reads the crates' files, with or without what is compiled for tests alone. `texts` are by
    /// their paths. The error lists the modules that have no file.
    pub(crate) fn read(
        texts: &BTreeMap<&'a str, &'a str>,
        crates: Vec<Crate>,
        tests: bool,
    ) -> Result<Self, Vec<String>> {
        let mut loader = Loader { code: Self::default(), texts, tests, problems: Vec::new() };
        for one in crates {
            let Some((path, text)) = texts.get_key_value(one.root.as_str()) else {
                loader.problems.push(format!("{}: there is no such file", one.root));
                continue;
            };
            let root = loader.file(path, text, &one.dependencies, None);
            if one.root.ends_with("lib.rs") {
                loader.code.libraries.insert(one.name, root);
            }
        }
        if loader.problems.is_empty() { Ok(loader.code) } else { Err(loader.problems) }
    }

    /// Which file uses what of which other file, or the paths that lead nowhere.
    pub(crate) fn uses(&self) -> Result<Uses<'a>, Vec<String>> {
        let mut uses = Uses::new();
        let mut problems = Vec::new();
        for (place, scope) in self.scopes.iter().enumerate() {
            let words = &self.words[scope.file];
            for import in &scope.imports {
                let targets = self.follow(&import.path, place, &mut Vec::new());
                if targets.is_empty() {
                    problems.push(self.nowhere(scope, &import.path));
                }
                // A re-export alone uses nothing: those who import from it do.
                let used = !import.public || import.name.is_some_and(|name| words.contains(name));
                if import.glob {
                    for &target in &targets {
                        for word in words.iter().filter(|word| !scope.names.contains_key(*word)) {
                            let found = self.member(target, word, &mut Vec::new());
                            add(&mut uses, scope.file, &found);
                        }
                    }
                }
                if used {
                    add(&mut uses, scope.file, &targets);
                }
            }
            for path in &scope.mentions {
                match self.mentioned(path, place) {
                    Some(targets) => add(&mut uses, scope.file, &targets),
                    None => problems.push(self.nowhere(scope, path)),
                }
            }
        }
        problems.sort();
        problems.dedup();
        if problems.is_empty() { Ok(uses) } else { Err(problems) }
    }

    /// The modules at a crate's root that a file names by paths from there, as they are written.
    pub(crate) fn named_from_root(&self) -> BTreeSet<(&'a str, &'a str)> {
        let mut named = BTreeSet::new();
        for (place, scope) in self.scopes.iter().enumerate() {
            let imported = scope.imports.iter().map(|import| &import.path);
            for path in imported.chain(&scope.mentions) {
                let Some((base, rest)) = self.climb(path, place) else { continue };
                let is_root = matches!(self.scopes[base].around, Around::Module(None));
                if let Some(first) = rest.first().filter(|_| is_root) {
                    named.insert((self.files[scope.file], *first));
                }
            }
        }
        named
    }

    fn nowhere(&self, scope: &Scope<'_>, path: &[&str]) -> String {
        format!("{}: `{}` leads nowhere", self.files[scope.file], path.join("::"))
    }

    /// What a path in the code leads to, `None` if it should lead somewhere and does not.
    fn mentioned(&self, path: &[&'a str], scope: usize) -> Option<Vec<Target<'a>>> {
        let targets = self.follow(path, scope, &mut Vec::new());
        if !targets.is_empty() {
            return Some(targets);
        }
        let head = path[0];
        let heads = self.lexical(head, scope, true, &mut Vec::new());
        // Type parameters and types that every file knows begin with a capital.
        let known = heads.is_empty() && head.starts_with(char::is_uppercase);
        known.then(Vec::new)
    }

    /// What a path in a scope leads to.
    fn follow<'s>(
        &'s self,
        path: &[&'a str],
        scope: usize,
        under_way: &mut UnderWay<'s, 'a>,
    ) -> Vec<Target<'a>> {
        let (mut targets, rest) = match self.climb(path, scope) {
            Some((base, rest)) => (vec![Target::Module(base)], rest),
            None if path[0] == "super" => return Vec::new(),
            None => (self.lexical(path[0], scope, path.len() > 1, under_way), &path[1..]),
        };
        for name in rest {
            targets = targets.iter().flat_map(|t| self.member(*t, name, under_way)).collect();
        }
        targets
    }

    /// The module that the `crate`, `self` and `super` before a path stand for, and what follows.
    fn climb<'p>(&self, path: &'p [&'a str], scope: usize) -> Option<(usize, &'p [&'a str])> {
        let mut base = self.module_around(scope);
        let mut climbed = 0;
        for step in path {
            match *step {
                "self" => {}
                "super" => base = self.parent(base)?,
                "crate" => {
                    while let Some(parent) = self.parent(base) {
                        base = parent;
                    }
                }
                _ => break,
            }
            climbed += 1;
        }
        (climbed > 0).then(|| (base, &path[climbed..]))
    }

    fn parent(&self, module: usize) -> Option<usize> {
        match self.scopes[module].around {
            Around::Module(parent) => parent.map(|parent| self.module_around(parent)),
            Around::Block(_) => None,
        }
    }

    fn module_around(&self, mut scope: usize) -> usize {
        while let Around::Block(outer) = self.scopes[scope].around {
            scope = outer;
        }
        scope
    }

    /// What a name stands for where it is written. With `stem`, a path goes on behind it.
    fn lexical<'s>(
        &'s self,
        name: &'a str,
        mut scope: usize,
        stem: bool,
        under_way: &mut UnderWay<'s, 'a>,
    ) -> Vec<Target<'a>> {
        loop {
            let mut found = self.in_scope(scope, name, under_way);
            found.retain(|target| !(stem && matches!(target, Target::Value(..))));
            if !found.is_empty() {
                return found;
            }
            match self.scopes[scope].around {
                Around::Block(outer) => scope = outer,
                Around::Module(_) => break,
            }
        }
        let dependencies = &self.dependencies[self.scopes[scope].file];
        let depends = dependencies.iter().any(|dependency| dependency == name);
        match self.libraries.get(name) {
            Some(root) if depends => vec![Target::Module(*root)],
            _ if depends || BUILT_IN.contains(&name) => vec![Target::Foreign],
            _ => Vec::new(),
        }
    }

    /// What a name stands for behind another one.
    fn member<'s>(
        &'s self,
        of: Target<'a>,
        name: &'a str,
        under_way: &mut UnderWay<'s, 'a>,
    ) -> Vec<Target<'a>> {
        match of {
            Target::Module(module) => self.in_scope(module, name, under_way),
            Target::Type(..) | Target::Foreign => vec![of],
            Target::Value(..) => Vec::new(),
        }
    }

    /// What a name stands for in a module or a block itself.
    fn in_scope<'s>(
        &'s self,
        place: usize,
        name: &'a str,
        under_way: &mut UnderWay<'s, 'a>,
    ) -> Vec<Target<'a>> {
        let scope = &self.scopes[place];
        let mut found = Vec::new();
        for meaning in scope.names.get(name).into_iter().flatten() {
            match meaning {
                Meaning::Module(module) => found.push(Target::Module(*module)),
                Meaning::Type => found.push(Target::Type(scope.file, name)),
                Meaning::Value => found.push(Target::Value(scope.file, name)),
                Meaning::Imported(path) => {
                    Self::once((place, name, path), under_way, |under_way| {
                        found.extend(self.follow(path, place, under_way));
                    });
                }
            }
        }
        if found.is_empty() && scope.generated.contains(name) {
            found.push(Target::Type(scope.file, name));
        }
        if found.is_empty() {
            for glob in scope.imports.iter().filter(|import| import.glob) {
                Self::once((place, name, &glob.path), under_way, |under_way| {
                    for target in self.follow(&glob.path, place, under_way) {
                        match target {
                            Target::Module(module) => {
                                found.extend(self.in_scope(module, name, under_way));
                            }
                            // It may be there: other crates are not looked into.
                            Target::Foreign => found.push(target),
                            Target::Type(..) | Target::Value(..) => {}
                        }
                    }
                });
            }
        }
        found
    }

    /// Follows an import, unless that is under way.
    fn once<'s>(
        import: (usize, &'a str, &'s [&'a str]),
        under_way: &mut UnderWay<'s, 'a>,
        follow: impl FnOnce(&mut UnderWay<'s, 'a>),
    ) {
        if !under_way.contains(&import) {
            under_way.push(import);
            follow(under_way);
            under_way.pop();
        }
    }
}

fn add<'a>(uses: &mut Uses<'a>, file: usize, targets: &[Target<'a>]) {
    for target in targets {
        match target {
            Target::Type(to, name) | Target::Value(to, name) if *to != file => {
                uses.entry((file, *to)).or_default().insert(name);
            }
            _ => {}
        }
    }
}

/// Where a module's file may be.
fn places(path: &str, child: &Child<'_>) -> [String; 2] {
    let path = Path::new(path);
    let mut folder = path.parent().map(PathBuf::from).unwrap_or_default();
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if !["lib", "main", "mod"].contains(&stem) {
        folder.push(stem);
    }
    folder.extend(&child.inline);
    let at = |inner: String| folder.join(inner).to_string_lossy().into_owned();
    [at(format!("{}.rs", child.name)), at(format!("{}/mod.rs", child.name))]
}

/// Files of the repository as [`Code::read`] wants them.
pub(crate) fn by_path(files: &[(String, String)]) -> BTreeMap<&str, &str> {
    files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
}

/// The crates of the repository, read from its manifests.
pub(crate) fn crates(texts: &BTreeMap<&str, &str>) -> Vec<Crate> {
    let mut found = Vec::new();
    for (path, manifest) in texts {
        let Some(folder) = path.strip_suffix("Cargo.toml") else { continue };
        if !folder.is_empty() && !folder.starts_with("crates/") {
            continue;
        }
        let (name, dependencies) = named_in(manifest);
        let library = format!("{folder}src/lib.rs");
        let program = format!("{folder}src/main.rs");
        for root in [library, program] {
            if texts.contains_key(root.as_str()) {
                let dependencies = dependencies.iter().chain([&name]).cloned().collect();
                found.push(Crate { name: name.clone(), root, dependencies });
            }
        }
    }
    found
}

/// A package's name and those of its dependencies, as the code writes them.
fn named_in(manifest: &str) -> (String, Vec<String>) {
    let mut section = "";
    let mut package = String::new();
    let mut dependencies = Vec::new();
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        } else if line.starts_with(|c: char| c.is_alphanumeric()) {
            let key = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if section == "package" && key == "name" {
                package = line.split('"').nth(1).unwrap_or_default().replace('-', "_");
            } else if section.ends_with("dependencies") && section != "workspace.dependencies" {
                dependencies.push(key.replace('-', "_"));
            }
        }
    }
    (package, dependencies)
}
