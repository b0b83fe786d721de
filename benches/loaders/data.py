"""Makes the data set that all loaders read: transitions between states with their features.

    python data.py FOLDER [--rows ROWS] [--seed SEED]

FOLDER gets `states.parquet` (each state once: its id and its features), `transitions/` (Parquet
files with ids and features of both states, in the order of a lake: by the ids of the states, which
are hashes, and then by the action), and `hashes.npy` (a hash of each row, in the order of the
files). `cargo bench --bench loaders -- FOLDER` makes `FOLDER/lake` from them.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import batch

FEATURES = 56
ACTIONS = 124
ID_BYTES = 20
STATES_EACH_TRANSITION = 0.6
STATES_EACH_PROGRAM = 500
# Of the transitions to states that another transition reaches too.
SHARE_WITHOUT_CHANGE = 0.75
ROW_GROUP_ROWS = 16_384
FILES = 8
INSTRUCTIONS = 51


def program_features(rng, programs):
    """Return the features of the first state of each program: many zeros, and a long tail."""
    size = rng.lognormal(mean=5.0, sigma=1.2, size=(programs, 1))
    share = rng.gamma(shape=0.35, scale=0.12, size=(programs, FEATURES))
    base = np.floor(size * share).astype(np.float32)
    base[:, INSTRUCTIONS] = np.ceil(size[:, 0]) + 1
    return base


def state_features(rng, program):
    """Return the features of all states: those of their program, smaller and a little changed."""
    base = program_features(rng, int(program[-1]) + 1)
    features = np.empty((len(program), FEATURES), dtype=np.int32)
    for begin in range(0, len(program), 100_000):
        rows = slice(begin, begin + 100_000)
        some = base[program[rows]]
        some *= rng.uniform(0.4, 1.0, size=(len(some), 1)).astype(np.float32)
        some += rng.integers(0, 4, size=some.shape, dtype=np.uint8) * (some > 2)
        features[rows] = some
    np.maximum(features[:, INSTRUCTIONS], 1, out=features[:, INSTRUCTIONS])
    return features


def transitions(rng, rows, program, number):
    """Return the states before and after, as row numbers, and the actions, in the order of both.

    No action is taken twice in a state.
    """
    states = len(program)
    first = np.searchsorted(program, program)
    after = np.concatenate([np.arange(states), rng.integers(0, states, rows - states)])
    # Each state is reached once, from an earlier one of its program.
    before = first[after] + (rng.random(rows) * (after - first[after])).astype(np.int64)
    same = np.arange(rows) >= states
    same &= rng.random(rows) < SHARE_WITHOUT_CHANGE
    before[same] = after[same]
    before, after = number[before], number[after]
    order = np.argsort(before, kind="stable")
    before, after = before[order], after[order]
    place = np.arange(rows) - np.searchsorted(before, before)
    assert place.max() < ACTIONS
    first = rng.integers(0, ACTIONS, states)
    action = ((first[before] + 7 * place) % ACTIONS).astype(np.int32)
    order = np.lexsort([action, before])
    return before[order], after[order], action[order]


def rewards(before, after):
    """Return the rewards: the share of instructions that each action removed."""
    was = before[:, INSTRUCTIONS].astype(np.float32)
    return (was - after[:, INSTRUCTIONS].astype(np.float32)) / was


def vectors(values):
    """Return a matrix as a column of lists of one size."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def identifiers(values):
    """Return a matrix of bytes as a column of binary values of one size."""
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(ID_BYTES), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    )


def write(path, columns):
    """Write a Parquet file, with settings for data whose values seldom repeat."""
    table = pa.table(columns)
    names = [name for name in table.column_names if name.startswith("features")]
    pq.write_table(
        table,
        path,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in names},
        write_statistics=False,
    )


def sorted_ids(rng, states):
    """Return ids in the order of a lake: their first 8 bytes are a signed number."""
    ids = rng.integers(0, 256, size=(states, ID_BYTES), dtype=np.uint8)
    keys = ids[:, :8].copy().view(">i8")[:, 0]
    assert len(np.unique(keys)) == states
    return ids[np.argsort(keys)]


def parts(rows):
    """Return the rows of each file: whole row groups, so that only the last batch is short."""
    groups = -(-rows // ROW_GROUP_ROWS)
    step = -(-groups // FILES) * ROW_GROUP_ROWS
    return [slice(begin, min(begin + step, rows)) for begin in range(0, rows, step)]


def make(folder, rows, seed):
    """Make the data set; the same for the same rows and seed."""
    rng = np.random.default_rng(seed)
    states = round(rows * STATES_EACH_TRANSITION)
    program = np.arange(states) // STATES_EACH_PROGRAM
    features = state_features(rng, program)
    ids = sorted_ids(rng, states)
    # The numbers of states are in the order of their ids, and so say nothing about programs.
    place = rng.permutation(states)
    features[place] = features.copy()
    (folder / "transitions").mkdir(parents=True)
    write(folder / "states.parquet", {"state_id": identifiers(ids), "features": vectors(features)})
    before, after, action = transitions(rng, rows, program, place)
    hashes = []
    for number, part in enumerate(parts(rows)):
        one, other = features[before[part]], features[after[part]]
        reward = rewards(one, other)
        columns = {
            "state_before": identifiers(ids[before[part]]),
            "state_after": identifiers(ids[after[part]]),
            "features_before": vectors(one),
            "features_after": vectors(other),
            "action": pa.array(action[part]),
            "reward": pa.array(reward),
        }
        write(folder / "transitions" / f"part-{number:03}.parquet", columns)
        hashes.append(batch.row_hashes(batch.pack(one, other, action[part], reward)))
    np.save(folder / "hashes.npy", np.concatenate(hashes))
    about = {"rows": rows, "states": states, "seed": seed}
    (folder / "about.json").write_text(json.dumps(about))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    make(arguments.folder, arguments.rows, arguments.seed)


if __name__ == "__main__":
    main()
