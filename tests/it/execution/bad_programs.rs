//! Programs that loop, crash, fork, connect and fill the disk: each has its outcome, and no process
//! of theirs is left.

use std::fs;
use std::time::Duration;

use steplake::execution::{Executable, ExecutableCode, ExecutionError, ProgramEnd, RunSettings};
use steplake::model::{Execution, Input, Linker};

use super::{built, linked, object_of, oracle_of, script};
use crate::fixtures::programs::until;

/// The processes whose command line begins with a name.
fn processes(name: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.starts_with(name)).collect()
}

/// Waits until processes that were killed are gone.
fn demand_none(name: &str) {
    until(&format!("{name} is gone"), || processes(name).is_empty());
}

fn short() -> RunSettings {
    let run_limit = Duration::from_millis(700);
    RunSettings { run_limit, file_bytes: 1 << 20, output_bytes: 1 << 20, ..RunSettings::default() }
}

#[test]
fn a_program_that_never_ends_is_stopped() {
    for body in ["for (;;) {}", "pause();"] {
        let text = format!(
            "#include <unistd.h>\nint main(int c, char **v) {{\n\
             if (c == 1) execl(\"a.out\", \"steplake-endless\", \"x\", (char *)0);\n\
             {body} return 0; }}\n"
        );
        let program = linked(&text, &short());
        assert_eq!(program.run(&[]).unwrap().behaviour.end, ProgramEnd::TimedOut);
        demand_none("steplake-endless");
        let error = oracle_of(&text, &short()).unwrap_err();
        assert!(matches!(error, ExecutionError::TimedOut { .. }), "{error}");
        assert_eq!(error.to_string(), "a run was stopped after 0.7 s");
    }
}

/// Also those go that leave their parent, their session and their group, as daemons do.
#[test]
fn children_are_ended_with_their_program() {
    let program = linked(
        "#include <unistd.h>\nint main(int c, char **v) {\n\
         if (c > 1) for (;;) pause();\n\
         for (int i = 0; i < 8; i++) if (fork() == 0) {\n\
           if (i & 1) setsid(); if (i & 2) setpgid(0, 0);\n\
           if (i & 4) { close(1); close(2); if (fork()) _exit(0); }\n\
           execl(\"a.out\", \"steplake-child\", \"x\", (char *)0); }\n\
         sleep(v[0][0] == '!'); return 5; }\n",
        &short(),
    );
    assert_eq!(program.run(&[]).unwrap().behaviour.end, ProgramEnd::Exit(5));
    demand_none("steplake-child");
}

#[test]
fn a_program_has_no_network() {
    let program = linked(
        "#include <errno.h>\n#include <stdio.h>\n#include <sys/socket.h>\nint main(void) {\n\
         int s = socket(AF_INET, SOCK_STREAM, 0);\n\
         printf(\"%d %d\\n\", s, errno == EACCES); return 0; }\n",
        &short(),
    );
    assert_eq!(program.run(&[]).unwrap().behaviour.stdout, b"-1 1\n");
}

#[test]
fn a_program_sees_and_changes_nothing_of_the_machine() {
    let secret = tempfile::tempdir().unwrap();
    let path = secret.path().join("secret");
    fs::write(&path, "secret").unwrap();
    let line = format!("cat {0}; echo x > {0}; cat /etc/passwd; echo done", path.display());
    let execution = script(": > out", &line);
    let code = ExecutableCode::Program(b"program");
    let walled = Executable::build(&execution, code, &RunSettings::default()).unwrap();
    let run = walled.run(&[]).unwrap();
    assert_eq!(run.behaviour.stdout, b"done\n", "{}", String::from_utf8_lossy(&run.stderr));
    // A command of this machine may read what it names.
    let run = built(&execution).unwrap().run(&[]).unwrap();
    assert!(run.behaviour.stdout.starts_with(b"secret"));
    assert_eq!(fs::read(&path).unwrap(), b"secret");
}

