"""Makes the golden statements beside this file with the client of CompilerGym 0.2.5.

    apt-get install clang-14
    python3.10 golden.py

Clang 14 still writes typed pointers. What it writes and LLVM 10 did not is taken out of its text:
`noundef`, the type of `sret`, alignments of atomic changes, and `poison` for `undef`. Definitions of
types are no statements. `NAME.bc` is the bitcode that the tests
read, `NAME.O1.bc` the same after a few passes; `NAME.txt` has the statements, one per line.
"""

import re
import subprocess
from pathlib import Path

from compiler_gym.third_party.inst2vec import Inst2vecEncoder, inst2vec_preprocess

# The client calls a function that it does not have when it gives up on a type.
inst2vec_preprocess.string_of_items = str

PROGRAMS = "../../../../../data/programs"
FLAGS = (
    "--target=x86_64-pc-linux-gnu -O1 -funroll-loops -Xclang -disable-llvm-passes -g0 -w "
    "-fno-ident -ffile-compilation-dir=. -emit-llvm -c -o"
).split()
PASSES = "function(sroa,early-cse,instcombine,simplifycfg)"


def as_llvm_10(text):
    text = re.sub(r"\bnoundef ", "", text)
    text = re.sub(r"\bpoison\b", "undef", text)
    text = re.sub(r"( = (?:atomicrmw|cmpxchg) .*), align \d+", r"\1", text)
    while (begin := text.find(" sret(")) >= 0:
        end, depth = begin + 6, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[:begin] + " sret" + text[end:]
    return text


here = Path(__file__).parent
encoder = Inst2vecEncoder()
sources = [here / "shapes_of_data.c", here / "throwing.cpp"]
sources += [here / PROGRAMS / f"{name}.c" for name in ("fourier",)]
for source in sources:
    plain = here / f"{source.stem}.bc"
    optimised = here / f"{source.stem}.O1.bc"
    subprocess.run(["clang-14", *FLAGS, plain, source], check=True)
    subprocess.run(["opt-14", f"-passes={PASSES}", plain, "-o", optimised], check=True)
    for bitcode in (plain, optimised):
        text = subprocess.run(
            ["llvm-dis-14", "-o", "-", bitcode], check=True, capture_output=True, text=True
        ).stdout
        statements = encoder.preprocess(as_llvm_10(text))
        statements = [statement for statement in statements if " = type " not in statement]
        assert not any("\n" in statement for statement in statements)
        bitcode.with_suffix(".txt").write_text("".join(f"{line}\n" for line in statements))
