// A small client of the LLM gateway in JavaScript, written from the tables of its document, which
// streams and cancels as well: node client.mjs PACKAGES URL, where PACKAGES is a folder with
// node_modules. What the language model says is scripted by script.rs. Fails at the first thing
// that is not as the tables say.
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
        timer = setTimeout(() => reject(new Error("nothing came")), PATIENCE_MS);
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

// An answer whole, without streaming: no pieces.
gateway.send("text_input", { text: "把音量调到50", session_id: data.session_id });
await gateway.expect("status", { status: "processing" });
await gateway.expect("status", { status: "waiting_for_tools", data: { pending_tools: 1 } });
const call = await gateway.expect("tool_callback", { tool_name: "set_volume", arguments: { volume: 50 } });
gateway.send("tool_result", { call_id: call.call_id, result: { volume: 50, status: "set" }, success: true });
const answer = await gateway.expect("llm_response", { is_final: true });
assert.match(answer.content, /50/);

// In pieces, which together are the answer; cleaned of what cannot be spoken.
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

// Cancelled in the midst: what was said until then, and the next request is answered.
gateway.send("text_input", { text: "讲一个很长的故事" });
await gateway.expect("status", { status: "processing" });
const begun = await gateway.expect("llm_delta");
gateway.send("cancel");
pieces = begun.content;
while ((message = await gateway.next()).type === "llm_delta") pieces += message.content;
assert.partialDeepStrictEqual(message, { type: "llm_response", cancelled: true, is_final: true });
assert.ok(message.content.startsWith(begun.content), message.content);

// Requests that overlap are answered in order.
gateway.send("configure", { stream: false });
for (const text of ["一", "二", "三"]) gateway.send("text_input", { text });
for (const text of ["一", "二", "三"]) {
  do message = await gateway.next(); while (message.type === "status");
  assert.equal(message.type, "llm_response");
  assert.match(message.content, new RegExp(text));
}
gateway.socket.close();
console.log("answered:", answer.content);
