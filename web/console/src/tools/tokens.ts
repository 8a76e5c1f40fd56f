// The address at which a tool client connects. Not for the token itself.

/** Returns the address with the token in its query, in the form that programs for the reference relay expect. */
export function endpointOf(page: { protocol: string; host: string }, token: string): string {
  const scheme = page.protocol === 'https:' ? 'wss' : 'ws';
  return `${scheme}://${page.host}/mcp_endpoint/mcp/?token=${token}`;
}
