//! One build of GCC: where its parts lie, how they are called, and what options it has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::help;
use super::image::{Image, Placed};
use super::options::GccOptions;
use super::seen::SeenFile;
use super::tool::{CompilerTool, plain_limits};
use super::{IMAGE_PREFIX, NAME};
use steplake_env::SessionError;
use steplake_programs::datasets::Preprocessor;

/// The compiler where none is named.
const DEFAULT: &str = "gcc";

/// The oldest GCC whose help can be read.
const MAJOR_MIN: u32 = 5;

/// The file names in the command lines of cc1 and of the assembler.
const SOURCE: &str = "program.c";
pub(super) const PREPROCESSED: &str = "program.i";
pub(super) const ASSEMBLY: &str = "program.s";
pub(super) const OBJECT: &str = "program.o";

/// How long the compiler may take to describe itself.
const DESCRIBE_LIMIT: Duration = Duration::from_mins(1);

/// Precedes the id of the compiler's container image in the name of a build.
const IN_IMAGE: &str = ", image ";

/// The digits of a digest in the compiler's name.
const DIGEST_DIGITS: usize = 16;

/// One build of GCC.
#[derive(Debug)]
pub(super) struct Compiler {
    /// The driver.
    pub(super) driver: PathBuf,
    /// The driver as a tool, which starts the others as it does for whoever calls it.
    pub(super) whole: CompilerTool,
    /// The exact build, with digests of what decides the output: the two programs, and the
    /// arguments that the driver gives them, also to preprocess; the container image, if they are
    /// in one.
    pub(super) build: String,
    /// Its major version.
    pub(super) major: u32,
    /// What it compiles for.
    pub(super) target: String,
    /// The compiler proper, from preprocessed C to assembly. Options follow its arguments.
    pub(super) cc1: CompilerTool,
    /// The assembler.
    pub(super) assembler: CompilerTool,
    pub(super) options: GccOptions,
    /// The files of the two programs.
    files: [SeenFile; 2],
}

/// The compilers that this process has described, by their files.
static KNOWN: Mutex<BTreeMap<PathBuf, Arc<Compiler>>> = Mutex::new(BTreeMap::new());

impl Compiler {
    /// Describes the compiler of this name or path, `gcc` if it is empty; with `docker:` before it,
    /// the name of a container image.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unavailable`] if it is not here, or is no GCC.
    pub(super) fn open(name: &str) -> Result<Arc<Self>, SessionError> {
        let (driver, image) = match name.strip_prefix(IMAGE_PREFIX) {
            Some(name) => {
                let image = Image::open(name).map_err(unavailable)?;
                (image.driver.clone(), Some(image))
            }
            None => (installed(name)?, None),
        };
        Self::of(driver, image.as_ref())
    }

    /// Describes the compiler with this driver, which is in an image or installed.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unavailable`] if it is no GCC.
    pub(super) fn of(driver: PathBuf, image: Option<&Image>) -> Result<Arc<Self>, SessionError> {
        let mut known = KNOWN.lock();
        if let Some(compiler) = known.get(&driver)
            && compiler.demand_unchanged().is_ok()
        {
            return Ok(Arc::clone(compiler));
        }
        let asked = Asked { driver: &driver, image };
        let compiler = Arc::new(Self::describe(&asked).map_err(unavailable)?);
        known.insert(driver, Arc::clone(&compiler));
        Ok(compiler)
    }

    fn describe(asked: &Asked<'_>) -> Result<Self, String> {
        let name = asked.driver.display();
        let version = asked.answer(&["--version"])?;
        let (number, major) = version_of(&version)
            .ok_or_else(|| format!("{name} does not describe itself as a GCC does"))?;
        if major < MAJOR_MIN {
            return Err(format!("{name} is GCC {number}: {MAJOR_MIN} is the oldest"));
        }
        let compile =
            ["-###", "-w", "-S", "-x", "cpp-output", PREPROCESSED, "-o", ASSEMBLY].as_slice();
        let assemble = ["-###", "-w", "-c", "-x", "assembler", ASSEMBLY, "-o", OBJECT].as_slice();
        let preprocess = ["-###"].into_iter().chain(Preprocessor::FLAGS.split(' '));
        let preprocess = preprocess.chain([SOURCE, "-o", PREPROCESSED]).collect::<Vec<_>>();
        let (cc1, cc1_file) = asked.tool(compile, "cc1")?;
        let (assembler, as_file) = asked.tool(assemble, "as")?;
        // Programs of C are made with it, and kept under the name of the build.
        let (preprocessor, _) = asked.tool(&preprocess, "cc1")?;
        let target = asked.answer(&["-dumpmachine"])?.trim().to_owned();
        let optimize = asked.answer(&["--help=optimize", "-Q"])?;
        let options = help::options(&optimize, &asked.answer(&["--help=param", "-Q"])?);
        if options.list().is_empty() {
            return Err(format!("the help of {name} lists no options"));
        }
        // Before the digests, so that no file takes the place of one whose digest this is.
        let files = [SeenFile::at(cc1_file)?, SeenFile::at(as_file)?];
        let [cc1_digest, as_digest] = files.each_ref().map(|file| digest(file.path()));
        let arguments = [&cc1, &assembler, &preprocessor].map(|tool| tool.own_arguments.as_slice());
        let arguments = digest_of_arguments(&arguments);
        let [cc1_digest, as_digest] = [cc1_digest?, as_digest?];
        let image = asked.image.map(|image| format!("{IN_IMAGE}{}", image.id)).unwrap_or_default();
        let build =
            format!("GCC {number}, cc1 {cc1_digest}, as {as_digest}, arguments {arguments}{image}");
        let driver = asked.driver.to_owned();
        let whole = CompilerTool::new(driver.clone(), asked.read());
        Ok(Self { driver, whole, build, major, target, cc1, assembler, options, files })
    }

