// The first steps with a new server: whether they are shown, and which of them are done. Not for their words.
import type { Outcome } from './estimate';

export interface Known {
  dismissed: boolean;
  /** True if this browser has ever tested a service, and true if it did in this tab. */
  tested: boolean;
  testedHere: boolean;
  /** How many devices the server knows; null while that is not known. */
  devices: number | null;
}

/** Returns true until a device was seen; what this tab has tested does not take the list away, for it shows the result. */
export function areShown(known: Known): boolean {
  return !known.dismissed && known.devices === 0 && (!known.tested || known.testedHere);
}

export type Step = 'test' | 'talk' | 'board' | 'password';

/** Returns the steps, with null for those of which the page cannot tell whether they are done. */
export function stepsOf(last: Outcome | null, isAdministrator: boolean, passwordMissing: boolean): { step: Step; done: boolean | null }[] {
  const steps: { step: Step; done: boolean | null }[] = [
    { step: 'test', done: last !== null && last.failed.length === 0 },
    { step: 'talk', done: null },
    { step: 'board', done: null },
  ];
  // The admin token logs in beside a password too, and nothing is left to do then.
  if (isAdministrator) steps.push({ step: 'password', done: !passwordMissing });
  return steps;
}
