# A small client of the text gateway, written from the tables of its document: python client.py URL.
# Sends every message type of a client at least once, and serves tool calls. script.rs scripts the
# language model. Fails at the first deviation from the tables.
import asyncio
import json
import re
import sys

import websockets

TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
# Fields of each message and their types, in addition to `type` and `timestamp`.
TABLES = {
    "status": {"status": str, "data": dict},
    "llm_response": {"content": str, "tool_calls": list, "is_final": bool},
    "tool_call": {
        "tool_name": str,
        "arguments": dict,
        "result": dict,
        "success": bool,
        "duration_ms": (int, float),
    },
    "tool_callback": {"call_id": str, "tool_name": str, "arguments": dict},
    "tools_registered": {"count": int, "tools": list},
    "error": {"code": str, "message": str, "details": str},
    "pong": {},
}

BATTERY = {
    "name": "get_battery",
    "description": "获取设备当前电量百分比",
    "parameters": {"type": "object", "properties": {}, "required": []},
}
LIGHT = {
    "name": "device.light.turn_on",
    "description": "打开房间里的灯",
    "parameters": {
        "type": "object",
        "properties": {"room": {"type": "string"}},
        "required": ["room"],
    },
}


class Session:
    def __init__(self, socket):
        self.socket = socket
        self.seen = []

    async def send(self, kind, **fields):
        await self.socket.send(json.dumps({"type": kind, **fields}, ensure_ascii=False))

    async def take(self):
        """Returns the next message, checked against its table."""
        message = json.loads(await asyncio.wait_for(self.socket.recv(), 30))
        assert TIMESTAMP.match(message["timestamp"]), message
        for field, kind in TABLES[message["type"]].items():
            assert isinstance(message[field], kind), (field, message)
        self.seen.append(message)
        return message

    async def expect(self, kind, **fields):
        message = await self.take()
        assert message["type"] == kind, (kind, message)
        for field, value in fields.items():
            assert message[field] == value, (field, value, message)
        return message

    async def ask(self, text, tools, **fields):
        """Returns the last message of the request, and those before it."""
        await self.send("text_input", text=text, **fields)
        await self.expect("status", status="processing")
        before = []
        while True:
            message = await self.take()
            if message["type"] in ("llm_response", "error"):
                return message, before
            before.append(message)
            if message["type"] == "tool_callback":
                answer = tools[message["tool_name"]](**message["arguments"])
                await self.send("tool_result", call_id=message["call_id"], **answer)


async def main(url):
    socket = await websockets.connect(url)
    client = Session(socket)
    first = await client.expect("status", status="connected")
    session = first["data"]["session_id"]
    assert 0 < len(session) < 64, session

    # `configure` has no reply: the next message is the pong.
    await client.send("configure", temperature=0.2, max_tokens=256, enable_context=True)
    await client.send("ping")
    await client.expect("pong")

    await client.send("register_tools", tools=[BATTERY, LIGHT, {**BATTERY, "name": "tool..name"}])
    told = await client.expect("tools_registered", count=2)
    assert [(t["name"], t["status"]) for t in told["tools"]] == [
        ("get_battery", "registered"),
        ("device.light.turn_on", "registered"),
        ("tool..name", "failed"),
    ], told
    assert isinstance(told["tools"][2]["error"], str)
    await client.send("register_tools", tools=[BATTERY])
    await client.expect("error", code="TOOL_REGISTRATION_FAILED")

    tools = {
        "get_battery": lambda: {"result": {"level": 85}, "success": True, "error": None},
        "device.light.turn_on": lambda room: {"success": False, "error": f"{room}的灯坏了"},
    }
    answer, before = await client.ask("我的电量还剩多少？", tools, session_id=session)
    assert answer["is_final"] and "85" in answer["content"], answer
    assert [(m["type"], m.get("status")) for m in before] == [
        ("status", "waiting_for_tools"),
        ("tool_callback", None),
    ], before
    assert before[0]["data"]["pending_tools"] == 1
    # The model receives the failure of a tool.
    answer, before = await client.ask("打开客厅的灯", tools)
    assert "客厅的灯坏了" in answer["content"], answer
    assert before[-1]["tool_name"] == "device.light.turn_on"
    # A result for no pending call.
    await client.send("tool_result", call_id=before[-1]["call_id"], result={}, success=True)
    await client.expect("error", code="INVALID_MESSAGE")

    await client.ask("我叫小明", tools)
    await client.send("text_input", text="")
    await client.expect("error", code="INVALID_MESSAGE", message="Text cannot be empty")
    await client.send("nonsense")
    await client.expect("error", code="UNKNOWN_MESSAGE_TYPE")
    await socket.send("{")
    await client.expect("error", code="INVALID_MESSAGE")
    await client.send("start_session", session_id="nosuch")
    await client.expect("error", code="SESSION_ERROR")
    await client.send("start_session")
    fresh = (await client.expect("status", status="connected"))["data"]["session_id"]
    assert fresh != session
    await client.send("end_session")
    idle = await client.expect("status", status="idle")
    assert idle["data"]["session_id"] not in (session, fresh), idle
    await socket.close()

    # The conversation continues over another connection.
    async with websockets.connect(url) as socket:
        client = Session(socket)
        await client.expect("status", status="connected")
        await client.send("configure", enable_context=True)
        await client.send("start_session", session_id=session)
        resumed = await client.expect("status", status="connected")
        assert resumed["data"]["session_id"] == session
        answer, _ = await client.ask("我叫什么名字？", tools)
        print("answered:", answer["content"])


asyncio.run(main(sys.argv[1]))
