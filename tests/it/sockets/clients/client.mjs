// Opens and closes WebSockets with the library `ws`: node client.mjs PLAN PACKAGES, with the plan that
// `libraries.rs` writes and a folder with node_modules. Prints `ready` once every connection has
// received what it waits for, then how each ended, as JSON.
import { createRequire } from "node:module";

const [plans, packages] = process.argv.slice(2);
const WebSocket = createRequire(`${packages}/package.json`)("ws");
const PATIENCE_MS = 60_000;

setTimeout(() => {
  console.error("timed out");
  process.exit(1);
}, PATIENCE_MS).unref();

const awaited = (until, data, binary) =>
  until === "binary" ? binary : !binary && data.toString().includes(until);

function opened(plan) {
  const socket = new WebSocket(plan.url, { perMessageDeflate: false });
  socket.ended = new Promise((resolve) => {
    // The code is 1006 if the other side sent no close frame.
    socket.on("close", (code, reason) => resolve({ code, reason: reason.toString(), clean: code !== 1006 }));
  });
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("open", () => {
      plan.say.forEach((text) => socket.send(text));
      if (!plan.until) resolve([plan, socket]);
    });
    socket.on("message", (data, binary) => awaited(plan.until, data, binary) && resolve([plan, socket]));
  });
}

function ended([plan, socket]) {
  if (plan.large) socket.send("x".repeat(plan.large), () => {});
  if (plan.close) socket.close(...plan.close);
  return socket.ended;
}

const sockets = await Promise.all(JSON.parse(plans).map(opened));
console.log("ready");
console.log(JSON.stringify(await Promise.all(sockets.map(ended))));
