// The current screen, from the address after `#/`, and the guard before leaving it. Not for the content of screens.
import './code.svelte';

export const SCREENS = [
  'home', 'talk', 'live', 'history', 'devices', 'people', 'roles', 'services', 'costs', 'tools', 'settings', 'conversations',
  'audit', 'account',
] as const;
export type Screen = (typeof SCREENS)[number];

/** Parses a hash such as `#/devices/aa:bb` into the screen and the rest. */
export function parse(hash: string): { screen: Screen; rest: string } {
  const [name = '', ...rest] = hash.replace(/^#\/?/, '').split('/');
  const screen = SCREENS.find((known) => known === name) ?? 'home';
  return { screen, rest: decode(rest.join('/')) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

class Router {
  at = $state(parse(location.hash));
  /** Continuation for when the user agrees to lose unsaved changes; null if no question is open. */
  held = $state.raw<(() => void) | null>(null);
  private address = location.hash;
  private isUnsaved: (() => boolean) | null = null;

  constructor() {
    addEventListener('hashchange', () => this.change(location.hash));
  }

  /** Asks before the screen is left while `isUnsaved` returns true. Returns a function that removes the guard. */
  guard(isUnsaved: () => boolean): () => void {
    const ask = (event: BeforeUnloadEvent) => {
      if (isUnsaved()) event.preventDefault();
    };
    this.isUnsaved = isUnsaved;
    addEventListener('beforeunload', ask);
    return () => {
      removeEventListener('beforeunload', ask);
      if (this.isUnsaved === isUnsaved) this.isUnsaved = null;
    };
  }

  /** Runs work that leaves the screen, at once or after the question. */
  leave(work: () => void): void {
    if (this.isUnsaved?.()) this.held = work;
    else work();
  }

  private change(wanted: string): void {
    if (wanted === this.address) return;
    if (this.isUnsaved?.()) history.replaceState(null, '', this.address);
    this.leave(() => {
      this.address = wanted;
      if (location.hash !== wanted) location.hash = wanted;
      this.at = parse(wanted);
    });
  }
}

export const router = new Router();

export function href(screen: Screen, rest = ''): string {
  return `#/${screen}${rest ? `/${encodeURIComponent(rest)}` : ''}`;
}
