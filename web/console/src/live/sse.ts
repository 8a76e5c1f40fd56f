// Parses server-sent events from a stream of text. Not for opening the stream.

export interface ServerEvent { event: string; data: string }

export class SseParser {
  private rest = '';

  /** Adds text and returns the events that it completes. */
  push(text: string): ServerEvent[] {
    this.rest += text;
    const events: ServerEvent[] = [];
    for (;;) {
      const end = /\r\n\r\n|\n\n|\r\r/.exec(this.rest);
      if (!end) return events;
      const event = block(this.rest.slice(0, end.index));
      this.rest = this.rest.slice(end.index + end[0].length);
      if (event) events.push(event);
    }
  }
}

function block(text: string): ServerEvent | null {
  let event = 'message';
  const data: string[] = [];
  for (const line of text.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(':');
    // A line that starts with a colon is a comment: the server's heartbeat.
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') event = value;
    if (name === 'data') data.push(value);
  }
  return data.length > 0 ? { event, data: data.join('\n') } : null;
}
