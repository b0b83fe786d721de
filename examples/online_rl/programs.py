"""The programs: three families, each split into training, validation and test."""

from __future__ import annotations

import math
from collections.abc import Iterator

import steplake
from steplake.env import CompilerEnv

FAMILIES = ("csmith", "steplake", "debian")
PARTS = ("train", "validation", "test")

# Seeds of csmith, as in the paper: the first hundred are for validation and test.
CSMITH = {"train": range(100, 1_000_000), "validation": range(50, 100), "test": range(50)}

# Packages of Debian: no package has files in two parts.
DEBIAN = {
    "train": "zlib zopfli brotli giflib libtommath libwebp opus",
    "validation": "speex libgsm",
    "test": "bzip2 cjson jansson lz4 libyaml mujs xxhash libcsv",
}


def programs(
    env: CompilerEnv, family: str, part: str, count: int, bytes_max: float = math.inf
) -> list[steplake.Benchmark]:
    """Return programs of a family's part, with their bitcode.

    A Benchmark in memory begins an episode without csmith, clang or a look into the cache. Of the
    first `count` programs, those with more bitcode than `bytes_max` are left out, and files without
    instructions, such as tables.
    """
    chosen = []
    for uri in _uris(env, family, part, count):
        program = env.make_benchmark(uri)
        if len(program.program) > bytes_max:
            continue
        env.reset(options={"benchmark": program})
        if env.observation["IrInstructionCountO0"] > 0:
            assert env.benchmark is not None
            chosen.append(env.benchmark)
    return chosen


def _uris(env: CompilerEnv, family: str, part: str, count: int) -> Iterator[str]:
    match family:
        case "csmith":
            yield from (f"generator://csmith-v0/{seed}" for seed in CSMITH[part][:count])
        case "steplake":
            own = sorted(env.datasets["benchmark://steplake-v0"].benchmark_uris())
            parts = {"test": own[::2], "validation": own[1::6], "train": own[3::6] + own[5::6]}
            yield from parts[part][:count]
        case "debian":
            dataset = env.datasets["benchmark://debian-v0"]
            packages = [sorted(dataset.benchmark_uris(name)) for name in DEBIAN[part].split()]
            # The first file of each package, then the second, and so on.
            most = max(map(len, packages))
            in_turn = [files[n] for n in range(most) for files in packages if n < len(files)]
            yield from in_turn[:count]
        case _:
            raise SystemExit(f"there is no family {family!r}: choose from {', '.join(FAMILIES)}")
