// Drives the gateway's test page in Chromium as a user would: node page.mjs PACKAGES CHROMIUM SERVER
// FILE, with a folder with node_modules, the browser, HOST:PORT, and the page on disk. Prints each
// step that passes and exits at the first that fails. script.rs scripts the language model.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, executablePath, server, file] = process.argv.slice(2);
const { chromium } = createRequire(`${packages}/package.json`)("playwright-core");
const browser = await chromium.launch({
  executablePath,
  // Containers run as root, as which Chromium starts only without its sandbox.
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
page.setDefaultTimeout(20_000);
const faults = [], fetched = [];
page.on("pageerror", error => faults.push(String(error)));
// The browser itself reports refused connections on the console.
page.on("console", message => {
  if (message.type() === "error" && !message.text().includes("WebSocket connection")) faults.push(message.text());
});
page.on("request", request => fetched.push(request.url()));

// Lines of the conversation are searched among those since the last click.
let since = 0;
async function click(what) {
  since = await page.locator("#said .line").count();
  await page.click(what);
}
const frames = async (direction, type) => {
  const shown = page.locator(`#log .frame.${direction}`, { has: page.locator(".type", { hasText: new RegExp(`^${type}$`) }) });
  return (await shown.locator("pre").allTextContents()).map(text => { try { return JSON.parse(text); } catch { return text; } });
};
const state = text => page.locator("#state", { hasText: new RegExp(`^${text}$`) }).waitFor();
const tells = (kind, text) =>
  page.locator(`#said .line.${kind}:nth-child(n + ${since + 1})`, { hasText: text }).first().waitFor();

async function ask(text, answer) {
  await page.fill("#text", text);
  await click("#send");
  await page.waitForFunction(() => waiting.length === 0);
  await tells("answer", answer);
}

async function raw(text) {
  await page.locator("details:has(#frame)").evaluate(shown => { shown.open = true; });
  await page.fill("#frame", text);
  await click("#send-frame");
}

async function choose(tool, what) {
  await page.selectOption(`select[aria-label="What ${tool} does when called"]`, what);
}

async function connects() {
  await page.goto(`http://${server}/test_client.html`);
  assert.equal(await page.inputValue("#url"), `ws://${server}/`);
  assert.ok(await page.isDisabled("#send"), "sending is disabled before the connection");
  await click("#connect");
  await state("connected");
  assert.notEqual(await page.textContent("#session"), "none");
  const [configured] = await frames("sent", "configure");
  assert.deepEqual(configured, { type: "configure", enable_context: true, stream: true });
}

async function registersTools() {
  await click("#register");
  for (const name of ["get_battery", "set_volume", "device.light.turn_on"]) {
    await page.locator("#tools .tool", { hasText: name }).locator(".good", { hasText: /^registered$/ }).waitFor();
  }
  await click("#register");
  await tells("error", "TOOL_REGISTRATION_FAILED");
  await page.fill("#definitions", "[{");
  await page.locator("#definitions-fault", { hasText: "cannot be used" }).waitFor();
  await click("#samples");
  assert.ok(await page.isHidden("#definitions-fault"));
}

async function callsTools() {
  await ask("我的电量还剩多少？", "85");
  assert.ok((await frames("received", "llm_delta")).length > 1, "the answer came in pieces");
  const [called] = await frames("received", "tool_callback");
  const [told] = await frames("sent", "tool_result");
  assert.equal(called.tool_name, "get_battery");
  assert.deepEqual(told, { type: "tool_result", call_id: called.call_id, success: true, result: { level: 85, charging: false } });
  await ask("打开客厅的灯", "客厅");
  const calls = await frames("received", "tool_callback");
  assert.equal(calls.at(-1).tool_name, "device.light.turn_on");
  await choose("set_volume", "fail");
  await ask("把音量调到50", "设备连接超时");
}

async function toolThatNeverAnswers() {
  await choose("get_battery", "never");
  await page.fill("#text", "我的电量还剩多少？");
  await click("#send");
  await tells("error", "TOOL_RESULT_TIMEOUT");
  await choose("get_battery", "result");
  await ask("我的电量还剩多少？", "85");
}

async function cancels() {
  const before = await page.locator("#log .frame.received").count();
  await page.fill("#text", "讲一个很长的故事 long");
  await click("#send");
  await page.waitForFunction(before => document.querySelectorAll("#log .frame.received").length > before + 3, before);
  await page.locator("#cancel:not([disabled])").click();
  await tells("note", "Cancelled.");
  const ends = await frames("received", "llm_response");
  assert.equal(ends.at(-1).cancelled, true);
  await ask("你好", "你好");
}

async function showsErrors() {
  for (const [frame, error] of [
    ["{", "INVALID_MESSAGE"],
    ['{"type": "nonsense"}', "UNKNOWN_MESSAGE_TYPE"],
    ['{"type": "text_input", "text": ""}', "INVALID_MESSAGE: Text cannot be empty"],
    ['{"type": "start_session", "session_id": "nosuch"}', "SESSION_ERROR"],
  ]) {
    await raw(frame);
    await tells("error", error);
  }
  await click("#ping");
  await tells("note", "The server answers pings.");
  // Texts are never interpreted as markup.
  const markup = '<img src=x onerror="window.marked=1"><b id="bold">x</b>';
  await ask(markup, "你说的是");
  assert.equal(await page.evaluate(() => window.marked), undefined);
  assert.equal(await page.locator("#said img, #said b, #log img, #log b").count(), 0);
}

async function changesSessions() {
  const first = await page.textContent("#session");
  await click("#end");
  await tells("note", "Session ended");
  assert.notEqual(await page.textContent("#session"), first);
  await click("#fresh");
  await page.fill("#known", "nosuch");
  await click("#resume");
  await tells("error", "SESSION_ERROR");
  const kept = await page.textContent("#session");
  await ask("我叫小明", "我叫小明");
  await click("#disconnect");
  await state("not connected");
  await click("#connect");
  await state("connected");
  assert.notEqual(await page.textContent("#session"), kept);
  await page.fill("#known", kept);
  await click("#resume");
  await page.locator("#session", { hasText: kept }).waitFor();
}

async function keepsFrames() {
  const shown = await page.locator("#log .frame").count();
  assert.ok(shown > 20 && (await page.textContent("#kept")).startsWith(`${shown} frames`));
  await click("#copy");
  await page.locator("#kept", { hasText: "copied" }).waitFor();
  await click("#clear");
  assert.equal(await page.locator("#log .frame").count(), 0);
  // The number of displayed frames is limited.
  await page.evaluate(() => { for (let n = 0; n < 300; n++) send({ type: "ping" }); });
  await page.locator("#kept", { hasText: "500 frames" }).waitFor();
}

async function isUsableByAll() {
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("input, textarea, select, button")]
    .filter(e => !e.labels?.length && !e.getAttribute("aria-label") && !e.textContent.trim()).map(e => e.outerHTML));
  assert.deepEqual(unnamed, []);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notEqual(await ground(), light);
  await page.setViewportSize({ width: 360, height: 700 });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 360, `${width} px wide on a phone`);
  assert.deepEqual(fetched.filter(url => !url.startsWith("data:")), [`http://${server}/test_client.html`]);
}

async function worksFromDisk() {
  await page.goto(pathToFileURL(file).href);
  assert.equal(await page.inputValue("#url"), "ws://localhost:9400");
  await page.fill("#url", "ws://127.0.0.1:1");
  await click("#connect");
  await tells("error", "No gateway at ws://127.0.0.1:1/: is the server running?");
  await state("not connected");
  await page.fill("#url", `ws://${server}`);
  await page.uncheck("#stream");
  await click("#connect");
  await state("connected");
  await ask("你好", "你好");
  assert.equal((await frames("received", "llm_delta")).length, 0);
}

for (const step of [connects, registersTools, callsTools, toolThatNeverAnswers, cancels, showsErrors, changesSessions,
  keepsFrames, isUsableByAll, worksFromDisk]) {
  try {
    await step();
  } catch (error) {
    console.error(`${step.name}: ${error.stack}\n--- text of the page:\n${await page.locator("#said").innerText()}`);
    process.exit(1);
  }
  console.log(`holds: ${step.name}`);
}
await browser.close();
assert.deepEqual(faults, []);