#[test]
fn a_file_and_an_output_have_a_largest_size() {
    let writing = "#include <stdio.h>\nint main(void) { FILE *f = FILE_OPENED;\n\
                   static char b[65536]; for (;;) { fwrite(b, 1, sizeof b, f); } }\n";
    for (opened, end) in [
        ("fopen(\"huge\", \"w\")", ProgramEnd::FileTooLarge),
        ("stdout", ProgramEnd::TooMuchOutput),
    ] {
        let text = writing.replace("FILE_OPENED", opened);
        let program = linked(&text, &short());
        assert_eq!(program.run(&[]).unwrap().behaviour.end, end);
        let error = oracle_of(&text, &short()).unwrap_err();
        assert_eq!(error.to_string(), format!("a run of the program failed: {end}"));
    }
}

/// What a program with these settings, built of nothing, does.
fn scripted(execution: &Execution, settings: &RunSettings) -> Result<Executable, ExecutionError> {
    Executable::build(execution, ExecutableCode::Program(b"program"), settings)
}

#[test]
fn a_limit_that_a_program_behind_a_shell_meets_is_known() {
    let writing = script(": > out", "head -c 9000000 /dev/zero > big; exit $?");
    let run = scripted(&writing, &short()).unwrap().run(&[]).unwrap();
    assert_eq!(run.behaviour.end, ProgramEnd::FileTooLarge);
}

/// The names that a program leaves in its folders lead this process nowhere.
#[test]
fn links_that_a_program_leaves_are_not_followed() {
    let theirs = tempfile::tempdir().unwrap();
    let file = theirs.path().join("file");
    fs::write(&file, "theirs").unwrap();
    let folder = theirs.path().display();
    let line = format!(
        "cat; ln -sf {folder}/file \"$TMPDIR/input\"; ln -sfn {folder} d; \
         rm -f data; ln -s {folder}/file data"
    );
    let cache = tempfile::tempdir().unwrap();
    let blake3 = blake3::hash(b"data").to_hex().to_string();
    fs::write(cache.path().join(&blake3), "data").unwrap();
    let mut execution = script(": > out", &line);
    execution.run.as_mut().unwrap().outfiles = vec!["d/file".into()];
    execution.inputs = vec![Input { name: "data".into(), blake3 }];
    let settings = RunSettings { inputs: Some(cache.path().into()), ..short() };
    let program = scripted(&execution, &settings).unwrap();
    for input in [&b"one"[..], b"two", b"three"] {
        let behaviour = program.run(input).unwrap().behaviour;
        assert_eq!((behaviour.end, &*behaviour.stdout), (ProgramEnd::Exit(0), input));
        assert_eq!(behaviour.files["d/file"], None);
    }
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
    assert_eq!(fs::read(cache.path().join(&execution.inputs[0].blake3)).unwrap(), b"data");
}

#[test]
fn files_outside_of_the_folder_are_refused() {
    for name in ["/etc/passwd", "../gate", "d/../../gate"] {
        let mut execution = script(": > out", "true");
        execution.run.as_mut().unwrap().outfiles = vec![name.into()];
        let error = scripted(&execution, &short()).unwrap_err();
        assert!(matches!(error, ExecutionError::Refused(_)), "{name}: {error}");
    }
}

#[test]
fn what_cannot_be_set_up_has_not_run() {
    let program =
        linked("int main(void) { return 0; }\n", &RunSettings { cpu: Some(999), ..short() });
    let error = program.run(&[]).unwrap_err();
    assert!(matches!(error, ExecutionError::NotSetUp { .. }), "{error}");
    assert!(error.to_string().contains("taskset"), "{error}");
    // A wrong line is the program's own.
    let wrong = scripted(&script(": > out", "if then ("), &short()).unwrap();
    assert_eq!(wrong.run(&[]).unwrap().behaviour.end, ProgramEnd::Exit(2));
}

#[test]
fn memory_is_bounded() {
    let program = linked(
        "#include <stdlib.h>\nint main(void) { return malloc(3u << 30) ? 1 : 0; }\n",
        &RunSettings { memory_bytes: Some(1 << 30), ..short() },
    );
    assert_eq!(program.run(&[]).unwrap().behaviour.end, ProgramEnd::Exit(0));
}

