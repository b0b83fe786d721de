"""What the tests share: a running server, and queries of a lake."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

STEPLAKE = os.environ["STEPLAKE"]
PROGRAMS = Path(os.environ["COMPILER_GYM_SITE_DATA"]) / "llvm-v0/benchmark/cbench-v1/contents/cBench-v1"
HUFFMAN = "cbench-v1/huffman"


class Server:
    """A server of sessions on a free port."""

    def __init__(self, *arguments):
        command = [STEPLAKE, "serve", "--compiler-gym", "--listen", "127.0.0.1:0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        found = re.search(r"grpc://127\.0\.0\.1:(\d+)", said)
        assert found, said + self.process.stderr.read()
        self.address = f"localhost:{found.group(1)}"
        self.said = said

    def stop(self, number=signal.SIGTERM):
        """Ends the server, and returns its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self.process.stderr.close()
        return code

    def workers(self):
        """The processes of the compilers."""
        path = f"/proc/{self.process.pid}/task"
        children = [Path(path, task, "children") for task in os.listdir(path)]
        return [int(child) for file in children for child in file.read_text().split()]


def leave(env):
    """Forgets an environment whose server is gone, without its attempts to end the session there."""
    env._session_id = None
    env.close()


def query(lake, sql):
    """The rows of a lake's answer."""
    command = [STEPLAKE, "--lake", str(lake), "--quiet", "sql", "--format", "json", sql]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = done.stdout.strip()
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def dedup(lake):
    done = subprocess.run([STEPLAKE, "--lake", str(lake), "--quiet", "dedup"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
