"""A person whose command a service runs: reads the output, answers the questions."""

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mcp_server_qdrant.cli import main
from mcp_server_qdrant.cli.hosted import run_in_service
from mcp_server_qdrant.cli.visit import Printed, Visit, install_streams
from mcp_server_qdrant.core.context import in_folder
from mcp_server_qdrant.settings.environment import use_variables


class Visitor:
    """Collects a command's output, and calls `seen` with each piece."""

    def __init__(
        self,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        *,
        terminal: bool = False,
        columns: int = 80,
        seen: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.out, self.err, self.status = "", "", -1
        self.folder, self.variables = folder, variables or {}
        self.seen = seen
        shown = {"out": terminal, "err": terminal, "columns": columns}
        self.visit = Visit(self.tell, shown)

    def tell(self, **said: Any) -> None:
        """Receive a message of the service to the pipe."""
        self.out += said.get("out", "")
        self.err += said.get("say", "")
        self.seen(said.get("out", "") + said.get("say", ""))

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command in a thread; returns its status and output."""
        self.start(*words).join()
        return self.status, self.out, self.err

    def start(self, *words: str) -> threading.Thread:
        """Start a command in a thread."""
        if not isinstance(sys.stdout, Printed):  # pytest changes them before each test
            install_streams()
        thread = threading.Thread(target=self._run, args=(words,), daemon=True)
        thread.start()
        return thread

    def _run(self, words: Sequence[str]) -> None:
        with ExitStack() as stack:
            stack.enter_context(in_folder(self.folder))
            stack.enter_context(use_variables(self.variables))
            self.status = run_in_service(main.main, words, self.visit)
