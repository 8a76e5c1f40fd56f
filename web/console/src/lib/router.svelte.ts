// Which screen is shown: the part of the address after `#/`. Not for what a screen shows.

export const SCREENS = [
  'home', 'talk', 'live', 'history', 'devices', 'people', 'tools', 'settings', 'conversations', 'audit',
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

  constructor() {
    addEventListener('hashchange', () => (this.at = parse(location.hash)));
  }
}

export const router = new Router();

export function href(screen: Screen, rest = ''): string {
  return `#/${screen}${rest ? `/${encodeURIComponent(rest)}` : ''}`;
}
