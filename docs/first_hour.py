# %% [markdown]
# # A first hour with steplake
#
# A compiler optimises a program in passes, and somebody chose their order long ago. In this hour
# you take the choice into your own hands: you step LLVM's passes over small C programs, record what
# each does, ask the record questions in SQL, look at two pictures, and train a first model.
#
# You need to know Python, and that a compiler works on an intermediate representation (IR). The
# file is a notebook in percent format: Jupyter (with jupytext), VS Code and Spyder run it cell by
# cell, and `python first_hour.py` runs it whole, in less than a minute.
#
# ## Install
#
# `make wheel` builds the package, which brings the compiler along:
#
# ```sh
# pip install target/wheels/steplake-*.whl matplotlib pandas polars pyarrow
# pip install torch  # for the last section; it is large, and the rest does without
# ```

# %%
import os
import sys
from pathlib import Path

import matplotlib

if sys.platform == "linux" and not (os.environ.get("DISPLAY") or "ipykernel" in sys.modules):
    matplotlib.use("agg")  # no display: the pictures go to files alone

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import steplake

# All files of this hour. Delete the folder to begin anew; otherwise further runs add to its lake.
folder = Path("first_hour")
folder.mkdir(exist_ok=True)
lake_path = folder / "lake"

# %% [markdown]
# ## Make an environment
#
# An environment is a compiler with a program in it, in the interface of Gymnasium. An *action* is
# one pass. An *observation* describes the program as it is now. The *reward* of a step is what it
# saved, here in LLVM instructions.

# %%
env = steplake.make(
    "llvm-v0",
    benchmark="benchmark://steplake-v0/huffman",
    observation_space="InstCount",
    reward_space="IrInstructionCount",
)
observation, info = env.reset(seed=1)
print(env.compiler)
print(env.action_space, "such as", ", ".join(env.action_space.names[21:24]))
print("a state is named by its content:", info["state_id"])
for level in ["O0", "O3", "Oz"]:
    print(f"instructions with -{level}:", env.observation[f"IrInstructionCount{level}"])

# %% [markdown]
# ## Step
#
# `mem2reg` moves local variables from memory into registers. Clang's unoptimised output keeps them
# all in memory, so this first step pays.

# %%
observation, reward, terminated, truncated, info = env.step(env.action_space["mem2reg"])
print(f"mem2reg saves {reward:.0f} instructions")
observation, reward, terminated, truncated, info = env.step(env.action_space["mem2reg"])
print(f"a second one saves {reward:.0f}; it had no effect: {info['action_had_no_effect']}")

# %% [markdown]
# ## Record: random passes, then greedy ones
#
# Inside `steplake.record`, every step goes to a *lake*, a folder on disk. First five episodes with
# passes drawn at random.

# %%
STEPS = 12


def random_episode(env):
    """Apply passes at random; return the instruction count after each."""
    env.reset()
    counts = [env.observation["IrInstructionCount"]]
    for _ in range(STEPS):
        _, _, terminated, _, _ = env.step(env.action_space.sample())
        if terminated:  # the compiler crashed, which is part of the data
            break
        counts.append(env.observation["IrInstructionCount"])
    return counts


env.action_space.seed(1)
with steplake.record(lake_path, env, policy="random", seed=1):
    random_counts = [random_episode(env) for _ in range(5)]
print("instructions in the end:", [counts[-1] for counts in random_counts])

# %% [markdown]
# Now greedily: try every pass in the present state, and take the best. `env.fork()` gives a second
# environment in the same state, so a trial costs one step and leaves no trace in `env`. The trials
# are recorded too: the lake learns all neighbours of every state on the way.


# %%
def gain(env, action):
    """Return what an action would save."""
    fork = env.fork()
    _, reward, _, _, _ = fork.step(action)
    fork.close()
    return reward


greedy_names, greedy_counts = [], []
with steplake.record(lake_path, env, policy="greedy"):
    env.reset()
    greedy_counts.append(env.observation["IrInstructionCount"])
    while len(greedy_names) < STEPS:
        gains = [gain(env, action) for action in range(env.action_space.n)]
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            break
        env.step(best)
        greedy_names.append(env.action_space.names[best])
        greedy_counts.append(env.observation["IrInstructionCount"])
    baselines = {one: env.observation[f"IrInstructionCount{one}"] for one in ["O3", "Oz"]}
    command = env.commandline()
