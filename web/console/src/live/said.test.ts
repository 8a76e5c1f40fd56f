// Checks the heard part of a reply that was cut off.
import { describe, expect, it } from 'vitest';
import { heardPart } from './said';

describe('the heard part of a reply', () => {
  it('is the reply without the part that was cut off', () => {
    expect(heardPart({ said: 'One two. Three four.', cut_off: 'four.' })).toBe('One two. Three');
    expect(heardPart({ said: 'One two.', cut_off: 'One two.' })).toBe('');
    expect(heardPart({ said: '一二三。四五。', cut_off: '四五。' })).toBe('一二三。');
  });

  it('is the whole reply if nothing was cut off, or another text', () => {
    expect(heardPart({ said: 'One.', cut_off: null })).toBe('One.');
    expect(heardPart({ said: 'One.', cut_off: 'Two.' })).toBe('One.');
    expect(heardPart({ said: null, cut_off: null })).toBe('');
  });
});
