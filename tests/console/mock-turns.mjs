// Mocks /api/turns: /api/turns/mock?live=N creates N live turns, which all change several times a second. Not for a
// real server's turns.

const CHANGES_EVERY_MS = 150;
const NAMES = ['silence', 'recognition', 'speculation', 'admission', 'prompt', 'model_first_word', 'tool', 'voice_first_sound', 'prebuffer'];

function turn(number, began) {
  return {
    id: `turn-${number}`, trace_id: null, kind: ['voice', 'text', 'chat'][number % 3], began: new Date(began).toISOString(),
    client: `02:00:00:00:00:${(number % 64).toString(16).padStart(2, '0')}`, state: 'listening', outcome: null,
    heard: null, said: null, wait_ms: null, spans: [{ name: 'speech', detail: null, start_ms: 0, end_ms: null }], events: [],
  };
}

/** Advances a turn: ends its last span and starts the next one, until it is answered. */
function change(one) {
  const at = Date.now() - Date.parse(one.began);
  const last = one.spans.at(-1);
  last.end_ms ??= at;
  const next = NAMES[one.spans.length - 1];
  one.heard ??= `question ${one.id}`;
  if (next) {
    one.state = 'thinking';
    one.spans.push({ name: next, detail: next === 'tool' ? 'self.lamp.turn_on' : null, start_ms: at, end_ms: null });
    return;
  }
  if (last.name !== 'playback') {
    one.state = 'speaking';
    one.said = `answer ${one.id}`;
    one.events.push({ name: 'first_packet', at_ms: at });
    one.wait_ms = at - one.spans[0].end_ms;
    one.spans.push({ name: 'playback', detail: null, start_ms: at, end_ms: null });
    return;
  }
  one.state = 'ended';
  one.outcome = 'answered';
}

/** Returns an ended turn whose wait is the model's first word to 83 %. */
function known() {
  const span = (name, start_ms, end_ms, detail = null) => ({ name, detail, start_ms, end_ms });
  return {
    ...turn(9_999, Date.now() - 3_600_000), id: 'known', kind: 'voice', client: 'known-device', state: 'ended', outcome: 'answered',
    heard: 'What is this?', said: 'This is a lamp.', cut_off: 'a lamp.', wait_ms: 1_000,
    spans: [
      span('speech', 0, 1_000), span('silence', 1_000, 1_100), span('recognition', 900, 1_150), span('model_first_word', 1_150, 1_980, 'local'),
      span('model', 1_150, 3_000), span('voice_first_sound', 1_980, 2_000), span('playback', 2_000, 5_000),
    ],
    events: [{ name: 'first_packet', at_ms: 2_000 }],
  };
}

export function mockTurns() {
  let turns = [known()];
  const watchers = new Set();
  let count = 0;
  setInterval(() => {
    for (const one of turns.filter((each) => each.state !== 'ended')) {
      change(one);
      for (const watcher of watchers) watcher.write(`event: turn\ndata: ${JSON.stringify(one)}\n\n`);
    }
  }, CHANGES_EVERY_MS);
  return (request, response) => {
    const url = new URL(request.url, 'http://x');
    if (!url.pathname.startsWith('/api/turns')) return false;
    if (url.pathname === '/api/turns/mock') {
      const live = Number(url.searchParams.get('live'));
      turns = [known(), ...Array.from({ length: live }, () => turn(++count, Date.now() - Math.floor(Math.random() * 100)))];
      response.writeHead(204).end();
    } else if (!request.headers.authorization?.startsWith('Bearer ')) {
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":{"code":"UNAUTHORIZED","message":"no token"}}');
    } else if (url.pathname === '/api/turns/live') {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      response.write(': here\n\n');
      watchers.add(response);
      request.on('close', () => watchers.delete(response));
    } else {
      const newest = [...turns].sort((a, b) => (a.began < b.began ? 1 : -1));
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ turns: newest.slice(0, Number(url.searchParams.get('limit') ?? 50)) }));
    }
    return true;
  };
}
