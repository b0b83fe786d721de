//! What a Rust file declares, imports and names, read from its tokens: enough to follow paths.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer::Token;

/// A module or a block: names, and what is in scope around it.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) file: usize,
    pub(crate) around: Around,
    pub(crate) names: BTreeMap<&'a str, Vec<Meaning<'a>>>,
    pub(crate) imports: Vec<Import<'a>>,
    /// Paths of two names or more that the code uses without importing them.
    pub(crate) mentions: Vec<Vec<&'a str>>,
    /// The words in macro calls that stand where items stand: some may be items' names.
    pub(crate) generated: BTreeSet<&'a str>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Around {
    /// A module sees nothing of its parent, which `super` names.
    Module(Option<usize>),
    /// A block sees what the scope around it sees.
    Block(usize),
}

/// What a name stands for. It may stand for several things: a module and a function, say.
#[derive(Debug, Clone)]
pub(crate) enum Meaning<'a> {
    Module(usize),
    /// A struct, enum, union, trait or alias.
    Type,
    /// A function, constant, static or macro: no path goes on behind it.
    Value,
    Imported(Vec<&'a str>),
}

#[derive(Debug, Clone)]
pub(crate) struct Import<'a> {
    pub(crate) path: Vec<&'a str>,
    /// The name by which it is known here; none for globs and for `as _`.
    pub(crate) name: Option<&'a str>,
    pub(crate) glob: bool,
    /// Whether others can import it from here.
    pub(crate) public: bool,
}

/// A `mod name;`, whose file is still to be found and read.
#[derive(Debug)]
pub(crate) struct Child<'a> {
    pub(crate) scope: usize,
    pub(crate) name: &'a str,
    /// The inline modules around the line, from the outermost.
    pub(crate) inline: Vec<&'a str>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(file: usize, around: Around) -> Self {
        Self {
            file,
            around,
            names: BTreeMap::new(),
            imports: Vec::new(),
            mentions: Vec::new(),
            generated: BTreeSet::new(),
        }
    }

    pub(crate) fn declare(&mut self, name: &'a str, meaning: Meaning<'a>) {
        self.names.entry(name).or_default().push(meaning);
    }
}

/// Reads a file's tokens into scopes.
#[derive(Debug)]
pub(crate) struct Reader<'a, 's> {
    scopes: &'s mut Vec<Scope<'a>>,
    pub(crate) children: Vec<Child<'a>>,
    /// Every word of the file's code outside of imports that may be an item's name.
    pub(crate) words: BTreeSet<&'a str>,
    /// The inline modules around what is being read.
    inline: Vec<&'a str>,
}

impl<'a, 's> Reader<'a, 's> {
    pub(crate) fn new(scopes: &'s mut Vec<Scope<'a>>) -> Self {
        Self { scopes, children: Vec::new(), words: BTreeSet::new(), inline: Vec::new() }
    }

