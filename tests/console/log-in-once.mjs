// Logs in once for all tests, because the server allows ten logins per minute. Not for the tests of the login.

export default async function logInOnce() {
  const server = process.env.HEARKEN_URL ?? 'http://127.0.0.1:9400';
  const body = JSON.stringify({ username: 'admin', password: process.env.CONSOLE_PASSWORD ?? '' });
  const answer = await fetch(`${server}/api/admin/login`, { method: 'POST', body });
  if (!answer.ok) throw new Error(`CONSOLE_PASSWORD does not log in at ${server}: ${answer.status}`);
  const pair = await answer.json();
  const tokens = { access: pair.access_token, refresh: pair.refresh_token, expires: Date.now() + pair.expires_in * 1_000 };
  const operator = { kind: 'token', token: process.env.CONSOLE_ADMIN_TOKEN ?? '' };
  process.env.CONSOLE_KEPT = JSON.stringify({ tokens, operator });
}
