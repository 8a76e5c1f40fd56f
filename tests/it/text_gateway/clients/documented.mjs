// Runs the JavaScript client of the gateway's document unmodified, with its example: node
// documented.mjs PACKAGES FILE URL, with a folder with node_modules and the code from the document.
// Two things are changed from outside: sockets to its default address connect to URL; and
// `registerTools` of that class waits for a function in a Map that nothing in the class calls, so
// this program calls it when the message for it arrives.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, file, url] = process.argv.slice(2);
const Real = createRequire(`${packages}/package.json`)("ws");
let registered = null;

globalThis.Map = class extends Map {
  set(key, value) {
    if (key === "tools_registered") registered = value;
    return super.set(key, value);
  }
};
globalThis.WebSocket = class extends Real {
  constructor(address) {
    if (address !== "ws://localhost:9400") throw new Error(`an unexpected address: ${address}`);
    super(url);
    this.on("message", text => {
      const message = JSON.parse(text);
      // After the class has processed it.
      if (message.type === "tools_registered") setImmediate(() => registered(message));
    });
  }
};
await import(pathToFileURL(file));