#[test]
fn a_crash_is_an_outcome_and_nothing_to_repeat() {
    let text = "#include <stdio.h>\nint main(void) { perror(\"a\"); __builtin_trap(); }\n";
    let program = linked(text, &short());
    let run = program.run(&[]).unwrap();
    assert!(matches!(run.behaviour.end, ProgramEnd::Signal(4 | 5)), "{:?}", run.behaviour.end);
    let error = oracle_of(text, &short()).unwrap_err().to_string();
    assert!(error.starts_with("a run of the program failed: it was ended by"), "{error}");
    assert!(error.ends_with(", and said: a: Success"), "{error}");
}

#[test]
fn what_cannot_be_built_says_why() {
    let build = |text: &str| {
        let execution = Execution::linked(Linker::C, &[]);
        Executable::build(&execution, ExecutableCode::Object(text.as_bytes()), &short())
            .unwrap_err()
    };
    assert!(matches!(build("no object"), ExecutionError::BuildFailed { .. }));
    let object = object_of("int main(void) { extern int missing(void); return missing(); }\n");
    let execution = Execution::linked(Linker::C, &[]);
    let error =
        Executable::build(&execution, ExecutableCode::Object(&object), &short()).unwrap_err();
    assert!(error.to_string().contains("undefined reference to `missing'"), "{error}");
    let error = Executable::build(&execution, ExecutableCode::Program(b""), &short()).unwrap_err();
    assert!(matches!(error, ExecutionError::WrongCode));
    for (line, text) in [
        ("echo 'a.c: error: no' >&2; exit 3", "the program cannot be built: a.c: error: no"),
        ("true", "the program cannot be built: it made no file `out`"),
        ("kill -KILL $$", "the program cannot be built: it was ended by signal 9"),
    ] {
        assert_eq!(built(&script(line, "true")).unwrap_err().to_string(), text);
    }
    let mut slow = script("while :; do :; done", "true");
    let steplake::model::Build::Command(command) = &mut slow.build else { panic!() };
    command.timeout_s = 1;
    assert_eq!(built(&slow).unwrap_err().to_string(), "the build was stopped after 1 s");
}

#[test]
fn what_cannot_be_run_says_why() {
    let mut execution = script(": > out", "true");
    execution.run.as_mut().unwrap().infiles = vec!["missing".into()];
    let error = built(&execution).unwrap().run(&[]).unwrap_err();
    assert_eq!(error.to_string(), "a command needs the file `missing`, which is not there");
    execution.before_runs = vec![super::shell("echo early >&2; false")];
    let error = built(&execution).unwrap().run(&[]).unwrap_err();
    assert_eq!(error.to_string(), "the command before the runs failed: early");
    execution.run = None;
    let error = built(&execution).unwrap().run(&[]).unwrap_err();
    assert!(matches!(error, ExecutionError::NotRunnable));
}

#[test]
fn nothing_is_left_on_the_disk() {
    let program = built(&script(": > out", "true")).unwrap();
    let folder = program.folder().to_owned();
    assert!(folder.is_dir());
    drop(program);
    assert!(!folder.parent().unwrap().exists());
}

#[test]
fn a_program_that_could_not_open_files_is_told_with_their_names() {
    let text = "#include <fcntl.h>\n#include <stdio.h>\nint main(void) {\n\
         FILE *own = fopen(\"own\", \"w\"); fclose(own); fclose(fopen(\"own\", \"r\"));\n\
         fopen(\"one\", \"r\"); open(\"deep/two\", O_RDONLY); fopen(\"one\", \"r\");\n\
         open(\"/etc/passwd\", O_RDONLY); fopen(\"four\", \"r\"); return 5; }\n";
    let told = "it could not open `one` and `deep/two` and `/etc/passwd` and 1 more; files outside \
                of its own folder are not there, unless they are inputs";
    assert_eq!(linked(text, &short()).unopened().as_deref(), Some(told));
    let remark = format!("untouched, it ended with exit code 5; {told}");
    assert_eq!(oracle_of(text, &short()).unwrap().remark(), Some(remark.as_str()));
    let crashing = oracle_of(&text.replace("return 5", "__builtin_trap()"), &short());
    let error = crashing.unwrap_err().to_string();
    assert!(error.ends_with(&format!("; {told}")), "{error}");
    // One that opens what it wants has nothing to say.
    let text = "int main(void) { return 5; }\n";
    assert_eq!(linked(text, &short()).unopened(), None);
    assert_eq!(oracle_of(text, &short()).unwrap().remark(), None);
}
