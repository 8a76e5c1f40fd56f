// The code of the first run in an address such as `#/setup?code=4821-9035`. It is removed from the address before the
// router reads it, so that it is neither shown nor copied. Not for using the code.
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
