// State of a loaded resource and of an action: data, progress and error. Not for showing them.
import { untrack } from 'svelte';

export class Resource<T> {
  data = $state.raw<T | null>(null);
  error = $state.raw<unknown>(null);
  loading = $state(false);
  private round = 0;

  constructor(private readonly loader: () => Promise<T>) {}

  /** Loads again; the current data stays until the response arrives. Outdated responses are dropped. */
  load = async (): Promise<void> => {
    const round = ++this.round;
    this.loading = true;
    try {
      const data = await this.loader();
      if (round !== this.round) return;
      this.data = data;
      this.error = null;
    } catch (error) {
      if (round === this.round) this.error = error;
    } finally {
      if (round === this.round) this.loading = false;
    }
  };
}

/**
 * Calls `work` now and every `ms` milliseconds while the page is visible. Returns a function that stops it. An effect that
 * calls this does not depend on the state that `work` reads, such as refreshed tokens.
 */
export function repeat(work: () => Promise<unknown>, ms: number): () => void {
  let over = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const round = async () => {
    if (!document.hidden) await untrack(work).catch(() => undefined);
    if (!over) timer = setTimeout(round, ms);
  };
  void round();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

/** A user action such as saving: whether it is running, and its error. */
export class Action {
  running = $state(false);
  error = $state.raw<unknown>(null);

  /** Runs the work unless it is already running. Returns true if it succeeded. */
  async run(work: () => Promise<unknown>): Promise<boolean> {
    if (this.running) return false;
    this.running = true;
    this.error = null;
    try {
      await work();
      return true;
    } catch (error) {
      this.error = error;
      return false;
    } finally {
      this.running = false;
    }
  }
}
