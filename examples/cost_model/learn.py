"""How the network learns: all targets at once, each in units of the mean predictor's error."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from batching import collate
from examples import Example, Examples, Predictions
from graphs import batches
from network import CostModel, Outputs
from plan import Learning


class Targets(NamedTuple):
    """The targets of a batch, with the pairs that are asked for."""

    state: torch.Tensor
    action: torch.Tensor
    outputs: Outputs


@dataclass(frozen=True)
class Scales:
    """The mean absolute error of the mean predictor on the training states, for each target."""

    reward: float
    best: float


def scales_of(train: Sequence[Example]) -> Scales:
    """Measure the scale of each target."""
    rewards = np.concatenate([one.reward for one in train])
    best = np.array([one.best for one in train])
    return Scales(mean_deviation(rewards), mean_deviation(best))


def mean_deviation(values: np.ndarray) -> float:
    """Return the mean absolute deviation from the mean."""
    return max(float(np.abs(values - values.mean()).mean()), 1e-6)


def targets_of(some: Sequence[Example]) -> Targets:
    """Return the targets of states as tensors."""
    pairs = torch.tensor([len(one.action) for one in some])
    return Targets(
        torch.repeat_interleave(torch.arange(len(some)), pairs),
        torch.from_numpy(np.concatenate([one.action for one in some])),
        Outputs(
            torch.tensor([float(one.count) for one in some]),
            torch.from_numpy(np.concatenate([one.reward for one in some])),
            torch.tensor([float(one.best) for one in some]),
        ),
    )


def loss_of(outputs: Outputs, wanted: Outputs, scales: Scales) -> torch.Tensor:
    """Return the sum of the three measures: absolute errors, as they are judged."""
    return (
        ((outputs.count - wanted.count).abs() / wanted.count).mean()
        + (outputs.reward - wanted.reward).abs().mean() / scales.reward
        + (outputs.best - wanted.best).abs().mean() / scales.best
    )


def train(
    examples: Sequence[Example], texts: int, actions: int, how: Learning, seed: int
) -> tuple[CostModel, list[float]]:
    """Train a network, and return it with the mean loss of each epoch."""
    torch.manual_seed(seed)
    model = CostModel(
        texts,
        actions,
        width=how.width,
        graph_width=how.graph_width,
        steps=how.steps,
        dropout=how.dropout,
    )
    sizes = [len(one.graph.node_type) for one in examples]
    dice, scales = np.random.default_rng(seed), scales_of(examples)
    rounds = how.epochs * (len(batches(sizes, how.batch_nodes, range(len(sizes)))) + 1)
    optimiser = torch.optim.AdamW(model.parameters(), how.rate, weight_decay=how.decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / 20, 0.02 + max(0.0, 1 - step / rounds))
    )
    losses = []
    for _ in range(how.epochs):
        epoch = []
        for places in batches(sizes, how.batch_nodes, dice.permutation(len(sizes))):
            some = [examples[place] for place in places]
            epoch.append(one_step(model, optimiser, some, scales))
            schedule.step()
        losses.append(float(np.mean(epoch)))
    return model, losses


def one_step(
    model: CostModel, optimiser: torch.optim.Optimizer, some: Sequence[Example], scales: Scales
) -> float:
    """Take a gradient step on a batch of states, and return the loss."""
    batch, wanted = collate([one.graph for one in some]), targets_of(some)
    optimiser.zero_grad()
    loss = loss_of(model(batch, wanted.state, wanted.action), wanted.outputs, scales)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()


def predict(model: CostModel, examples: Sequence[Example], batch_nodes: int) -> Predictions:
    """Return what a network says of states and their recorded actions."""
    model.eval()
    sizes = [len(one.graph.node_type) for one in examples]
    said: list[Outputs] = []
    with torch.no_grad():
        for places in batches(sizes, batch_nodes, range(len(sizes))):
            some = [examples[place] for place in places]
            batch = collate([one.graph for one in some])
            wanted = targets_of(some)
            said.append(model(batch, wanted.state, wanted.action))
    return Predictions(*(torch.cat(part).numpy() for part in zip(*said, strict=True)))


class Trained(NamedTuple):
    """What came of a network: what it says of the held-out states, and how its training went.

    `losses` are those of each epoch, `seconds` the time on the clock, `cpu_seconds` that of the
    processor.
    """

    said: Predictions
    losses: list[float]
    seconds: float
    cpu_seconds: float


def train_and_predict(packed: bytes, how: Learning, seed: int) -> Trained:
    """Train one network, and let it say what it thinks of the held-out states.

    It runs in a process of its own, in one thread, so that equal seeds give equal networks.
    """
    torch.set_num_threads(1)
    examples: Examples = pickle.loads(packed)
    begin, cpu_begin = time.monotonic(), time.process_time()
    model, losses = train(examples.train, examples.vocabulary_size, examples.actions, how, seed)
    seconds, cpu_seconds = time.monotonic() - begin, time.process_time() - cpu_begin
    said = predict(model, examples.test, how.batch_nodes)
    return Trained(said, losses, round(seconds, 1), round(cpu_seconds, 1))


def train_networks(
    examples: Examples, ways: dict[str, Learning], seeds: list[int], jobs: int
) -> dict[str, list[Trained]]:
    """Train a network in each way, for each seed; several at once."""
    packed = pickle.dumps(examples)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running = {
            name: [pool.submit(train_and_predict, packed, how, seed) for seed in seeds]
            for name, how in ways.items()
        }
        return {name: [one.result() for one in some] for name, some in running.items()}
