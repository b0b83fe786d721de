"""Makes the golden graphs beside this file with the original tools of ProGraML 0.3.2.

    pip download --no-deps programl==0.3.2 && unzip programl-0.3.2-*.whl
    apt-get download libtinfo5 && dpkg-deb --extract libtinfo5_*.deb tinfo
    export LD_LIBRARY_PATH=$PWD/tinfo/lib/x86_64-linux-gnu
    python golden.py programl-0.3.2.data/purelib/programl/bin

The tools read the text of LLVM 10: that of `NAME.10.ll`, or `NAME.ll` where both texts are one.
They number the nodes differently each time, so two runs give files that differ and mean the same.
"""

import json
import subprocess
import sys
from pathlib import Path

tools = Path(sys.argv[1])
here = Path(__file__).parent
for ours in sorted(path for path in here.glob("*.ll") if not path.name.endswith(".10.ll")):
    old = here / f"{ours.stem}.10.ll"
    text = (old if old.exists() else ours).read_bytes()
    made = subprocess.run([tools / "llvm2graph-10"], input=text, check=True, capture_output=True)
    made = subprocess.run([tools / "graph2json"], input=made.stdout, check=True, capture_output=True)
    graph = json.loads(made.stdout)
    nodes = [[node[key] for key in ("type", "text", "function", "block")] for node in graph["nodes"]]
    edges = [
        [edge[key] for key in ("flow", "position", "source", "target")] for edge in graph["links"]
    ]
    golden = json.dumps({"nodes": nodes, "edges": edges}, separators=(",", ":"))
    (here / f"{ours.stem}.json").write_text(golden.replace('"edges"', '\n"edges"') + "\n")