    /// Demands that the programs are those that were described: what others make is no output of
    /// this build.
    ///
    /// # Errors
    ///
    /// [`SessionError::Machine`] if one of them was replaced, as by an update of the system.
    pub(super) fn demand_unchanged(&self) -> Result<(), SessionError> {
        let Some(file) = self.files.iter().find(|file| !file.is_unchanged()) else {
            return Ok(());
        };
        Err(SessionError::Machine(format!(
            "the compiler was replaced while it was in use ({}): bring the old one back, or begin \
             again with the new one",
            file.path().display()
        )))
    }
}

/// Returns the name of the container image that a build's compiler is in, if it is in one: its id.
pub(super) fn image_of(build: &str) -> Option<String> {
    let (_, id) = build.rsplit_once(IN_IMAGE)?;
    Some(format!("{IMAGE_PREFIX}{id}"))
}

/// Finds an installed compiler by its name or path.
fn installed(name: &str) -> Result<PathBuf, SessionError> {
    let name = if name.is_empty() { DEFAULT } else { name };
    let found = if name.contains('/') {
        Some(PathBuf::from(name)).filter(|path| path.is_file())
    } else {
        steplake_sandbox::search(name)
    };
    let found = found.ok_or_else(|| {
        let is_path = name.contains('/');
        let hint = if is_path { String::new() } else { format!(": apt-get install {name}") };
        unavailable(format!("there is no `{name}` here{hint}"))
    })?;
    // The driver finds its parts by its own place, so links are resolved.
    std::fs::canonicalize(&found)
        .map_err(|error| unavailable(format!("{}: {error}", found.display())))
}

/// Returns the error for a compiler that cannot be used.
pub(super) fn unavailable(detail: String) -> SessionError {
    SessionError::Unavailable { environment: NAME.to_owned(), detail }
}

/// A driver that is asked about itself.
struct Asked<'a> {
    driver: &'a Path,
    /// Where it is, if it is not installed here.
    image: Option<&'a Image>,
}

impl Asked<'_> {
    /// Returns what the driver says about itself.
    fn answer(&self, arguments: &[&str]) -> Result<String, String> {
        let (stdout, stderr) = self.outputs(arguments)?;
        Ok(if stdout.is_empty() { stderr } else { stdout })
    }

    /// Returns the folders that the compiler reads.
    fn read(&self) -> Vec<PathBuf> {
        match self.image {
            Some(image) => vec![image.folder().to_owned()],
            None => steplake_sandbox::installation(self.driver),
        }
    }

    /// Returns the output and the error output of the driver.
    fn outputs(&self, arguments: &[&str]) -> Result<(String, String), String> {
        let driver = self.driver;
        let tool = CompilerTool::new(driver.to_owned(), self.read());
        let arguments = arguments.iter().map(OsString::from).collect::<Vec<_>>();
        let failed = |error: &dyn Display| format!("{} cannot be run: {error}", driver.display());
        // The driver makes temporary files, and an old one looks for its input.
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        for input in [SOURCE, PREPROCESSED, ASSEMBLY] {
            std::fs::write(folder.path().join(input), "").map_err(|error| failed(&error))?;
        }
        let ended = tool.run(&arguments, folder.path(), &plain_limits(DESCRIBE_LIMIT));
        let ended = ended.map_err(|error| failed(&error))?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            let line = said.lines().next().unwrap_or_default();
            return Err(format!("{} does not describe itself: {line}", driver.display()));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&ended.stdout), text(&ended.stderr)))
    }

    /// Returns the program that the driver would start, with its arguments, and its file.
    fn tool(&self, arguments: &[&str], name: &str) -> Result<(CompilerTool, PathBuf), String> {
        let driver = self.driver.display();
        let missing = || format!("{driver} does not say how it starts `{name}`");
        let (_, text) = self.outputs(arguments)?;
        let commands = text.lines().filter(|line| line.starts_with(' ')).map(words);
        let is_wanted = |words: &Vec<String>| {
            words.first().is_some_and(|first| Path::new(first).file_name() == Some(name.as_ref()))
        };
        let mut words = commands.into_iter().find(is_wanted).ok_or_else(missing)?.into_iter();
        let program = words.next().ok_or_else(missing)?;
        let own_arguments = words.map(OsString::from).collect();
        let read = self.read();
        if let Some(image) = self.image {
            let Placed { file, loader, arguments } = image.program(name).ok_or_else(missing)?;
            return Ok((CompilerTool { program: loader, arguments, own_arguments, read }, file));
        }
        let program = if program.contains('/') {
            std::fs::canonicalize(&program).ok()
        } else {
            steplake_sandbox::search(&program)
        };
        let program = program
            .ok_or_else(|| format!("`{name}` of {driver} is missing: apt-get install gcc"))?;
        let tool = CompilerTool { own_arguments, ..CompilerTool::new(program.clone(), read) };
        Ok((tool, program))
    }
}

