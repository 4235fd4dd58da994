"""Runs a script or a function on a simulated device in a child process: what kills it kills no more.

In: what to run, and the device's arguments. Out: exit status, output, and a result as JSON; never a
pickle. The child's side is `python -m autoplace.sim.isolated`.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoplace.errors import UnknownSimulationError
from autoplace.sim import timing_profiles
from autoplace.sim.kernel_tables import NEWEST
from autoplace.sim.simulated_device import SCALE


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedRun:
    """How a child process ended.

    Attributes:
        exit_status: 0 for success, negative for the signal that killed it, None where it ran past
            its time and was killed.
        stdout: All that it printed.
        stderr: All that it wrote there, tracebacks and lines of the device included.
        result: What the function returned, as JSON has it (arrays are lists); None for a script, or
            where the function did not return.
    """

    exit_status: int | None
    stdout: str
    stderr: str
    result: Any

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.exit_status == 0


def run(
    what: str | Path | Callable[..., Any],
    *arguments: Any,
    kernels: str = NEWEST,
    profile: str = timing_profiles.DEFAULT,
    macos: str | None = None,
    scale: str = SCALE,
    faults: Sequence[str] = (),
    timeout_s: float = 600.0,
    environment: Mapping[str, str] | None = None,
) -> IsolatedRun:
    """Run a script, or call a function, in a process of its own that has the simulated device.

    Args:
        what: Path of a script; or a function at the top of a module, which the child imports anew.
        arguments: Of the function, as JSON can write them; of a script, its command line.
        kernels: As `start`, as are the next four.
        profile: As `start`.
        macos: As `start`.
        scale: As `start`.
        faults: As `start`.
        timeout_s: Seconds after which the child is killed.
        environment: Variables that the child has besides this process'.

    Returns:
        How it ended. An error of the child, a crash or a hang raises nothing here.

    Raises:
        UnknownSimulationError: AP106, for a function that a child cannot import, or arguments that
            JSON cannot write.
        FileNotFoundError: For a script that there is not.

    Example:
        >>> from autoplace import sim
        >>> done = sim.run("train.py", faults=["crash"])  # doctest: +SKIP
        >>> done.exit_status  # doctest: +SKIP
        -6
    """
    with tempfile.TemporaryDirectory(prefix="autoplace-sim-") as folder:
        order, result = Path(folder, "order.json"), Path(folder, "result.json")
        device = {
            "kernels": kernels,
            "profile": profile,
            "macos": macos,
            "scale": scale,
            "faults": list(faults),
        }
        target = _target(what, arguments)
        order.write_text(
            json.dumps({"device": device, "path": sys.path, "result": str(result), **target}),
            "utf-8",
        )
        command = [sys.executable, "-m", "autoplace.sim.isolated", str(order)]
        env = {**os.environ, **(environment or {})}
        # The child must find this very package, whichever way the parent found it.
        root = str(Path(__file__).resolve().parents[2])
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, env.get("PYTHONPATH", "")]))
        status, stdout, stderr = _watched(command, env, timeout_s)
        returned = json.loads(result.read_text("utf-8")) if result.exists() else None
    return IsolatedRun(exit_status=status, stdout=stdout, stderr=stderr, result=returned)


def _watched(
    command: list[str], env: Mapping[str, str], timeout_s: float
) -> tuple[int | None, str, str]:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=env,
    )
    with child:
        try:
            stdout, stderr = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            stdout, stderr = child.communicate()
            return None, stdout, stderr
        except BaseException:  # Ctrl-C: leave no child behind
            child.kill()
            raise
        return child.returncode, stdout, stderr


def _target(what: str | Path | Callable[..., Any], arguments: Sequence[Any]) -> dict[str, Any]:
    """What the child is to run, as its order has it."""
    if isinstance(what, (str, Path)):
        if not Path(what).is_file():
            raise FileNotFoundError(f"there is no script at {what}")
        return {"script": str(Path(what).resolve()), "arguments": [str(a) for a in arguments]}
    module, name = getattr(what, "__module__", None), getattr(what, "__qualname__", "")
    if not module or not name.isidentifier():
        raise UnknownSimulationError(
            "a function that is not at the top of a module cannot be run in a child process",
            expected="a function defined with def at the top of a module, or a script's path",
            received=repr(what),
            fix="move the function to the top of its file",
        )
    try:
        json.dumps(arguments)
    except (TypeError, ValueError) as error:
        raise UnknownSimulationError(
            "an argument cannot be handed to a child process",
            expected="numbers, strings, lists and dicts, as JSON has them",
            received=str(error),
            fix="make large data inside the function, or hand over a file's path",
        ) from None
    file = getattr(sys.modules.get(module), "__file__", None) if module == "__main__" else None
    return {"module": module, "file": file, "function": name, "arguments": list(arguments)}


def _main(order_file: str) -> None:
    """The child: start the device, run what is asked for, leave the result."""
    order = json.loads(Path(order_file).read_text("utf-8"))
    sys.path[:] = [*order["path"], *(p for p in sys.path if p not in order["path"])]
    from autoplace.sim.simulated_device import start

    start(**order["device"])
    if "script" in order:
        sys.argv = [order["script"], *order["arguments"]]
        sys.path.insert(0, str(Path(order["script"]).parent))
        runpy.run_path(order["script"], run_name="__main__")
        return
    if order["file"]:
        function = runpy.run_path(order["file"], run_name="__autoplace_sim__")[order["function"]]
    else:
        function = getattr(importlib.import_module(order["module"]), order["function"])
    text = json.dumps(function(*order["arguments"]), default=_as_json)
    Path(order["result"]).write_text(text, "utf-8")


def _as_json(value: Any) -> Any:
    """Arrays and tensors as lists, their scalars as numbers."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"the function returned {type(value).__name__}, which JSON cannot write")
    return array.tolist()


if __name__ == "__main__":
    _main(sys.argv[1])
