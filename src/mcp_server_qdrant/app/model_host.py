"""The model host: the process that holds the local models of all servers of a person.

One copy of each model serves five clients as well as one, with any engine; a server
itself loads no machine learning libraries. Composition root of this process.

    python -m mcp_server_qdrant.app.model_host FOLDER OPTIONS
"""

import json
import sys
from pathlib import Path

from mcp_server_qdrant.encoders.local.hosted import service
from mcp_server_qdrant.encoders.local.serve import Models
from mcp_server_qdrant.hosting.host import serve
from mcp_server_qdrant.ingest.chunk import split


def main(arguments: list[str]) -> None:
    """Hold models until no server needs them any more."""
    options = json.loads(arguments[1])
    idle = float(options["idle_seconds"])
    place = service(Path(arguments[0]), options["name"], idle)
    serve(place, lambda: Models(split), idle)


if __name__ == "__main__":
    main(sys.argv[1:])
