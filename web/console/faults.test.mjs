// Checks that the console has every code of the server's fault table. Not for the texts: see src/lib/lib.test.ts.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { SERVER_FAULTS } from './src/lib/errors';

it('the codes of the console are those of the fault table', () => {
  const table = readFileSync(new URL('../../proto/src/fault.rs', import.meta.url), 'utf8');
  const codes = [...table.matchAll(/"([A-Z_]+)",\s*\d{3},/g)].map(([, code]) => code);
  expect(codes.length).toBeGreaterThan(0);
  expect([...SERVER_FAULTS].sort()).toEqual(codes.sort());
});
