// The code of the first run that an address such as `#/setup?code=4821-9035` brings. It is taken out of the address before the
// address is read for anything else, so that it is neither shown nor copied along. Not for using it.
import { codeIn } from '../setup/checks';

class Brought {
  code = $state('');

  constructor() {
    this.take();
    addEventListener('hashchange', () => this.take());
  }

  private take(): void {
    const code = codeIn(location.hash);
    if (code === null) return;
    this.code = code;
    history.replaceState(null, '', '#/home');
  }
}

export const brought = new Brought();
