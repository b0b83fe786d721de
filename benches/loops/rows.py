"""Measures PyTorch: `rows.py KIND ROWS COLUMNS THREADS ROUNDS`. Prints the seconds of the best round."""

import sys
import time

import torch

kind, (rows, columns, threads, rounds) = sys.argv[1], map(int, sys.argv[2:])
torch.set_num_threads(threads)
matrix = torch.rand(rows, columns) * 2 - 1
scale, shift = torch.rand(columns), torch.rand(columns)


def run():
    """Runs the operation once."""
    if kind == "softmax":
        return torch.softmax(matrix, dim=1)
    return torch.nn.functional.layer_norm(matrix, (columns,), scale, shift)


best = float("inf")
with torch.inference_mode():
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(20):
            run()
        best = min(best, (time.perf_counter() - begin) / 20)
print(f"{best:.9f}\ntorch {torch.__version__}")
