"""What can go wrong, as exceptions. Each message says what happened, to what, and what to do next.

``exit_code`` is the exit code of the command-line program for the same error.

>>> try:
...     lake.sql("SELECT nothing FROM steps")
... except steplake.QueryError as error:
...     print(error)
line 1, column 8: there is no column `nothing`: there are `episode_id`, ...
>>> steplake.QueryError.exit_code
2
"""


class SteplakeError(Exception):
    """An operation failed; the base of all exceptions of this package."""

    exit_code = 1


class UsageError(SteplakeError, ValueError):
    """An argument is wrong."""

    exit_code = 2


class NoSuchRenderMode(UsageError, TypeError):
    """The environment does not have the render mode.

    It is a `TypeError` for callers that try one, as stable-baselines3 does, and then go on without.
    """


class QueryError(UsageError):
    """The text of a query is wrong; the message names the line and column."""


class NotInLake(UsageError, LookupError):
    """A question names something that the lake does not have."""


class MissingEdge(NotInLake):
    """The lake does not know what an action does in a state."""


class NoSuchState(NotInLake):
    """The lake does not have the state, or not its IR."""


class NoSuchSnapshot(NotInLake):
    """The lake does not have the snapshot, or not any more."""


class BadBenchmark(UsageError):
    """There is no such benchmark, or the compiler rejects its program."""


class LakeError(SteplakeError):
    """The lake cannot be used."""

    exit_code = 3


class NoSuchLake(LakeError, FileNotFoundError):
    """There is no lake at the path."""


class LakeBusy(LakeError):
    """Another process or another recording is writing to the lake, or maintains it."""


class LakeDamaged(LakeError):
    """A file of the lake is not what was written."""


class NotDeduplicated(LakeError):
    """The state transitions were not counted yet."""


class CheckFailed(SteplakeError):
    """A check found something."""

    exit_code = 4


class Offline(SteplakeError):
    """The network is needed, and what was wanted cannot be fetched."""

    exit_code = 5


class CompilerFailed(SteplakeError):
    """The compiler failed over a program before its first step, or over an observation."""


class ProgramFailed(SteplakeError):
    """The program of a state cannot be built or run here, or a run of it failed."""


class CompilerUnavailable(SteplakeError):
    """The environment's compiler cannot be started here."""


class MissingPackage(SteplakeError, ImportError):
    """A method needs a package that is not installed."""