print(" → ".join(greedy_names))
print(f"{greedy_counts[0]} → {greedy_counts[-1]} instructions; -Oz has {baselines['Oz']}")
print("the same outside of steplake:", command)

# %% [markdown]
# ## A picture of five walks and a climb
#
# Most random passes change nothing, because what they look for is not there yet. A few greedy steps
# beat LLVM's own pipelines for small code, on this program and this measure.

# %%
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 11})
figure, axes = plt.subplots(figsize=(9, 5.2), layout="constrained")
for number, counts in enumerate(random_counts):
    label = "five random episodes" if number == 0 else None
    axes.plot(counts, color="#b0b7c3", linewidth=1.5, label=label)
axes.plot(greedy_counts, color="#2563a8", linewidth=2.5, marker="o", label="greedy")
for step, name in enumerate(greedy_names, start=1):
    below = {"xytext": (-2, -7), "textcoords": "offset points", "va": "top", "rotation": -55}
    axes.annotate(name, (step, greedy_counts[step]), color="#2563a8", fontsize=10, **below)
for level, style in [("O3", ":"), ("Oz", "--")]:
    axes.axhline(baselines[level], color="#c2542d", linestyle=style, label=f"clang's -{level}")
axes.set(
    title="Size of huffman.c while passes are applied",
    xlabel="passes applied",
    ylabel="LLVM instructions",
    xlim=(0, STEPS),
    ylim=(0, None),
)
figure.legend(frameon=False, loc="outside lower center", ncols=4)
figure.savefig(folder / "steps.png", dpi=150)
plt.show()

# %% [markdown]
# ## Record a neighbourhood of many programs
#
# `steplake.generate` plays whole runs on all cores. The policy `explore` prefers actions that were
# not tried yet where it is. Equal arguments give equal data.

# %%
run = steplake.generate(
    lake_path,
    "benchmark://steplake-v0/*",
    policy="explore",
    episodes=150,
    episode_length=25,
    seed=1,
)
print(f"{run.steps} steps of {run.episodes} episodes, {run.failures} failures of the compiler")

# %% [markdown]
# ## Dedup
#
# Steps that took the same action in the same state become one *state transition*. Together they are
# a graph of programs, whose edges are passes. A conflict would be a pass with two results.

# %%
lake = steplake.open(lake_path)
report = lake.dedup()
print(f"{report.steps} steps, {report.transitions} transitions, {report.conflicts} conflicts")
for table in lake.tables:
    if table.name in ("steps", "state_transitions", "observations", "benchmarks"):
        print(f"{table.name:18} {table.rows:6} rows  {table.description}")

# %% [markdown]
# ## Ask
#
# What is the best pass on the untouched program? The question is plain SQL; `action_name` gives the
# name of an action's number.

# %%
first_steps = """
    SELECT action_name(action) AS pass, reward_IrInstructionCount AS saved
    FROM state_transitions JOIN benchmarks ON state_id = initial_state_id
    WHERE benchmark_uri = ? ORDER BY saved DESC, pass LIMIT 5
"""
print(lake.sql(first_steps, ["benchmark://steplake-v0/huffman"]))

# %% [markdown]
# Which passes never changed anything, of those tried at least forty times? Usual questions have
# names: `lake.queries()` lists them.

# %%
print(lake.query("never_changed", tries=40))

# %% [markdown]
# How small does each program get? `best_sequences` searches the graph, so a sequence may begin in
# one episode and go on in another. An answer becomes a polars or pandas frame, or an Arrow table,
# without a detour.

# %%
best = lake.sql("""
    SELECT split_part(benchmark_uri, '/', -1) AS program, cost AS untouched,
           IrInstructionCountOz AS oz, best_cost AS best, steps AS passes
    FROM best_sequences('IrInstructionCount') JOIN benchmarks USING (benchmark_uri)
""").pl()
best = best.with_columns(of_oz=(pl.col("best") / pl.col("oz")).round(2)).sort("of_oz")
print(best.head(8))
print(f"smaller than with -Oz: {(best['best'] < best['oz']).sum()} of {best.height} programs")

# %% [markdown]
# The same in pandas: `answer.df()`. And without steplake: the tables are Parquet files, which any
# tool reads.

