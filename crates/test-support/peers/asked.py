"""Arguments and the hanging tool, shared by server.py and legacy.py. Not the servers."""

import argparse
import asyncio


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="pages")
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--port", type=int)
    parser.add_argument("--marks", help="a file that gets a line when a call is cancelled")
    return parser.parse_args()


async def hang(seconds, marks):
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if marks:
            with open(marks, "a") as file:
                file.write("cancelled\n")
        raise
