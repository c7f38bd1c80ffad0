"""The console script, and `python -m mcp_server_qdrant`."""

import os
import sys

# The command that starts a service.
SERVICE = (sys.executable, "-P", "-m", "mcp_server_qdrant.cli.service")


def main() -> None:
    """Run the command line."""
    _remove_working_directory()
    import gc
    import signal

    # Ctrl-C during an import must not print a traceback; what runs later has its own handlers.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # Imported objects live until exit; collecting garbage among them takes a tenth of the start.
    gc.disable()
    if sys.argv[1:2] == ["recall"] and len(sys.argv) in (3, 4) and sys.argv[2][:1] != "-":
        from mcp_server_qdrant.cli.recall import run  # first: a hook is waiting

        run(*sys.argv[2:])
    options = _parse_stdio_options(sys.argv[1:])
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
        _flush_and_exit(end.code)


def _flush_and_exit(status: object) -> None:
    """Exit at once: a normal exit would abort while threads run a model or the engine."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            status = status or 1  # the stream is closed
    os._exit(status if isinstance(status, int) else bool(status))


def _parse_stdio_options(arguments: list[str]) -> dict[str, str] | None:
    """The options of a server over stdio; None if the command line asks for anything else."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, given, value = argument.partition("=")
        found[name] = value if given else next(rest, "")
    known = found.keys() <= {"--transport", "--env-file"} and all(found.values())
    return found if known and found.get("--transport", "stdio") == "stdio" else None


def _remove_working_directory() -> None:
    """Remove the working directory from sys.path: its files would hide Python's own modules.

    `-m` adds it, and so does an empty entry of PYTHONPATH.
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
