// The first steps with a new server: whether they are shown, and which are done. Not for their texts.
import type { Outcome } from './estimate';

export interface Known {
  dismissed: boolean;
  /** Whether this browser, and whether this tab, has ever tested a service. */
  tested: boolean;
  testedHere: boolean;
  /** Number of devices known to the server; null until loaded. */
  devices: number | null;
}

/** Returns true until the server has seen a device. Tests in this tab do not hide the list, which shows their result. */
export function areShown(known: Known): boolean {
  return !known.dismissed && known.devices === 0 && (!known.tested || known.testedHere);
}

export type Step = 'test' | 'talk' | 'board' | 'password';

/** Returns the steps; `done` is null if the page cannot know it. */
export function stepsOf(last: Outcome | null, isAdministrator: boolean, passwordMissing: boolean): { step: Step; done: boolean | null }[] {
  const steps: { step: Step; done: boolean | null }[] = [
    { step: 'test', done: last !== null && last.failed.length === 0 },
    { step: 'talk', done: null },
    { step: 'board', done: null },
  ];
  // With a password set, the admin token still logs in, but nothing is left to do.
  if (isAdministrator) steps.push({ step: 'password', done: !passwordMissing });
  return steps;
}
