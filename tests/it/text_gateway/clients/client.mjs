// A small client of the text gateway in JavaScript, written from the tables of its document, which
// also streams and cancels: node client.mjs PACKAGES URL, with a folder with node_modules. script.rs
// scripts the language model. Fails at the first deviation from the tables.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [packages, url] = process.argv.slice(2);
const WebSocket = createRequire(`${packages}/package.json`)("ws");
const PATIENCE_MS = 30_000;

class Gateway {
  constructor(socket) {
    this.socket = socket;
    this.came = [];
    this.wanted = null;
    socket.on("message", (text, binary) => {
      assert.equal(binary, false);
      this.came.push(JSON.parse(text));
      this.wanted?.();
    });
  }

  static async open() {
    const socket = new WebSocket(url);
    const gateway = new Gateway(socket);
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    return gateway;
  }

  send(type, fields = {}) {
    this.socket.send(JSON.stringify({ type, ...fields }));
  }

  async next() {
    while (this.came.length === 0) {
      let timer;
      await new Promise((resolve, reject) => {
        this.wanted = resolve;
        timer = setTimeout(() => reject(new Error("timed out")), PATIENCE_MS);
      });
      clearTimeout(timer);
    }
    const message = this.came.shift();
    assert.match(message.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    return message;
  }

  async expect(type, fields = {}) {
    const message = await this.next();
    assert.partialDeepStrictEqual(message, { type, ...fields });
    return message;
  }
}

const tool = (name, properties) => ({ name, description: name, parameters: { type: "object", properties } });

const gateway = await Gateway.open();
const { data } = await gateway.expect("status", { status: "connected" });
assert.ok(data.session_id.length < 64);
gateway.send("register_tools", { tools: [tool("get_battery", {}), tool("set_volume", { volume: { type: "integer" } })] });
const registered = await gateway.expect("tools_registered", { count: 2 });
assert.deepEqual(registered.tools.map(t => [t.name, t.status]), [["get_battery", "registered"], ["set_volume", "registered"]]);

// A complete answer without streaming: no pieces.
gateway.send("text_input", { text: "把音量调到50", session_id: data.session_id });
await gateway.expect("status", { status: "processing" });
await gateway.expect("status", { status: "waiting_for_tools", data: { pending_tools: 1 } });
const call = await gateway.expect("tool_callback", { tool_name: "set_volume", arguments: { volume: 50 } });
gateway.send("tool_result", { call_id: call.call_id, result: { volume: 50, status: "set" }, success: true });
const answer = await gateway.expect("llm_response", { is_final: true });
assert.match(answer.content, /50/);

// Streamed pieces add up to the answer, without characters that cannot be spoken.
gateway.send("configure", { stream: true });
gateway.send("text_input", { text: "说得漂亮一点" });
await gateway.expect("status", { status: "processing" });
let pieces = "", count = 0, message;
while ((message = await gateway.next()).type === "llm_delta") {
  pieces += message.content;
  count += 1;
}
assert.equal(message.type, "llm_response");
assert.equal(pieces, message.content);
assert.ok(count > 1, `${count} pieces`);
assert.doesNotMatch(message.content, /[*★😀]/u);

// After a cancel: the partial answer so far, and the next request is answered.
gateway.send("text_input", { text: "讲一个很长的故事" });
await gateway.expect("status", { status: "processing" });
const begun = await gateway.expect("llm_delta");
gateway.send("cancel");
pieces = begun.content;
while ((message = await gateway.next()).type === "llm_delta") pieces += message.content;
assert.partialDeepStrictEqual(message, { type: "llm_response", cancelled: true, is_final: true });
assert.ok(message.content.startsWith(begun.content), message.content);

// Overlapping requests are answered in order.
gateway.send("configure", { stream: false });
for (const text of ["一", "二", "三"]) gateway.send("text_input", { text });
for (const text of ["一", "二", "三"]) {
  do message = await gateway.next(); while (message.type === "status");
  assert.equal(message.type, "llm_response");
  assert.match(message.content, new RegExp(text));
}
gateway.socket.close();
console.log("answered:", answer.content);
