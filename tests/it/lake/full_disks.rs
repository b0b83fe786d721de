//! Full and read-only disks, real ones: small file systems in a mount namespace of their own.

use std::process::Output;

use crate::fixtures::programs::{InTime as _, program};
use crate::fixtures::support::err;

/// How a mount namespace is had: by any user, or, inside a chroot, where the kernel gives nobody a
/// user namespace and where the root cannot be made private, by root.
fn namespace() -> &'static [&'static str] {
    const ANY_USER: &[&str] = &["--mount", "--map-root-user"];
    const ROOT: &[&str] = &["--mount", "--propagation", "unchanged"];
    let tried = program("unshare").args(ANY_USER).arg("true").output_in_time();
    if tried.status.success() { ANY_USER } else { ROOT }
}

/// Runs a shell script that may mount at `$disk`, an empty folder, with the binary as `$steplake`.
fn in_namespace(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    // Outside of a namespace of its own, a mount would stay.
    let script = format!("trap 'umount \"$disk\" || true' EXIT\n{script}");
    program("unshare")
        .args(namespace())
        .args(["sh", "-euc", &script])
        .env("steplake", env!("CARGO_BIN_EXE_steplake"))
        .env("disk", folder.path())
        .env("STEPLAKE_LAKE", folder.path().join("lake"))
        .env("toy", "--env toy-v0 -b generator://toy-v0/0..3 --resume --quiet")
        .output_in_time()
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", err(output));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_full_disk_loses_nothing_and_the_run_goes_on_when_there_is_room() {
    let output = in_namespace(
        r#"
        mount -t tmpfs -o size=4m tmpfs "$disk"
        code=0
        $steplake generate $toy --steps 200000 2>"$disk/../said" || code=$?
        echo "code $code"
        grep -c . "$disk/../said"
        grep -o "is full" "$disk/../said"
        $steplake verify >/dev/null && echo verified
        kept=$($steplake sql "SELECT count(*) FROM steps" --format csv | tail -1)
        test "$kept" -gt 1000 && echo kept
        mount -o remount,size=200m "$disk"
        $steplake generate $toy --steps 200000 >/dev/null
        $steplake sql "SELECT count(action) FROM steps" --format csv | tail -1
        $steplake verify >/dev/null && echo verified
        "#,
    );
    assert_eq!(
        lines(&output),
        ["code 3", "1", "is full", "verified", "kept", "200000", "verified"]
    );
}

#[test]
fn a_seal_that_finds_no_room_changes_nothing() {
    let output = in_namespace(
        r#"
        mount -t tmpfs -o size=40m tmpfs "$disk"
        $steplake generate $toy --no-seal --steps 100000 >/dev/null
        rest=$(df --output=avail -k "$disk" | tail -1)
        head -c "$((rest * 1024 - 65536))" /dev/zero >"$disk/ballast"
        code=0
        $steplake seal 2>"$disk/../said" || code=$?
        echo "code $code"
        grep -o "is full" "$disk/../said"
        rm "$disk/ballast"
        $steplake sql "SELECT count(action) FROM steps" --format csv | tail -1
        $steplake seal >/dev/null
        $steplake verify >/dev/null && echo verified
        "#,
    );
    assert_eq!(lines(&output), ["code 3", "is full", "100000", "verified"]);
}

#[test]
fn old_snapshots_make_room_on_a_disk_without_any() {
    let output = in_namespace(
        r#"
        mount -t tmpfs -o size=60m tmpfs "$disk"
        for steps in 20000 40000 60000; do
            $steplake generate $toy --steps "$steps" >/dev/null
            $steplake seal >/dev/null
            $steplake dedup --full >/dev/null
        done
        cat /dev/zero >"$disk/ballast" 2>/dev/null || true
        df --output=avail -k "$disk" | tail -1 | tr -d ' '
        code=0
        $steplake generate $toy --steps 70000 >/dev/null 2>"$disk/../said" || code=$?
        echo "code $code"
        grep -o "is full" "$disk/../said"
        $steplake sql "SELECT count(action) FROM steps" --format csv | tail -1
        $steplake expire --keep 1 | grep -o "are left\|is left"
        df --output=avail -k "$disk" | tail -1 | awk '{ print ($1 < 1100) ? "still full" : $1 }'
        $steplake gc | grep -o "^deleted"
        $steplake verify >/dev/null && echo verified
        rm "$disk/ballast"
        $steplake gc >/dev/null
        find "$disk/lake/reserve" -size +500k -printf "reserved\n"
        $steplake generate $toy --steps 70000 >/dev/null
        $steplake sql "SELECT count(action) FROM steps" --format csv | tail -1
        $steplake verify >/dev/null && echo verified
        "#,
    );
    let expected = [
        "0",
        "code 3",
        "is full",
        "120000",
        "is left",
        "still full",
        "deleted",
        "verified",
        "reserved",
        "190000",
        "verified",
    ];
    assert_eq!(lines(&output), expected);
}

#[test]
fn a_read_only_lake_can_be_read_and_says_that_it_cannot_be_written() {
    let output = in_namespace(
        r#"
        mount -t tmpfs -o size=64m tmpfs "$disk"
        $steplake generate $toy --steps 3000 >/dev/null
        mount -o remount,ro "$disk"
        $steplake sql "SELECT count(action) FROM steps" --format csv | tail -1
        $steplake info >/dev/null && echo info
        $steplake verify >/dev/null && echo verified
        $steplake sql "SELECT count(*) FROM steps" --snapshot 1 --format csv | tail -1
        for command in seal dedup gc "expire --keep 1" "generate $toy --steps 4000"; do
            code=0
            $steplake $command >/dev/null 2>&1 || code=$?
            echo "code $code"
        done
        $steplake seal 2>&1 | grep -o "read-only" | head -1
        mount -o remount,rw "$disk"
        rm "$disk/lake/readers.lock"
        mount -o remount,ro "$disk"
        $steplake info >/dev/null && echo info
        "#,
    );
    let refused = ["code 3"; 5];
    let expected =
        [&["3000", "info", "verified", "0"], &refused[..], &["read-only", "info"]].concat();
    assert_eq!(lines(&output), expected);
}
