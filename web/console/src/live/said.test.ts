// Checks what is told as heard of an answer that was cut off.
import { describe, expect, it } from 'vitest';
import { heardPart } from './said';

describe('what was heard of an answer', () => {
  it('is all but the end that was cut off', () => {
    expect(heardPart({ said: 'One two. Three four.', cut_off: 'four.' })).toBe('One two. Three');
    expect(heardPart({ said: 'One two.', cut_off: 'One two.' })).toBe('');
    expect(heardPart({ said: '一二三。四五。', cut_off: '四五。' })).toBe('一二三。');
  });

  it('is all of it where nothing was cut off, or something else', () => {
    expect(heardPart({ said: 'One.', cut_off: null })).toBe('One.');
    expect(heardPart({ said: 'One.', cut_off: 'Two.' })).toBe('One.');
    expect(heardPart({ said: null, cut_off: null })).toBe('');
  });
});