/// Reads the first line of `--version`: the version with the distribution's name for the build, and
/// the major version. The line begins with the name under which the driver was called.
fn version_of(text: &str) -> Option<(String, u32)> {
    let (_, line) = text.lines().next()?.split_once(" (")?;
    let (build, number) = line.split_once(") ")?;
    let major = number.split('.').next()?.parse().ok()?;
    text.contains("Free Software Foundation").then(|| (format!("{number} ({build})"), major))
}

/// Splits a command as the driver prints it: with blanks between words, some of them in double
/// quotes, and a backslash before a character that means something to a shell.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            ' ' if !is_quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// Returns the first digits of the digest of a file.
fn digest(path: &Path) -> Result<String, String> {
    let mut hasher = blake3::Hasher::new();
    let hashed = std::fs::File::open(path).and_then(|file| hasher.update_reader(file).map(drop));
    hashed.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(hasher.finalize().to_hex()[..DIGEST_DIGITS].to_owned())
}

/// Returns the first digits of a digest of the arguments that the driver gives the programs: its
/// configuration decides some, and so does a script that calls it. Of a path only the last name
/// counts, since a compiler may lie in another folder on another machine.
fn digest_of_arguments(arguments: &[&[OsString]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for &arguments in arguments {
        for argument in arguments {
            let argument = argument.to_string_lossy();
            let path = argument.trim_end_matches('/');
            hasher.update(path.rsplit('/').next().unwrap_or_default().as_bytes()).update(b"\0");
        }
        hasher.update(b"\n");
    }
    hasher.finalize().to_hex()[..DIGEST_DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_build() {
        let rest = "\nCopyright (C) 2021 Free Software Foundation, Inc.\n";
        let read = |line: &str| version_of(&format!("{line}{rest}"));
        let debian = read("gcc-11 (Debian 11.3.0-12) 11.3.0").unwrap();
        assert_eq!(debian, ("11.3.0 (Debian 11.3.0-12)".to_owned(), 11));
        assert_eq!(read("x-gcc (GCC) 7.3.0").unwrap(), ("7.3.0 (GCC)".to_owned(), 7));
        let red_hat = read("gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-4)").unwrap();
        assert_eq!(red_hat, ("8.5.0 20210514 (Red Hat 8.5.0-4) (GCC)".to_owned(), 8));
        assert_eq!(read("Debian clang version 14.0.6"), None);
        assert_eq!(version_of("gcc (GCC) 7.3.0\n"), None);
    }

    #[test]
    fn arguments_count_and_the_folder_of_the_compiler_does_not() {
        let words = |arguments: &[&str]| arguments.iter().map(OsString::from).collect::<Vec<_>>();
        let digest = |one: &[&str], two: &[&str]| digest_of_arguments(&[&words(one), &words(two)]);
        let here = digest(&["-iprefix", "/opt/gcc/lib/7.3.0/", "-m64"], &["--64"]);
        assert_eq!(digest(&["-iprefix", "/usr/lib/7.3.0/", "-m64"], &["--64"]), here);
        assert_ne!(digest(&["-iprefix", "/opt/gcc/lib/7.3.0/", "-m32"], &["--64"]), here);
        assert_ne!(digest(&["-iprefix", "/opt/gcc/lib/7.3.0/", "-m64"], &["--32"]), here);
        assert_ne!(digest(&["-iprefix", "/opt/gcc/lib/7.3.0/"], &["-m64", "--64"]), here);
    }

    #[test]
    fn the_words_of_a_command_are_as_the_driver_prints_them() {
        let line = r#" /usr/lib/gcc/cc1 -quiet "-march=x86-64" "a b" c\ d "" -o x"#;
        let wanted = ["/usr/lib/gcc/cc1", "-quiet", "-march=x86-64", "a b", "c d", "", "-o", "x"];
        assert_eq!(words(line), wanted);
    }
}
