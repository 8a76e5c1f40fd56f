"""Opens and closes WebSockets with the library `websockets`: client.py PLAN, with the plan that
`libraries.rs` writes. Prints `ready` once every connection has received what it waits for, then how
each ended, as JSON. The reader of this output acts between the two lines."""

import asyncio
import json
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

PATIENCE_S = 60


def awaited(until, message):
    if until == "binary":
        return isinstance(message, bytes)
    return isinstance(message, str) and until in message


async def opened(plan):
    socket = await connect(plan["url"], compression=None, proxy=None, max_size=None)
    for text in plan["say"]:
        await socket.send(text)
    while plan["until"] and not awaited(plan["until"], await socket.recv()):
        pass
    return plan, socket


async def ended(plan, socket):
    try:
        if plan["large"]:
            await socket.send("x" * plan["large"])
        if plan["close"]:
            await socket.close(*plan["close"])
        else:
            while True:
                await socket.recv()
    except ConnectionClosed:
        pass
    await socket.wait_closed()
    clean = socket.protocol.close_rcvd is not None and socket.protocol.close_sent is not None
    return {"code": socket.close_code, "reason": socket.close_reason, "clean": clean}


async def main():
    async with asyncio.timeout(PATIENCE_S):
        sockets = await asyncio.gather(*(opened(plan) for plan in json.loads(sys.argv[1])))
        print("ready", flush=True)
        print(json.dumps(await asyncio.gather(*(ended(*one) for one in sockets))), flush=True)


asyncio.run(main())
