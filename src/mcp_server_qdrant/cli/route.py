"""Decides which commands the store's service runs. Imports almost nothing."""

from collections.abc import Callable, Sequence

# Commands that open the engine, whose folder the service locks. `init` and `doctor` run in the
# person's shell, and have the service do only the part that needs the engine.
HOSTED = frozenset(
    (
        *("accept-loss", "backup", "copy", "describe", "eval", "export", "history", "ingest"),
        *("rebuild", "restore", "sync", "upgrade", "viz", "examine", "first-search"),
    )
)
OF_SERVER = ("--env-file", "--transport")  # options with a value, before the command


def run_elsewhere(words: Sequence[str], service: Sequence[str]) -> int | None:
    """Have the service run the command in these arguments; None if it must run here.

    `service` is the command that starts a service.
    """
    if command(words) not in HOSTED or "--help" in words:
        return None
    from mcp_server_qdrant.hosting import pipe, reach

    try:
        return pipe.run_command(words, env_file(words), service)
    except reach.Ended as refused:
        return reach.print_end(refused)


def ask_service(
    words: Sequence[str],
    file: str | None,
    service: Sequence[str],
    out: Callable[[str], bool] | None = None,
) -> int | None:
    """Like `run_elsewhere`, with this settings file; None also if a service refuses to start.

    `out` receives the command's output instead of stdout, and returns whether to go on.
    """
    from mcp_server_qdrant.hosting import pipe, reach

    arguments = [*words, f"--env-file={file}"] if file else words
    try:
        return pipe.run_command(arguments, file, service, out=out)
    except reach.Ended:  # running the command here shows the reason
        return None


def command(words: Sequence[str]) -> str | None:
    """The command in the arguments."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            return word
        if word in OF_SERVER:
            next(rest, None)
    return None


def env_file(words: Sequence[str]) -> str | None:
    """The value of the last --env-file."""
    found = None
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == "--":
            break
        name, given, value = word.partition("=")
        if name == "--env-file":
            found = value if given else after
    return found