    /// Reads what a module or a block holds.
    pub(crate) fn read(&mut self, tokens: &[Token<'a>], scope: usize) {
        let mut associated = false; // the next brace opens an `impl` or a `trait`
        let mut at = 0;
        while at < tokens.len() {
            let Token::Word(word) = tokens[at] else {
                if tokens[at].is("{") {
                    let end = close(tokens, at);
                    let foreign = at > 0 && tokens[at - 1].is("extern");
                    let block =
                        if foreign { scope } else { self.open(scope, Around::Block(scope)) };
                    self.read(&tokens[at + 1..end], block);
                    if associated {
                        self.scopes[block].names.clear(); // a path reaches them by the type only
                    }
                    associated = false;
                    at = end;
                }
                at += 1;
                continue;
            };
            let raw = at > 0 && tokens[at - 1].is("#");
            let next = word_at(tokens, at + 1);
            match word {
                "use" if !raw && !is(tokens, at + 1, "<") => {
                    let public = at > 0 && (tokens[at - 1].is("pub") || tokens[at - 1].is(")"));
                    at = self.import(tokens, at + 1, scope, public);
                    continue;
                }
                "mod" if !raw && next.is_some() => {
                    at = self.module(tokens, at + 1, scope);
                    continue;
                }
                "impl" if starts_item(tokens, at) => associated = true,
                _ if !raw => {
                    associated |= word == "trait" && next.is_some();
                    self.item(tokens, at, scope);
                }
                _ => {}
            }
            self.path(tokens, at, scope);
            at += 1;
        }
    }

    /// A scope of the same file inside another one.
    fn open(&mut self, outer: usize, around: Around) -> usize {
        let file = self.scopes[outer].file;
        self.scopes.push(Scope::new(file, around));
        self.scopes.len() - 1
    }

    /// A module whose name is at `at`; the answer is where it ends.
    fn module(&mut self, tokens: &[Token<'a>], at: usize, scope: usize) -> usize {
        let name = word_at(tokens, at).unwrap_or_default();
        if is(tokens, at + 1, "{") {
            let end = close(tokens, at + 1);
            let inner = self.open(scope, Around::Module(Some(scope)));
            self.scopes[scope].declare(name, Meaning::Module(inner));
            self.inline.push(name);
            if tokens[at + 2..end].iter().any(|token| token.is("include_proto")) {
                // What it holds is made from protocol buffers: any path goes on behind its name.
                self.scopes[scope].declare(name, Meaning::Type);
            }
            self.read(&tokens[at + 2..end], inner);
            self.inline.pop();
            end + 1
        } else {
            self.children.push(Child { scope, name, inline: self.inline.clone() });
            at + 1
        }
    }

    /// Notes the name of the item whose keyword is at `at`, if one is there.
    fn item(&mut self, tokens: &[Token<'a>], at: usize, scope: usize) {
        let is_macro = is(tokens, at + 1, "!");
        let mut name = word_at(tokens, at + if is_macro { 2 } else { 1 });
        let pointer = at > 0 && tokens[at - 1].is("*");
        let meaning = match word_at(tokens, at).unwrap_or_default() {
            "struct" | "enum" | "union" | "trait" | "type" => Meaning::Type,
            "fn" => Meaning::Value,
            "macro_rules" if is_macro => Meaning::Value,
            "const" | "static" if !pointer => {
                if name == Some("mut") {
                    name = word_at(tokens, at + 2);
                }
                Meaning::Value
            }
            _ if is_macro && starts_item(tokens, at) => {
                let end = close(tokens, at + 2);
                let words = (at + 2..end).filter_map(|at| word_at(tokens, at));
                self.scopes[scope].generated.extend(words);
                return;
            }
            _ => return,
        };
        if let Some(name) = name.filter(|name| !["fn", "unsafe", "extern", "async"].contains(name))
        {
            self.scopes[scope].declare(name, meaning);
        }
    }

    /// Notes the path that begins at `at`, if one does.
    fn path(&mut self, tokens: &[Token<'a>], at: usize, scope: usize) {
        let before = |count: usize, text: &str| at >= count && tokens[at - count].is(text);
        let member = before(1, ".") && !before(2, ".") || before(1, ":") && before(2, ":");
        let variable = before(1, "$") && !tokens[at].is("crate");
        let Some(first) = word_at(tokens, at).filter(|_| !member && !variable) else { return };
        self.words.insert(first);
        let mut path = vec![first];
        let mut end = at + 1;
        while is(tokens, end, ":") && is(tokens, end + 1, ":") {
            let Some(name) = word_at(tokens, end + 2) else { break };
            path.push(name);
            end += 3;
        }
        if path.len() > 1 {
            self.scopes[scope].mentions.push(path);
        }
    }

    /// The imports of the `use` before `at`; the answer is where it ends.
    fn import(&mut self, tokens: &[Token<'a>], at: usize, scope: usize, public: bool) -> usize {
        let end = (at..tokens.len()).find(|&at| tokens[at].is(";")).unwrap_or(tokens.len());
        self.branch(&tokens[at..end], &[], scope, public);
        end + 1
    }

    /// One branch of a `use`, behind the names of `stem`.
    fn branch(&mut self, tokens: &[Token<'a>], stem: &[&'a str], scope: usize, public: bool) {
        let mut path = stem.to_vec();
        let mut name = None;
        let mut glob = false;
        let mut at = 0;
        while at < tokens.len() {
            match tokens[at] {
                Token::Mark('{') => {
                    for branch in branches(&tokens[at + 1..close(tokens, at)]) {
                        self.branch(branch, &path, scope, public);
                    }
                    return;
                }
                Token::Mark('*') => glob = true,
                Token::Word("as") => {
                    at += 1;
                    name = word_at(tokens, at);
                }
                Token::Word("self") if !path.is_empty() => {}
                Token::Word(word) => path.push(word),
                Token::Mark(_) => {}
            }
            at += 1;
        }
        if path.is_empty() {
            return; // the end of a group, behind its last comma
        }
        let name = name.or(path.last().copied()).filter(|name| *name != "_" && !glob);
        if let Some(name) = name {
            self.scopes[scope].declare(name, Meaning::Imported(path.clone()));
        }
        self.scopes[scope].imports.push(Import { path, name, glob, public });
    }
}

/// Code without what is compiled for its tests alone.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if MARK.iter().enumerate().all(|(place, mark)| is(tokens, at + place, mark)) {
            at = item_end(tokens, at + MARK.len());
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Where the item, statement, field or arm ends that begins at `at`.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    while is(tokens, at, "#") && is(tokens, at + 1, "[") {
        at = close(tokens, at + 1) + 1;
    }
    if is(tokens, at, "pub") {
        at = if is(tokens, at + 1, "(") { close(tokens, at + 1) + 1 } else { at + 1 };
    }
    let first = word_at(tokens, at).unwrap_or_default();
    let second = word_at(tokens, at + 1).unwrap_or_default();
    let constant = first == "const" && !["fn", "unsafe", "extern", "async"].contains(&second);
    let ends_in_semicolon = constant || ["use", "static", "type", "let"].contains(&first);
    let ends_in_brace = [
        "fn",
        "mod",
        "struct",
        "enum",
        "union",
        "impl",
        "trait",
        "unsafe",
        "async",
        "extern",
        "const",
        "macro_rules",
    ]
    .contains(&first);
    while at < tokens.len() {
        match tokens[at] {
            Token::Mark('{') if ends_in_brace && !ends_in_semicolon => {
                return close(tokens, at) + 1;
            }
            Token::Mark('{' | '(' | '[') => at = close(tokens, at),
            Token::Mark(';') => return at + 1,
            Token::Mark(',') if !ends_in_semicolon && !ends_in_brace => return at + 1,
            Token::Mark('}' | ')' | ']') => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Where the bracket of any kind at `at` is closed, or the end.
fn close(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Mark('{' | '(' | '[') => depth += 1,
            Token::Mark('}' | ')' | ']') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place;
        }
    }
    tokens.len()
}

/// The parts between the commas of a group.
fn branches<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < tokens.len() {
        match tokens[at] {
            Token::Mark('{') => at = close(tokens, at),
            Token::Mark(',') => {
                found.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found.push(&tokens[start.min(tokens.len())..]);
    found
}

/// Whether an item can start at `at`.
fn starts_item(tokens: &[Token<'_>], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    matches!(tokens[before], Token::Mark(';' | '}' | ']') | Token::Word("unsafe" | "default"))
}

fn is(tokens: &[Token<'_>], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.is(text))
}

fn word_at<'a>(tokens: &[Token<'a>], at: usize) -> Option<&'a str> {
    match tokens.get(at) {
        Some(Token::Word(word)) => Some(word),
        _ => None,
    }
}
