"""The console script, and `python -m mcp_server_qdrant`."""

import os
import sys

SERVICE = (sys.executable, "-P", "-m", "mcp_server_qdrant.cli.service")  # starts one


def main() -> None:
    """Run the command line."""
    _import_nothing_from_here()
    import gc
    import signal

    # No traceback from an import that is interrupted; later what runs handles signals itself.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # What is imported now stays: collecting garbage among it would cost a tenth of the start.
    gc.disable()
    if sys.argv[1:2] == ["recall"] and len(sys.argv) in (3, 4) and sys.argv[2][:1] != "-":
        from mcp_server_qdrant.cli.recall import run  # at once: a hook waits

        run(*sys.argv[2:])
    options = _over_stdio(sys.argv[1:])
    if options is not None:
        from mcp_server_qdrant.hosting.pipe import run_stdio  # it imports next to nothing

        run_stdio(SERVICE, sys.argv[1:], options.get("--env-file"))
    from mcp_server_qdrant.cli.route import run_elsewhere

    if (status := run_elsewhere(sys.argv[1:], SERVICE)) is not None:
        sys.exit(status)
    from mcp_server_qdrant.cli.main import main as command

    try:
        command(obj=SERVICE)
    except SystemExit as end:
        _end(end.code)


def _end(status: object) -> None:
    """End at once: a thread that sits in a model or the engine would abort an orderly end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            status = status or 1  # nobody reads it
    os._exit(status if isinstance(status, int) else bool(status))


def _over_stdio(arguments: list[str]) -> dict[str, str] | None:
    """The options of a server over stdio; None where the command line says anything else."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, given, value = argument.partition("=")
        found[name] = value if given else next(rest, "")
    known = found.keys() <= {"--transport", "--env-file"} and all(found.values())
    return found if known and found.get("--transport", "stdio") == "stdio" else None


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
