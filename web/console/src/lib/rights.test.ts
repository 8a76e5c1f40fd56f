// Checks which rights open which screens.
import { describe, expect, it } from 'vitest';
import { isAtLeast, LEAST, type Right, RIGHTS } from './rights';

const opened = (right: Right) => Object.entries(LEAST).filter(([, least]) => isAtLeast(right, least)).map(([screen]) => screen).sort();

describe('rights', () => {
  it('contain those below them', () => {
    const contained = RIGHTS.map((right) => RIGHTS.filter((least) => isAtLeast(right, least)));
    expect(contained).toEqual([['guest'], ['guest', 'member'], ['guest', 'member', 'administrator']]);
  });

  it('that are not known open nothing', () => {
    expect(RIGHTS.filter((least) => isAtLeast('owner' as Right, least))).toEqual([]);
  });
});

describe('screens', () => {
  it('of a guest are the state of the server, Talk, the devices, and the own account', () => {
    expect(opened('guest')).toEqual(['account', 'devices', 'home', 'talk']);
  });

  it('of a member are all but those of the administrator', () => {
    const closed = Object.keys(LEAST).filter((screen) => !opened('member').includes(screen));
    expect(closed.sort()).toEqual(['audit', 'conversations', 'settings']);
  });

  it('are all open to an administrator', () => {
    expect(opened('administrator')).toEqual(Object.keys(LEAST).sort());
  });
});
