//! `benchmark://debian-v0`, from a repository that the test makes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steplake::datasets::{DatasetError, DatasetFolders, Datasets};
use steplake::model::BenchmarkUri;

use super::{Fixture, command, datasets_in, output, text_of, uri};

use crate::fixtures::programs::until;

const CONTROL: &str = "Source: tiny\nSection: misc\nPriority: optional\nMaintainer: A B <a@b.example>\n\
                       Standards-Version: 4.6.1\n\nPackage: libtiny-dev\nArchitecture: any\n\
                       Description: a test\n a test\n";
const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n\
                         Files: *\nCopyright: a\nLicense: Zlib\n\n\
                         Files: tools/*\nCopyright: b\nLicense: GPL-2+\n";

/// Puts a version of the source package `tiny` into the repository.
fn publish(repository: &Path, version: &str, factor: u32) {
    publish_with(repository, version, factor, &[]);
}

/// The same with `more` files.
fn publish_with(repository: &Path, version: &str, factor: u32, more: &[(&str, &str)]) {
    publish_changed(repository, version, factor, more, &|_| ());
}

/// The same after a last change of the source tree.
fn publish_changed(
    repository: &Path,
    version: &str,
    factor: u32,
    more: &[(&str, &str)],
    change: &dyn Fn(&Path),
) {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().join("tiny");
    let files: [(&str, &str); 9] = [
        ("debian/control", CONTROL),
        ("debian/copyright", COPYRIGHT),
        ("debian/source/format", "3.0 (native)\n"),
        (
            "debian/changelog",
            &format!(
                "tiny ({version}) unstable; urgency=low\n\n  * Test.\n\n -- A B <a@b.example>  Thu, 01 Jan 1970 00:00:00 +0000\n"
            ),
        ),
        ("lib/tiny.c", "#include \"tiny.h\"\nint tiny(int x) { return x * FACTOR; }\n"),
        ("include/tiny.h", &format!("#define FACTOR {factor}\nint tiny(int);\n")),
        (
            "tools/main.c",
            "#include <stdio.h>\n#include <tiny.h>\nint main(void) { return printf(__FILE__ __DATE__, tiny(2)); }\n",
        ),
        ("tools/broken.c", "#include \"config.h\"\nint broken;\n"),
        ("top.c", "int top;\n"),
    ];
    for (name, text) in files.iter().chain(more) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    change(&root);
    output(command("dpkg-source").arg("-b").arg(&root).current_dir(repository));
    let index = output(command("dpkg-scansources").arg(".").current_dir(repository));
    fs::write(repository.join("Sources"), index).unwrap();
}

/// A fixture whose machine knows one repository, with one package in it.
fn with_repository() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    let root = fixture.folder.path().to_owned();
    let repository = root.join("repository");
    fs::create_dir_all(&repository).unwrap();
    fs::create_dir_all(root.join("apt")).unwrap();
    let list = format!("deb [trusted=yes] file:{} ./\n", repository.display());
    fs::write(root.join("apt/sources.list"), list).unwrap();
    publish(&repository, "1.0", 3);
    (fixture, repository)
}

fn paths(uris: &[BenchmarkUri]) -> Vec<&str> {
    uris.iter().map(BenchmarkUri::path).collect()
}

#[test]
fn a_package_becomes_benchmarks() {
    let (fixture, _repository) = with_repository();
    let all = fixture.datasets.expand("benchmark://debian-v0/tiny").unwrap();
    assert_eq!(paths(&all), ["tiny@1.0/lib/tiny.c", "tiny@1.0/tools/main.c", "tiny@1.0/top.c"]);
    for (pattern, expected) in [
        ("tiny/*", &all[2..]),
        ("tiny/**", &all[..]),
        ("tiny/lib", &all[..1]),
        ("tiny@1.0/l?b/*.c", &all[..1]),
        ("tiny/tools/main.c", &all[1..2]),
    ] {
        let uris = fixture.datasets.expand(&format!("benchmark://debian-v0/{pattern}")).unwrap();
        assert_eq!(uris, expected, "{pattern}");
    }
    let main = fixture.datasets.benchmark(&uri("benchmark://debian-v0/tiny/tools/main.c")).unwrap();
    assert_eq!(main.uri.path(), "tiny@1.0/tools/main.c");
    assert!(text_of(&main).contains("tools/main.cJan  1 1970"));
    assert!(!text_of(&main).contains(fixture.folder.path().to_str().unwrap()));
    assert_eq!(main.provenance.family, "debian/tiny");
    assert_eq!(main.provenance.licence, "GPL-2.0-or-later");
    let command = &main.provenance.compile_command;
    assert!(command.ends_with(" -Iinclude tools/main.c"), "{command}");
    assert!(main.provenance.origin.starts_with("Debian source package tiny 1.0, sha256 "));
    let library = fixture.datasets.benchmark(&all[0]).unwrap();
    assert_eq!(library.provenance.licence, "Zlib");
    let unavailable = fixture.datasets.unavailable("benchmark://debian-v0/tiny").unwrap();
    assert_eq!(unavailable.len(), 1);
    assert_eq!(unavailable[0].uri.path(), "tiny@1.0/tools/broken.c");
    assert!(
        unavailable[0].reason.contains("'config.h' file not found"),
        "{}",
        unavailable[0].reason
    );
}

/// Kills the compiler of `file` once it is at work, which `work` is to lead to.
fn kill_at<T>(file: &str, work: &ScopedJoinHandle<'_, T>) {
    let is_compiler = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = command.split(|&byte| byte == 0).collect();
        words[0].ends_with(b"clang-22") && words.contains(&file.as_bytes())
    };
    until(&format!("{file} is compiled"), || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut pids =
            processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        assert!(!work.is_finished(), "nobody compiled {file}");
        pids.find(is_compiler).is_some_and(|pid| kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok())
    });
}

#[test]
fn a_licence_is_found_in_a_cache_behind_a_link_and_none_outside_of_the_package() {
    let (fixture, repository) = with_repository();
    let root = fixture.folder.path();
    fs::create_dir(root.join("disk")).unwrap();
    symlink(root.join("disk"), root.join("link")).unwrap();
    let (cache, apt_sources) = (root.join("link/cache"), root.join("apt"));
    let datasets = Datasets::new(&DatasetFolders { cache, apt_sources, mirrors: Vec::new() });
    let benchmark = |version: &str| {
        datasets.benchmark(&uri(&format!("benchmark://debian-v0/tiny@{version}/lib/tiny.c")))
    };
    fs::write(root.join("outside"), COPYRIGHT).unwrap();
    let leads_out = |tree: &Path| {
        fs::remove_file(tree.join("debian/copyright")).unwrap();
        symlink(root.join("outside"), tree.join("debian/copyright")).unwrap();
    };
    publish_changed(&repository, "1.1", 3, &[], &leads_out);
    assert_eq!(benchmark("1.0").unwrap().provenance.licence, "Zlib");
    let error = benchmark("1.1").unwrap_err().to_string();
    assert!(error.contains("points outside source root"), "{error}");
}

/// A program that takes a compiler some seconds to read.
fn slow_program() -> String {
    let levels = (1..=6).map(|level| {
        let before = format!("S{} ", level - 1);
        format!("#define S{level} {}\n", before.repeat(16))
    });
    format!("#define S0 +0\n{}#if 1 S6\n#endif\nint slow;\n", levels.collect::<String>())
}

#[test]
fn a_compiler_that_was_killed_has_said_nothing_about_its_file() {
    let (fixture, repository) = with_repository();
    publish_with(&repository, "1.1", 3, &[("slow.c", &slow_program())]);
    // The other files are there all the same, and this one is asked for again the next time.
    for _ in 0..2 {
        let missing = thread::scope(|scope| {
            let unavailable = || fixture.datasets.unavailable("benchmark://debian-v0/tiny");
            let work = scope.spawn(unavailable);
            kill_at("slow.c", &work);
            work.join().unwrap().unwrap()
        });
        let reasons: Vec<_> =
            missing.iter().map(|missing| (missing.uri.path(), missing.reason.as_str())).collect();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert_eq!(reasons[0].0, "tiny@1.1/slow.c");
        assert_eq!(
            reasons[0].1,
            "clang-22 failed on benchmark://debian-v0/tiny@1.1/slow.c: it was ended by signal 9"
        );
    }
    let all = thread::scope(|scope| {
        let work = scope.spawn(|| fixture.datasets.expand("benchmark://debian-v0/tiny"));
        kill_at("slow.c", &work);
        work.join().unwrap().unwrap()
    });
    assert_eq!(paths(&all), ["tiny@1.1/lib/tiny.c", "tiny@1.1/tools/main.c", "tiny@1.1/top.c"]);
    let all = fixture.datasets.expand("benchmark://debian-v0/tiny").unwrap();
    assert!(paths(&all).contains(&"tiny@1.1/slow.c"), "{all:?}");
    let unavailable = fixture.datasets.unavailable("benchmark://debian-v0/tiny").unwrap();
    let unavailable: Vec<_> = unavailable.iter().map(|missing| missing.uri.path()).collect();
    assert_eq!(unavailable, ["tiny@1.1/tools/broken.c"]);
}

#[test]
fn a_file_that_takes_in_another_of_the_machine_is_left_out() {
    let (fixture, repository) = with_repository();
    let secret = fixture.folder.path().join("secret");
    fs::write(&secret, "1, 2, 3").unwrap();
    let text = format!("const char s[] = {{\n#embed \"{}\"\n}};\n", secret.display());
    publish_with(&repository, "1.1", 3, &[("curious.c", &text)]);
    let missing = fixture.datasets.unavailable("benchmark://debian-v0/tiny").unwrap();
    let paths: Vec<_> = missing.iter().map(|missing| missing.uri.path()).collect();
    assert_eq!(paths, ["tiny@1.1/curious.c", "tiny@1.1/tools/broken.c"]);
    assert!(missing[0].reason.starts_with("it takes in "), "{}", missing[0].reason);
}

/// Serves the files of a folder over HTTP for as long as the test runs, and gives the address.
fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let folder = folder.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let lines = (&mut stream).lines().map_while(Result::ok);
            let request: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let path = request.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
            let found = fs::read(folder.join(path.trim_start_matches('/')));
            let status = if found.is_ok() { "200 OK" } else { "404 Not Found" };
            let body = found.unwrap_or_default();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            // A client that goes away has seen enough.
            stream.get_mut().write_all(&[head.as_bytes(), &body].concat()).ok();
        }
    });
    address
}

#[test]
fn a_version_that_is_gone_is_replaced_by_the_newest_that_is_there() {
    let (fixture, repository) = with_repository();
    publish(&repository, "1.1", 5);
    publish(&repository, "1.2", 7);
    let list = format!("deb [trusted=yes] {} ./\n", serve(&repository));
    fs::write(fixture.folder.path().join("apt/sources.list"), list).unwrap();
    let gone = |version: &str| {
        for ending in ["dsc", "tar.xz"] {
            fs::remove_file(repository.join(format!("tiny_{version}.{ending}"))).unwrap();
        }
    };
    gone("1.2");
    let plain = uri("benchmark://debian-v0/tiny/lib/tiny.c");
    assert_eq!(fixture.datasets.resolve(&plain).unwrap().path(), "tiny@1.1/lib/tiny.c");
    let made = fixture.datasets.benchmark(&plain).unwrap();
    assert_eq!(made.uri.path(), "tiny@1.1/lib/tiny.c");
    let all = fixture.datasets.expand("benchmark://debian-v0/tiny").unwrap();
    assert_eq!(paths(&all), ["tiny@1.1/lib/tiny.c", "tiny@1.1/tools/main.c", "tiny@1.1/top.c"]);
    // Who names a version gets that one or none.
    let named = uri("benchmark://debian-v0/tiny@1.2/top.c");
    let error = fixture.datasets.benchmark(&named).unwrap_err();
    assert!(matches!(error, DatasetError::Withdrawn { .. }), "{error}");
    // What was fetched once stays, wherever the repository goes.
    gone("1.1");
    let datasets = datasets_in(fixture.folder.path());
    assert_eq!(datasets.benchmark(&plain).unwrap(), made);
    gone("1.0");
    fs::remove_dir_all(fixture.folder.path().join("cache/debian-archives")).unwrap();
    let error = datasets_in(fixture.folder.path()).resolve(&plain).unwrap_err();
    assert!(matches!(error, DatasetError::Withdrawn { .. }), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

#[test]
fn a_newer_version_is_another_benchmark() {
    let (fixture, repository) = with_repository();
    let plain = uri("benchmark://debian-v0/tiny/lib/tiny.c");
    let old = fixture.datasets.benchmark(&plain).unwrap();
    publish(&repository, "1.1", 5);
    // The lists are a day old at most, not fresh: another day is another stamp.
    for entry in fs::read_dir(fixture.folder.path().join("cache")).unwrap() {
        let stamp = entry.unwrap().path().join("refreshed");
        if stamp.exists() {
            fs::remove_file(stamp).unwrap();
        }
    }
    let datasets = datasets_in(fixture.folder.path());
    let new = datasets.benchmark(&plain).unwrap();
    assert_eq!(new.uri.path(), "tiny@1.1/lib/tiny.c");
    assert_ne!(new.program, old.program);
    assert_eq!(datasets.benchmark(&old.uri).unwrap(), old);
    let unknown =
        datasets.benchmark(&uri("benchmark://debian-v0/tiny@0.9/lib/tiny.c")).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no benchmark `benchmark://debian-v0/tiny@0.9`: this machine's Debian has tiny 1.0, 1.1"
    );
}

#[test]
fn without_a_network_what_was_fetched_is_still_there() {
    let (fixture, repository) = with_repository();
    let made = fixture.datasets.benchmark(&uri("benchmark://debian-v0/tiny/lib/tiny.c")).unwrap();
    fs::remove_dir_all(&repository).unwrap();
    let datasets = datasets_in(fixture.folder.path());
    assert_eq!(datasets.benchmark(&made.uri).unwrap(), made);
    // Also a file that was not compiled before: the archives are in the cache.
    datasets.benchmark(&uri("benchmark://debian-v0/tiny@1.0/top.c")).unwrap();

    let (fixture, repository) = with_repository();
    fs::remove_dir_all(&repository).unwrap();
    let error = fixture.datasets.expand("benchmark://debian-v0/tiny").unwrap_err();
    assert!(error.is_offline(), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

#[test]
fn a_source_that_was_tampered_with_is_refused() {
    let (fixture, repository) = with_repository();
    fixture.datasets.resolve(&uri("benchmark://debian-v0/tiny/top.c")).unwrap();
    let archive = fs::read_dir(&repository).unwrap().map(|entry| entry.unwrap().path());
    let archive =
        archive.into_iter().find(|path| path.to_string_lossy().ends_with(".tar.xz")).unwrap();
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).unwrap();
    let error = fixture.datasets.benchmark(&uri("benchmark://debian-v0/tiny/top.c")).unwrap_err();
    let refused =
        matches!(error, DatasetError::Offline { .. } | DatasetError::ChecksumMismatch { .. });
    assert!(refused, "{error}");
}

#[test]
fn damaged_archives_in_the_cache_are_fetched_again() {
    let (fixture, _repository) = with_repository();
    fixture.datasets.benchmark(&uri("benchmark://debian-v0/tiny/top.c")).unwrap();
    let folder = fixture.folder.path().join("cache/debian-archives/tiny_1.0");
    for entry in fs::read_dir(&folder).unwrap() {
        fs::write(entry.unwrap().path(), "damaged").unwrap();
    }
    let datasets = datasets_in(fixture.folder.path());
    datasets.benchmark(&uri("benchmark://debian-v0/tiny/lib/tiny.c")).unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        assert_ne!(fs::read(entry.unwrap().path()).unwrap(), b"damaged");
    }
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let (fixture, _repository) = with_repository();
    for (pattern, expected) in [
        (
            "",
            "`benchmark://debian-v0` has no end: name a part of it, e.g. benchmark://debian-v0/zlib/*",
        ),
        (
            "*/top.c",
            "`benchmark://debian-v0` has no end: name a part of it, e.g. benchmark://debian-v0/zlib/*",
        ),
        (
            "libtiny-dev",
            "there is no benchmark `benchmark://debian-v0/libtiny-dev`: it is made from the source package `tiny`",
        ),
        (
            "teeny",
            "there is no benchmark `benchmark://debian-v0/teeny`: no source package of that name is in this machine's Debian",
        ),
        (
            "tiny/*/none*",
            "`benchmark://debian-v0/tiny/*/none*` matches no benchmark: `*` stays within one folder; `**` goes through all below",
        ),
        (
            "-o/x.c",
            "there is no benchmark `benchmark://debian-v0/-o/x.c`: write benchmark://debian-v0/<package>/<file> or benchmark://debian-v0/<package>@<version>/<file>",
        ),
    ] {
        assert_eq!(fixture.complaint(&format!("benchmark://debian-v0/{pattern}")), expected);
    }
    let missing = fixture.datasets.benchmark(&uri("benchmark://debian-v0/tiny/tpo.c")).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "there is no benchmark `benchmark://debian-v0/tiny@1.0/tpo.c`: benchmark://debian-v0/tiny has 4 files (did you mean `top.c`?)"
    );
    let broken =
        fixture.datasets.benchmark(&uri("benchmark://debian-v0/tiny/tools/broken.c")).unwrap_err();
    assert!(matches!(broken, DatasetError::DoesNotCompile { .. }), "{broken}");
}

