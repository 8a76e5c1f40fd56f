"""A real MCP server for tests: 25 tools in pages, some of which misbehave.

    server.py --pages 3                 over standard input and output
    server.py --pages 10 --port 8123    over Streamable HTTP, at /mcp
"""

import os
import sys

import asked
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image
from mcp_types import ToolListChangedNotification

arguments = asked.arguments()

server = FastMCP(arguments.name, list_page_size=arguments.pages)


@server.tool
def echo(text: str) -> str:
    """Echoes the text."""
    return f"{arguments.name}: {text}"


@server.tool
def fails(reason: str) -> str:
    """Fails for this reason."""
    raise ToolError(reason)


@server.tool
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool
def long(bytes: int) -> str:
    """A text of this many bytes."""
    return "x" * bytes


@server.tool
async def hangs(seconds: float) -> str:
    """Sleeps."""
    await asked.hang(seconds, arguments.marks)
    return "done"


@server.tool
def variables() -> list[str]:
    """Names of the environment variables."""
    return sorted(os.environ)


@server.tool
def process() -> int:
    """The id of this process."""
    return os.getpid()


@server.tool
def numbers(first: int, second: int) -> dict[str, int]:
    """The sum of two numbers, as structured content."""
    return {"sum": first + second}


@server.tool
async def learns(name: str, context: Context) -> str:
    """Adds a tool of this name."""
    server.tool(lambda: "new", name=name, description="A new tool.")
    await context.send_notification(ToolListChangedNotification())
    return "learnt"


@server.tool
def dies() -> str:
    """Ends the process at once."""
    os._exit(1)


counts: dict[str, int] = {}


@server.tool
def count(key: str) -> str:
    """Counts the calls with this key."""
    counts[key] = counts.get(key, 0) + 1
    return f"{key} {counts[key]} " + "x" * 400


# With these there are 25.
for number in range(1, 15):
    server.tool(lambda: "filled", name=f"filler_{number}", description="Fills the pages.")

if arguments.port is None:
    server.run("stdio", show_banner=False)
else:
    print("starting", file=sys.stderr)
    server.run("http", host="127.0.0.1", port=arguments.port, show_banner=False)
