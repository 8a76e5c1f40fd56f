// One thing that a screen loads: its data, whether it is being loaded, and what went wrong. Not for showing it.
import { untrack } from 'svelte';

export class Resource<T> {
  data = $state.raw<T | null>(null);
  error = $state.raw<unknown>(null);
  loading = $state(false);
  private round = 0;

  constructor(private readonly loader: () => Promise<T>) {}

  /** Loads again; what is shown stays until the answer is there. An overtaken answer is dropped. */
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
 * Calls `work` now and every `ms` milliseconds while the page is visible. Returns what ends it. An effect that calls this
 * does not depend on what `work` reads, such as tokens that are refreshed.
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

/** One action of a person, such as saving: whether it runs, and what went wrong. */
export class Action {
  running = $state(false);
  error = $state.raw<unknown>(null);

  /** Runs the work unless it runs already. Returns true if it succeeded. */
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
