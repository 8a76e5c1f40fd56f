// Which screen is shown: the part of the address after `#/`, and whether it may be left. Not for what a screen shows.
import './code.svelte';

export const SCREENS = [
  'home', 'talk', 'live', 'history', 'devices', 'people', 'roles', 'services', 'costs', 'tools', 'settings', 'conversations',
  'audit', 'account',
] as const;
export type Screen = (typeof SCREENS)[number];

/** Returns the screen and the rest of a hash such as `#/devices/aa:bb`. */
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
  /** What goes on once the person agrees to lose unsaved changes; null if nobody is asked. */
  held = $state.raw<(() => void) | null>(null);
  private address = location.hash;
  private isUnsaved: (() => boolean) | null = null;

  constructor() {
    addEventListener('hashchange', () => this.change(location.hash));
  }

  /** Asks before what is shown is left while `isUnsaved` says so. Returns what ends it. */
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

  /** Does what leaves the screen, at once or after the question. */
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
