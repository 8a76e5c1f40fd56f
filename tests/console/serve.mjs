// Serves web/console/dist under /console/ with the content security policy, and proxies everything else to a real
// server. With `mock-turns` it answers /api/turns itself. Not needed if the server under test serves the console.
import { createReadStream, existsSync, statSync } from 'node:fs';
import http from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mockTurns } from './mock-turns.mjs';

export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
  "connect-src 'self' ws: wss:; media-src 'self' blob:; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'";

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const dist = fileURLToPath(new URL('../../web/console/dist', import.meta.url));

function page(request, response) {
  const path = normalize(new URL(request.url, 'http://x').pathname.slice('/console'.length) || '/');
  const file = join(dist, path === '/' ? 'index.html' : path);
  if (!file.startsWith(dist) || !existsSync(file) || !statSync(file).isFile()) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, {
    'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff',
  });
  createReadStream(file).pipe(response);
}

function passOn(target, request, response) {
  const options = { host: target.hostname, port: target.port, path: request.url, method: request.method, headers: request.headers };
  const asked = http.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  asked.on('error', () => response.writeHead(502).end());
  request.pipe(asked);
}

function passOnSocket(target, request, socket, head) {
  const options = { host: target.hostname, port: target.port, path: request.url, headers: request.headers };
  const asked = http.request(options);
  asked.on('upgrade', (answer, server, rest) => {
    const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`);
    server.write(head);
    socket.write(rest);
    server.pipe(socket).pipe(server);
    for (const one of [server, socket]) one.on('error', () => (server.destroy(), socket.destroy()));
  });
  asked.on('response', (answer) => socket.end(`HTTP/1.1 ${answer.statusCode} Refused\r\n\r\n`));
  asked.on('error', () => socket.destroy());
  asked.end();
}

const [port, url, mode] = process.argv.slice(2);
const target = new URL(url);
const mock = mode === 'mock-turns' ? mockTurns() : null;
const server = http.createServer((request, response) => {
  if (/^\/console(\/|$|\?)/.test(request.url)) return page(request, response);
  if (mock && mock(request, response)) return;
  passOn(target, request, response);
});
server.on('upgrade', (request, socket, head) => passOnSocket(target, request, socket, head));
server.listen(Number(port), '127.0.0.1');
