// The live turns: the most recent ones, then each change. Not for drawing them.
import { turns as api } from '../lib/api';
import { ApiError } from '../lib/errors';
import { read } from '../lib/http';
import type { Turn } from '../lib/types';
import { SseParser } from './sse';

export type Feed = 'loading' | 'live' | 'waiting' | 'missing' | 'failed';

/** Maximum number of turns in the list. */
const MOST = 300;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

/** Returns the delay before the next attempt after this many failures, in milliseconds. */
export function backoff(failures: number, random = Math.random()): number {
  const full = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(failures, 10));
  return full / 2 + (full / 2) * random;
}

/** Returns the newest turns, newest first. */
export function newest(turns: Iterable<Turn>): Turn[] {
  const all = [...turns].sort((a, b) => (a.began < b.began ? 1 : a.began > b.began ? -1 : a.id < b.id ? 1 : -1));
  return all.slice(0, MOST);
}

export class Turns {
  list = $state.raw<Turn[]>([]);
  feed = $state<Feed>('loading');
  error = $state.raw<unknown>(null);
  /** True while the list does not change, so that it can be read. */
  paused = $state(false);
  private known = new Map<string, Turn>();
  private frame = 0;
  private over = new AbortController();

  /** Follows the turns; returns a function that stops it. */
  start(): () => void {
    this.over = new AbortController();
    void this.follow(this.over.signal);
    return () => {
      this.over.abort();
      cancelAnimationFrame(this.frame);
      this.frame = 0;
    };
  }

  /** Restarts, after a credential was added. */
  restart = (): void => {
    this.over.abort();
    this.start();
  };

  resume(): void {
    this.paused = false;
    this.show();
  }

  private async follow(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        for (const turn of await api.list(100)) this.known.set(turn.id, turn);
        this.show();
        const response = await api.live(signal);
        if (!response.ok || !response.body) await read(response);
        this.feed = 'live';
        this.error = null;
        failures = 0;
        await this.readAll(response.body as ReadableStream<Uint8Array>);
      } catch (error) {
        if (signal.aborted) return;
        this.error = error;
        if (error instanceof ApiError && error.status === 404) {
          this.feed = 'missing';
          return;
        }
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
          this.feed = 'failed';
          return;
        }
      }
      this.feed = this.list.length > 0 ? 'waiting' : 'failed';
      await new Promise((done) => setTimeout(done, backoff(failures)));
    }
  }

  private async readAll(body: ReadableStream<Uint8Array>): Promise<void> {
    const parser = new SseParser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        if (event.event === 'turn') this.take(event.data);
      }
    }
  }

  private take(data: string): void {
    try {
      const turn = JSON.parse(data) as Turn;
      this.known.set(turn.id, turn);
    } catch {
      return;
    }
    // The list is rebuilt at most once per frame, regardless of the number of changes.
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.paused) this.show();
    });
  }

  private show(): void {
    const list = newest(this.known.values());
    if (this.known.size > list.length * 2) this.known = new Map(list.map((turn) => [turn.id, turn]));
    this.list = list;
  }
}
