"""An MCP server with one tool, made with FastMCP: the package `fastmcp`, or the class in `mcp` 1.x.

The argument is a JSON object with the options of the transport. Without a port, the server speaks over stdio.
"""

import hashlib
import json
import sys

options = json.loads(sys.argv[1])

try:
    from fastmcp import FastMCP

    server = FastMCP("fingerprints")
    transport = {"transport": "http", **options} if "port" in options else {"transport": "stdio"}
except ImportError:
    from mcp.server.fastmcp import FastMCP

    server = FastMCP("fingerprints", **options)
    transport = {"transport": "streamable-http" if "port" in options else "stdio"}


@server.tool()
def fingerprint(text: str) -> str:
    """Returns the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


server.run(**transport)
