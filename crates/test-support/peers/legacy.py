"""An MCP server of the era of handshakes and sessions, with the last SDK of that era. Has the 25
tools of server.py that need no framework, in pages with numeric cursors.

    legacy.py --pages 3                 over standard input and output
    legacy.py --pages 10 --port 8123    over Streamable HTTP with sessions, at /mcp
"""

import asyncio
import json
import os
from contextlib import asynccontextmanager

import asked
import mcp.types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount

arguments = asked.arguments()

server = Server(arguments.name)


def takes(**fields):
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields)}


schemas = {
    "echo": takes(text="string"),
    "fails": takes(reason="string"),
    "picture": takes(),
    "long": takes(bytes="integer"),
    "hangs": takes(seconds="number"),
    "variables": takes(),
    "process": takes(),
    "numbers": takes(first="integer", second="integer"),
    "learns": takes(name="string"),
    "dies": takes(),
}
schemas.update({f"filler_{number}": takes() for number in range(15)})


@server.list_tools()
async def list_tools(request: types.ListToolsRequest) -> types.ListToolsResult:
    first = int(request.params.cursor or 0) if request.params else 0
    last = first + arguments.pages
    tools = [types.Tool(name=name, inputSchema=schema) for name, schema in schemas.items()]
    more = str(last) if last < len(tools) else None
    return types.ListToolsResult(tools=tools[first:last], nextCursor=more)


@server.call_tool()
async def call_tool(name: str, given: dict):
    def text(words):
        return [types.TextContent(type="text", text=words)]

    match name:
        case "echo":
            return text(f"{arguments.name}: {given['text']}")
        case "fails":
            raise ValueError(given["reason"])
        case "picture":
            return [types.ImageContent(type="image", data="iVBORw==", mimeType="image/png")]
        case "long":
            return text("x" * given["bytes"])
        case "hangs":
            await asked.hang(given["seconds"], arguments.marks)
            return text("done")
        case "variables":
            return text(json.dumps(sorted(os.environ)))
        case "process":
            return text(str(os.getpid()))
        case "numbers":
            return {"sum": given["first"] + given["second"]}
        case "learns":
            schemas[given["name"]] = takes()
            await server.request_context.session.send_tool_list_changed()
            return text("learnt")
        case "dies":
            os._exit(1)
        case _ if name not in schemas:
            # As servers of that era did: their protocol has no error code for it.
            raise ValueError(f"Unknown tool: {name}")
        case _ if name.startswith("filler_"):
            return text("filled")
    return text("new")


async def over_stdio():
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, options)


def over_http():
    manager = StreamableHTTPSessionManager(server)

    @asynccontextmanager
    async def lifespan(_):
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/mcp", manager.handle_request)], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="error")


if arguments.port is None:
    asyncio.run(over_stdio())
else:
    over_http()