# %%
print(lake.query("mean_reward", reward="IrInstructionCountNorm", tries=20).df().head(3))
changing = pl.scan_parquet(lake_path / "current" / "state_transitions" / "*.parquet").select(
    (pl.col("state_id") != pl.col("next_state_id")).mean()
)
print(f"transitions that change the program: {changing.collect().item():.0%}")

# %% [markdown]
# ## A picture of what passes do
#
# A mean hides that most passes do much here and nothing there. So draw the whole distribution, for
# the ten passes that save most and the five that cost most.

# %%
effects = lake.sql("""
    SELECT action_name(action) AS pass,
           100 * reward_IrInstructionCount / IrInstructionCount AS saved
    FROM state_transitions JOIN observations USING (state_id)
    WHERE reward_IrInstructionCount IS NOT NULL
""").pl()
order = effects.group_by("pass").agg(pl.len().alias("n"), pl.col("saved").mean())
order = order.filter(pl.col("n") >= 20).sort("saved", "pass", descending=[True, False])["pass"]
shown = [*order.head(10), *order.tail(5)]
values = [effects.filter(pl.col("pass") == name)["saved"].to_list() for name in shown]

figure, axes = plt.subplots(figsize=(9, 6.2), layout="constrained")
boxes = axes.boxplot(
    values,
    orientation="horizontal",
    patch_artist=True,
    widths=0.6,
    flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "#8a93a3"},
    medianprops={"color": "#1b2735", "linewidth": 1.5},
)
for place, box in enumerate(boxes["boxes"]):
    box.set(facecolor="#7fb2d9" if place < 10 else "#e3a189", edgecolor="#4a5568", linewidth=0.8)
axes.axvline(0, color="#4a5568", linewidth=0.8)
axes.set_yticks(range(1, len(shown) + 1), [f"{a} ({len(b)})" for a, b in zip(shown, values)])
axes.invert_yaxis()
axes.xaxis.set_major_formatter("{x:g}%")
axes.set(
    title="What one pass saves, over all states in which it was tried",
    xlabel="instructions saved, in percent of the program (below zero it grew)",
    ylabel="pass, and the number of states",
)
figure.savefig(folder / "passes.png", dpi=150)
plt.show()

# %% [markdown]
# ## Load, and learn
#
# Can a model tell from the counts of instructions what a pass will save? `answer.torch()` gives a
# tensor for each column. The eight programs whose names come first are kept from the training, so
# the test is about programs that the model never saw.

# %%
examples = lake.sql("""
    SELECT InstCount, action, 100 * reward_IrInstructionCount / IrInstructionCount AS saved,
           benchmark_uri < 'benchmark://steplake-v0/g' AS is_test
    FROM state_transitions
    JOIN observations USING (state_id)
    JOIN episodes ON first_episode_id = episode_id
    WHERE reward_IrInstructionCount IS NOT NULL
    ORDER BY state_id, action
""")


def learn(examples, actions):
    """Fit a small network, and print its error on unseen programs beside that of a mean."""
    import torch

    torch.manual_seed(1)
    columns = examples.torch()
    features = columns["InstCount"].float().log1p()
    action, test = columns["action"].long(), columns["is_test"]
    saved = columns["saved"].float().clamp(-20, 40)
    model = torch.nn.Sequential(
        torch.nn.Linear(features.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, actions)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)

    def error():
        return (model(features).gather(1, action[:, None]).squeeze(1) - saved).abs()

    for _ in range(150):
        optimizer.zero_grad()
        error()[~test].mean().backward()
        optimizer.step()
    # What one knows without a look at the program.
    medians = torch.stack([saved[~test & (action == one)].median() for one in range(actions)])
    print(f"{len(saved)} examples, {int(test.sum())} of them of unseen programs")
    print(f"mean error of the model:            {error()[test].mean():.2f} percent points")
    guess = (medians[action] - saved)[test].abs().mean()
    print(f"mean error of each pass's median:   {guess:.2f} percent points")


try:
    learn(examples, env.action_space.n)
except ModuleNotFoundError:
    print("the last section needs PyTorch: pip install torch")

# %%
lake.close()
env.close()
print("pictures and lake:", folder.resolve())

# %% [markdown]
# ## Where to go next
#
# - `PYTHON.md`: the whole package, also several environments at once, and wrappers
# - `QUERYING.md`: more questions, and the shell `steplake sql`
# - `LOADING.md`: DuckDB, Spark and others on the same files
# - `RECORDING.md`: your own programs, and millions of steps
