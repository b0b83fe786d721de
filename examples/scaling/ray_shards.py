"""A hundred shards on a Ray cluster: `python ray_shards.py s3://bucket/run 100`.

Every node has steplake, steplake-remote and this folder. If a node is lost, its shard starts again elsewhere
and continues from the newest version that it published.
"""

import os
import subprocess
import sys
from pathlib import Path

import ray

CORES = 16
ARGUMENTS = f"--benchmark generator://csmith-v0/0..9999 --episodes 200000 --ir keyframes=16 --jobs {CORES}"
SHARD = Path(__file__).with_name("shard.sh").resolve()


@ray.remote(num_cpus=CORES, max_retries=20, retry_exceptions=True)
def play(place: str, index: int, count: int) -> int:
    environment = {**os.environ, "PLACE": place, "ARGUMENTS": ARGUMENTS}
    subprocess.run(["bash", str(SHARD), str(index), str(count)], check=True, env=environment)
    return index


def main() -> None:
    place, count = sys.argv[1], int(sys.argv[2])
    ray.init()
    waiting = [play.remote(place, index, count) for index in range(count)]
    while waiting:
        done, waiting = ray.wait(waiting)
        print(f"shard {ray.get(done[0])} is done, {len(waiting)} are not")
    merge = SHARD.with_name("merge.sh")
    subprocess.run(["bash", str(merge), str(count)], check=True, env={**os.environ, "PLACE": place})


if __name__ == "__main__":
    main()