#[test]
fn a_machine_without_repositories_is_told_so() {
    let fixture = Fixture::new();
    let complaint = fixture.complaint("benchmark://debian-v0/zlib");
    assert!(complaint.starts_with("no package sources are configured in `"), "{complaint}");
}

/// The language is that of the ending; the C++ library's headers are the system's.
#[test]
fn files_of_cxx_are_benchmarks_too() {
    let (fixture, repository) = with_repository();
    let more = [
        (
            "lib/names.cc",
            "#include <string>\n#include <tiny.h>\nstd::string name() { return std::string(FACTOR, 'a'); }\n",
        ),
        ("lib/old.cpp", "#include <no-such-library>\n"),
        ("tools/version", "1.0\n"),
    ];
    publish_with(&repository, "2.0", 5, &more);
    let all = fixture.datasets.expand("benchmark://debian-v0/tiny@2.0/lib").unwrap();
    assert_eq!(paths(&all), ["tiny@2.0/lib/names.cc", "tiny@2.0/lib/tiny.c"]);
    let names = fixture.datasets.benchmark(&all[0]).unwrap();
    let command = &names.provenance.compile_command;
    assert!(command.starts_with("clang++-22 ") && command.ends_with(" -Iinclude lib/names.cc"));
    assert_eq!(names.provenance.licence, "Zlib");
    assert!(text_of(&names).contains("define") && text_of(&names).contains("@_Z4name"));
    let unavailable = fixture.datasets.unavailable("benchmark://debian-v0/tiny@2.0/lib").unwrap();
    assert_eq!(unavailable[0].uri.path(), "tiny@2.0/lib/old.cpp");
    assert!(unavailable[0].reason.contains("'no-such-library' file not found"));
}
