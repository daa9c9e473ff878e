"""Python imports this when it starts, because `cloudretry run` puts this folder first on PYTHONPATH.

Any Python can read it, also one that is too old for cloudretry. It makes the package `cloudretry` importable, nothing beside
it, and gives way to the `sitecustomize` that the program has by itself. A fault is one line on stderr: the program runs on.
"""
# ruff: noqa: INP001 - no package: Python looks for it by this name

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes its time to import
_home = os.path.dirname(os.path.dirname(os.path.dirname(_here)))  # noqa: PTH120 - as above
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _here]  # noqa: PTH100 - as above

try:
    if sys.version_info < (3, 10):  # noqa: UP036 - the program's Python may be any
        raise RuntimeError("needs Python 3.10 or later, and this is %d.%d" % sys.version_info[:2])  # noqa: UP031, TRY301
    from importlib.machinery import PathFinder

    class _Cloudretry:
        """Finds the one package, for as long as it takes to import it."""

        @staticmethod
        def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN205, ARG004
            """Its submodules are found by its own path."""
            return PathFinder.find_spec(name, [_home]) if name == "cloudretry" else None

    sys.meta_path.insert(0, _Cloudretry)
    try:
        from cloudretry.launcher.inside import begin
    finally:
        sys.meta_path.remove(_Cloudretry)
    begin()
except Exception as _error:  # noqa: BLE001 - whatever it is, the program is not to suffer from it
    if sys.stderr is not None:
        sys.stderr.write("cloudretry: this program runs without it: %s: %s\n" % (type(_error).__name__, _error))  # noqa: UP031

_ours = sys.modules.pop(__name__)
try:
    __import__(__name__)  # the program's own
except ImportError as _error:
    if getattr(_error, "name", __name__) != __name__:
        raise
finally:
    sys.modules.setdefault(__name__, _ours)
