"""Switch otelhooks on in a Python that ``otelhooks run`` started, or in a Python child of it.

Python imports the first ``sitecustomize`` on its path when it starts; ``otelhooks run`` puts this
folder first. An existing one still runs, before ours. A Python of another environment may read this
file, so it needs nothing but the standard library until it imports otelhooks.

If otelhooks cannot start, the program does not run: a requested policy must not be missing silently
(decision code, fails closed). Only a child that is a Python of another environment, without
otelhooks, continues, with a warning.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import traceback

_EXIT_USAGE = 2


def _run_the_users_own(path: list[str]) -> None:
    """Run the sitecustomize that this one hides; report an error in it, as Python does."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except Exception:
        sys.stderr.write("Error in sitecustomize, otelhooks continues without it:\n")
        traceback.print_exc()


def _stop(problem: str) -> None:
    sys.stderr.write(problem + "\n")
    sys.stderr.flush()
    os._exit(_EXIT_USAGE)  # an exception here would be printed and then ignored


def _switch_on() -> None:
    if importlib.util.find_spec("otelhooks") is None:
        problem = f"otelhooks is not installed for `{sys.executable}`\nhint: install it there"
        if os.environ.get("OTELHOOKS_RUN_PID") in (str(os.getpid()), str(os.getppid())):
            _stop("error: " + problem)
        sys.stderr.write("otelhooks: warning: this process is not guarded: " + problem + "\n")
        return
    try:
        import otelhooks

        otelhooks.instrument().set_global_providers()
    except BaseException as error:
        if type(error).__module__ != "otelhooks.errors":
            traceback.print_exc()
        _stop(f"error: otelhooks could not start, so the program does not run: {error}")


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]
_run_the_users_own(sys.path)
_switch_on()
