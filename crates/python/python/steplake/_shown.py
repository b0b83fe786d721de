"""What is shown of an environment: itself, its episode as a command, and its program as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steplake.errors import NoSuchRenderMode
from steplake.spaces import opt_command

if TYPE_CHECKING:
    from steplake.env import CompilerEnv

#: The observation space of environments that write a state as a command themselves.
_COMMAND_LINE = "command_line"


def demand_render_mode(mode: str | None) -> None:
    """Refuse a render mode that no environment has.

    Raises
    ------
    NoSuchRenderMode
        If there is no such one.
    """
    if mode not in (None, "ansi"):
        raise NoSuchRenderMode(f"there is no render mode {mode!r}: write 'ansi', or nothing")


def about(env: CompilerEnv) -> str:
    """Return what an environment is, and where."""
    benchmark = env.benchmark
    facts = {
        "benchmark": None if benchmark is None else benchmark.uri,
        "observation_space": env.observation_space_name,
        "reward_space": env.reward_space_name,
        "action_space": env._action_space_name,
        "actions": env.actions,
    }
    listed = ", ".join(f"{name}={value!r}" for name, value in facts.items())
    return f"{type(env).__name__}({env._core.name!r}, {listed})"


def command_of(env: CompilerEnv) -> str:
    """Return an episode as a command, or as the names of its actions."""
    if env._core.recorded_name == "llvm-v0":
        return opt_command(env.action_space, env.actions)
    if _COMMAND_LINE in env._observations:
        return str(env.observation[_COMMAND_LINE])
    return env.action_space.to_string(env.actions)


def rendered(env: CompilerEnv) -> str | None:
    """Return the program of an environment as text, in the render mode ``ansi``."""
    if env.render_mode != "ansi":
        return None
    state = env._spec_of(env._core.state_space)
    return env._session.text(env._session.observe(state.place))
