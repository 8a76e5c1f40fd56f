// The difference between two texts, by sentence, with some unchanged context. Not for showing it.

export interface Part { kind: 'same' | 'gone' | 'new'; text: string }

/** Maximum product of the numbers of sentences; larger texts are compared at their start and end only. */
const MOST_CELLS = 200_000;
/** Characters of unchanged text on each side of a change. */
const CONTEXT = 40;

/** Splits a text after each sentence and line; the joined pieces are the text. */
export function pieces(text: string): string[] {
  return text.match(/[^.!?。！？；;\n]*[.!?。！？；;\n]+\s*|[^.!?。！？；;\n]+$/g) ?? [];
}

/** Returns the unchanged, removed and added parts, in order. */
export function difference(before: string, after: string): Part[] {
  const [old, next] = [pieces(before), pieces(after)];
  let begin = 0;
  while (begin < old.length && begin < next.length && old[begin] === next[begin]) begin++;
  let end = 0;
  while (end < Math.min(old.length, next.length) - begin && old.at(-1 - end) === next.at(-1 - end)) end++;
  const middle = compare(old.slice(begin, old.length - end), next.slice(begin, next.length - end));
  const same = (some: string[]): Part[] => some.map((text) => ({ kind: 'same', text }));
  return joined([...same(old.slice(0, begin)), ...middle, ...same(old.slice(old.length - end))]);
}

/** Compares by the longest common subsequence of pieces. */
function compare(old: string[], next: string[]): Part[] {
  const width = next.length + 1;
  if ((old.length + 1) * width > MOST_CELLS) return [part('gone', old.join('')), part('new', next.join(''))];
  const common = new Uint16Array((old.length + 1) * width);
  const at = (i: number, j: number) => common[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = next.length - 1; j >= 0; j--) {
      common[i * width + j] = old[i] === next[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const parts: Part[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < next.length) {
    if (i < old.length && j < next.length && old[i] === next[j]) {
      parts.push(part('same', old[i++]));
      j++;
    } else if (j >= next.length || (i < old.length && at(i + 1, j) >= at(i, j + 1))) parts.push(part('gone', old[i++]));
    else parts.push(part('new', next[j++]));
  }
  return parts;
}

const part = (kind: Part['kind'], text = ''): Part => ({ kind, text });

/** Merges adjacent parts of one kind, removed before added ones, and drops empty ones. */
function joined(parts: readonly Part[]): Part[] {
  const all: Part[] = [];
  let [gone, came] = ['', ''];
  const flush = () => {
    if (gone) all.push(part('gone', gone));
    if (came) all.push(part('new', came));
    gone = came = '';
  };
  for (const one of parts) {
    if (one.kind === 'gone') gone += one.text;
    else if (one.kind === 'new') came += one.text;
    else if (one.text) {
      const before = gone || came ? undefined : all.at(-1);
      flush();
      if (before?.kind === 'same') before.text += one.text;
      else all.push({ ...one });
    }
  }
  flush();
  return all;
}

/** Shortens unchanged parts to the context of a change. */
export function abridged(parts: readonly Part[]): Part[] {
  return parts.map((one, n) => {
    if (one.kind !== 'same') return one;
    const letters = [...one.text];
    const head = n > 0 ? letters.slice(0, CONTEXT).join('') : '';
    const tail = n < parts.length - 1 ? letters.slice(-CONTEXT).join('') : '';
    const isShort = letters.length <= CONTEXT * (head && tail ? 2 : 1);
    return isShort ? one : { ...one, text: `${head}…${tail}` };
  });
}
