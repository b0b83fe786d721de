#!/usr/bin/env bash
# Makes a folder with which an unmodified CompilerGym client runs its LLVM environments on steplake:
#   scripts/compiler-gym-overlay.sh FOLDER
# $PYTHON (python3) is the Python that has the package compiler_gym, $STEPLAKE the program (steplake
# on the PATH). Prints what to set for the client. docs/COMPILERGYM.md says more.
set -euo pipefail
source "$(dirname "$0")/paths.sh"

[[ $# == 1 ]] || fail "usage: scripts/compiler-gym-overlay.sh FOLDER"
python=${PYTHON:-python3}
steplake=${STEPLAKE:-$(command -v steplake || true)}
[[ -n $steplake ]] || fail "there is no steplake on the PATH: put it there, or set STEPLAKE to the program"
steplake=$(realpath "$steplake")
# The service is in a program of its own, without which the client would wait for it in vain.
said=$("$steplake" compiler-gym-service --help 2>&1 >/dev/null) || fail "$said"
# The package is only looked for: importing it starts to install what is missing.
find_package='import importlib.util as u; spec = u.find_spec("compiler_gym"); print(spec.origin if spec else "")'
package=$("$python" -c "$find_package")
[[ -n $package ]] || fail "$python has no package compiler_gym: set PYTHON to the Python of your scripts"
package=$(dirname "$package")
tools=$(llvm-config-22 --bindir 2>/dev/null || echo /usr/lib/llvm-22/bin)
[[ -x $tools/clang && -x $tools/opt ]] || fail "$tools lacks clang or opt of LLVM 22: run scripts/install-debian.sh"
mkdir --parents "$1"
folder=$(realpath "$1")

# Links to all files of folder $1 in folder $2, but for those that are there.
link_others() {
    mkdir --parents "$2"
    local path
    for path in "$1"/*; do
        [[ -e $path && ! -e $2/${path##*/} ]] || continue
        ln --symbolic --no-target-directory "$path" "$2/${path##*/}"
    done
}

# The runfiles: those of the package, with another service.
runfiles=$folder/runfiles/compiler_gym
service=$runfiles/envs/llvm/service
rm --recursive --force "$folder/runfiles"
mkdir --parents "$service"
printf '#!/bin/sh\nexec "%s" compiler-gym-service "$@"\n' "$steplake" >"$service/compiler_gym-llvm-service"
printf '#!/bin/sh\nexec "%s" compiler-gym-tool compute_observation "$@"\n' "$steplake" >"$service/compute_observation"
chmod +x "$service"/*
link_others "$package" "$runfiles"
link_others "$package/envs" "$runfiles/envs"
link_others "$package/envs/llvm" "$runfiles/envs/llvm"

# The site data: tools of LLVM 22, and programs under the name of the default dataset.
site=$folder/site_data/llvm-v0
mkdir --parents "$site/bin"
# This one knows the flags of the legacy pass manager, which `env.commandline()` writes.
rm --force "$site/bin/opt"
printf '#!/bin/sh\nexec "%s" compiler-gym-tool opt "%s" "$@"\n' "$steplake" "$tools/opt" >"$site/bin/opt"
# And this one only warns of what LLVM 10 only warned of: calls of functions that nobody declares, above all.
rm --force "$site/bin/clang"
cat >"$site/bin/clang" <<END
#!/bin/sh
case \${1-} in -cc1*) exec "$tools/clang" "\$@" ;; esac
exec "$tools/clang" -Wno-error=implicit-function-declaration -Wno-error=implicit-int -Wno-error=int-conversion \\
    -Wno-error=incompatible-pointer-types -Wno-error=incompatible-function-pointer-types "\$@"
END
chmod +x "$site/bin"/{opt,clang}
link_others "$tools" "$site/bin"
# Datasets that the user has installed already stay what they are.
installed=${COMPILER_GYM_SITE_DATA:-$HOME/.local/share/compiler_gym}/llvm-v0
if [[ -d $installed && $(realpath "$installed") != "$(realpath "$site")" ]]; then
    for kind in benchmark generator; do link_others "$installed/$kind" "$site/$kind"; done
    link_others "$installed" "$site"
fi
dataset=$site/benchmark/cbench-v1
if [[ ! -e $dataset/.extracted ]]; then
    programs=$dataset/contents/cBench-v1
    mkdir --parents "$programs"
    compile() { # source name
        "$tools/clang" -w -O1 -Xclang -disable-llvm-passes -emit-llvm -c "$1" -o "$programs/$2.bc"
    }
    for source in "$repository"/data/programs/*.c; do
        compile "$source" "$(basename "$source" .c)"
    done
    # The benchmark that an environment has when nobody names one.
    compile "$repository/data/programs/introsort.c" qsort
    shipped=$package/third_party/cbench/cbench-v1/crc32.bc
    [[ ! -e $shipped ]] || cp "$shipped" "$programs/crc32.bc"
    # The client looks for the list under the digest of the original one.
    manifest=manifest-eeffd7593aeb696a160fd22e6b0c382198a65d0918b8440253ea458cfe927741.txt
    for program in "$programs"/*.bc; do basename "$program" .bc; done >"$dataset/$manifest"
    touch "$dataset/.extracted"
fi
mkdir --parents "$site/cbench-v1-runtime-data/runtime_data"
touch "$site/cbench-v1-runtime-data/runtime_data/unpacked" "$site/.unpacked"

export COMPILER_GYM_RUNFILES=$folder/runfiles COMPILER_GYM_SITE_DATA=$folder/site_data
# The client downloads the lists of all other datasets as soon as it lists its programs: without a network, that fails.
# Those of the user's own installation are not touched.
"$python" -W ignore - <<'END'
from compiler_gym.envs.llvm.datasets import get_llvm_datasets

for dataset in get_llvm_datasets():
    manifest = getattr(dataset, "_manifest_path", None)
    if manifest and not manifest.parent.is_symlink() and not manifest.exists():
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.touch()
END

printf 'export COMPILER_GYM_RUNFILES=%q\nexport COMPILER_GYM_SITE_DATA=%q\n' "$folder/runfiles" "$folder/site_data"
