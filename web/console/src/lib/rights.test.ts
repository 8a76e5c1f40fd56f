// Checks which access levels open which screens.
import { describe, expect, it } from 'vitest';
import { isAtLeast, LEAST, type Right, RIGHTS } from './rights';

const opened = (right: Right) => Object.entries(LEAST).filter(([, least]) => isAtLeast(right, least)).map(([screen]) => screen).sort();

describe('access levels', () => {
  it('include those below them', () => {
    const contained = RIGHTS.map((right) => RIGHTS.filter((least) => isAtLeast(right, least)));
    expect(contained).toEqual([['guest'], ['guest', 'member'], ['guest', 'member', 'administrator']]);
  });

  it('that are unknown open nothing', () => {
    expect(RIGHTS.filter((least) => isAtLeast('owner' as Right, least))).toEqual([]);
  });
});

describe('screens', () => {
  it('of a guest are Home, Talk, Devices, and the own account', () => {
    expect(opened('guest')).toEqual(['account', 'devices', 'home', 'talk']);
  });

  it('of a member are all except those of administrators', () => {
    const closed = Object.keys(LEAST).filter((screen) => !opened('member').includes(screen));
    expect(closed.sort()).toEqual(['audit', 'conversations', 'settings']);
  });

  it('are all open to an administrator', () => {
    expect(opened('administrator')).toEqual(Object.keys(LEAST).sort());
  });
});
