"""Types what pages say and compares what comes back.

The pages are Markdown. Of the fenced blocks of a page these are run, in order, in one empty folder:

- `console`: lines after `$ ` go to one bash that stays open; the lines below are what they print. A line that
  ends in a backslash goes on.
- `steplake`: a session of `steplake sql` on a terminal. Lines after a prompt are typed; the lines below are
  what appears.
- `python`: goes to one Python that stays open. What it prints stands in the `text` block that follows.

Figures of time and sizes of files differ from run to run: `0.012 s` is compared as a time, whatever the digits.
The folder is shown as `/data`.

    walkthrough.py PAGE…           exits with 1 and a diff where an answer is another one
    walkthrough.py PAGE… --write   writes the answers into the pages
"""

import argparse
import contextlib
import difflib
import gc
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pexpect

FENCE = re.compile(r"^```(\w*)$")
# The prompt of the shell, and of a statement that goes on.
PROMPT = re.compile(r"^(\w[\w.-]*(?:@\d+)?[>] |\s+[-.·]+> ?)")
TIME = re.compile(r"\b\d+(?:\.\d+)?\s?(?:ns|µs|ms|s)\b")
SIZE = re.compile(r"\b\d+(?:\.\d+)? (?:B|KiB|MiB|GiB)\b")
SECONDS_MAX = 60
SHOWN_FOLDER = "/data"


def comparable(lines):
    """Lines without what differs from run to run."""
    return [SIZE.sub("<size>", TIME.sub("<time>", line)).rstrip() for line in lines]


def blocks(page):
    """The fenced blocks of a page: (kind, index of the first line inside, index of the closing fence)."""
    found, begin, kind = [], None, ""
    for index, line in enumerate(page):
        fence = FENCE.match(line)
        if begin is None and fence:
            begin, kind = index + 1, fence.group(1)
        elif begin is not None and line == "```":
            found.append((kind, begin, index))
            begin = None
    if begin is not None:
        raise SystemExit(f"line {begin}: this block has no end")
    return found


class Bash:
    """A bash that stays open, so that what one block exports is there in the next."""

    MARK = "--- end of the answer ---"

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )

    def answer(self, command):
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\necho; echo '{self.MARK}'\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.rstrip("\n") == self.MARK:
                break
            lines.append(line.rstrip("\n").replace(self.folder, SHOWN_FOLDER))
        else:
            raise SystemExit(f"bash ended over: {command}\n" + "\n".join(lines))
        return drop_last_empty(lines)

    def close(self):
        self.process.stdin.write("jobs -p | xargs --no-run-if-empty kill\nexit\n")
        self.process.stdin.close()
        self.process.wait(timeout=SECONDS_MAX)


def drop_last_empty(lines):
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def console(bash, lines):
    """The block as it should be."""
    out, index = [], 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if not line.startswith("$ "):
            continue
        command = [line]
        while command[-1].endswith("\\") and index < len(lines):
            command.append(lines[index])
            index += 1
        out += command + bash.answer("\n".join(command)[2:])
    return out


def shell(folder, lines):
    """The block as it should be: a session on a terminal."""
    typed = [line for line in lines if PROMPT.match(line)]
    environment = dict(os.environ, TERM="dumb", PAGER="cat", COLUMNS="110")
    child = pexpect.spawn(
        "steplake", ["sql"], cwd=folder, env=environment, encoding="utf-8",
        dimensions=(60, 110), timeout=SECONDS_MAX, echo=False,
    )
    prompt = r"(?m)^(?:\w[\w.-]*(?:@\d+)?> |\s+[-.·]+> ?)"
    out = []
    child.expect(prompt)
    for line in typed:
        shown = child.after
        text = PROMPT.sub("", line)
        out.append(shown.lstrip("\r\n") + text)
        child.sendline(text)
        if child.expect([prompt, pexpect.EOF]) == 0 or child.before:
            out += drop_last_empty([part.rstrip() for part in child.before.splitlines()])
    child.close()
    return out


class Python:
    """A Python that stays open."""

    def __init__(self):
        self.names = {"__name__": "__walkthrough__"}

    def answer(self, lines, first):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile("\n" * (first - 1) + "\n".join(lines), "the page", "exec")
            exec(code, self.names)
        return [line.rstrip() for line in printed.getvalue().rstrip().splitlines()]

    def close(self):
        """Lets go of all names: connections end before what they are to."""
        self.names.clear()
        gc.collect()


def run(page):
    """The page with the answers of today."""
    lines, result, done = page, [], 0
    found = blocks(lines)
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        os.chdir(folder)
        bash, python, printed = Bash(folder), Python(), None
        try:
            for kind, begin, end in found:
                body = lines[begin:end]
                if kind == "console":
                    body = console(bash, body)
                elif kind == "steplake":
                    body = shell(folder, body)
                elif kind == "python":
                    printed = python.answer(body, begin + 1)
                elif kind == "text" and printed is not None:
                    body, printed = printed, None
                result += lines[done:begin] + body
                done = end
        finally:
            os.chdir("/")
            python.close()
            bash.close()
    return result + lines[done:]


def keep_equal(before, after):
    """`after`, with the lines of `before` where nothing but times and sizes differ."""
    matcher = difflib.SequenceMatcher(None, comparable(before), comparable(after), autojunk=False)
    kept = []
    for tag, begin, end, first, last in matcher.get_opcodes():
        kept += before[begin:end] if tag == "equal" else after[first:last]
    return kept


def follow(path, write):
    """Runs a page; what is wrong with it, or nothing."""
    page = path.read_text().splitlines()
    try:
        answered = keep_equal(page, run(page))
    except Exception:
        return f"{traceback.format_exc()}{path.name}: a block could not be run"
    if answered == page:
        return ""
    if write:
        path.write_text("\n".join(answered) + "\n")
        return ""
    return "\n".join(difflib.unified_diff(page, answered, path.name, "what came back", lineterm=""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=Path, nargs="+", metavar="PAGE")
    parser.add_argument("--write", action="store_true", help="write the answers into the pages")
    arguments = parser.parse_args()
    pages = [page.resolve() for page in arguments.pages]
    if problems := [problem for page in pages if (problem := follow(page, arguments.write))]:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
