"""Start the server of this bundle: the arguments are folders, all else is in the environment."""

import json
import os
import sys
from pathlib import Path

from mcp_server_qdrant.__main__ import main

folders = [Path(folder) for folder in sys.argv[1:]]
names = [folder.name for folder in folders]
os.environ["SYNC_SOURCES"] = json.dumps(
    {
        str(folder): folder.name if names.count(folder.name) == 1 else "-".join(folder.parts[-2:])
        for folder in folders
    }
)
sys.argv[1:] = []
if __name__ == "__main__":
    main()
