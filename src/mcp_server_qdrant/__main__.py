"""The console script, and `python -m mcp_server_qdrant`."""

import os
import sys


def main() -> None:
    """Run the command line."""
    _import_nothing_from_here()
    import gc
    import signal

    # No traceback from an import that is interrupted; later what runs handles signals itself.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # What is imported now stays: collecting garbage among it would cost a tenth of the start.
    gc.disable()
    if sys.argv[1:2] == ["recall"] and len(sys.argv) == 3 and sys.argv[2][:1] != "-":
        from mcp_server_qdrant.cli.recall import run  # at once: a hook waits

        run(sys.argv[2])
    from mcp_server_qdrant.cli.main import main as command

    command()


def _import_nothing_from_here() -> None:
    """Take the working directory out of the path of modules, where it hides those of Python.

    `-m` puts it there, and so does an empty part of PYTHONPATH.
    """
    own = os.path.dirname(os.__file__)  # noqa: PTH120
    first = sys.path.index(own) if own in sys.path else len(sys.path)
    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:  # it has been removed
        return
    sys.path[:first] = [path for path in sys.path[:first] if path not in ("", here)]


if __name__ == "__main__":
    main()
