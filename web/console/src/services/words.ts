// The outcome of a test of all services as a sentence. Not for computing it: see estimate.ts.
import { language, t } from '../i18n/index.svelte';
import { type Outcome, seconds } from './estimate';

export function sentenceOf(outcome: Outcome): string {
  if (outcome.ms !== null) return t('services.estimate', { seconds: seconds(outcome.ms) });
  const names = outcome.failed.map((service) => t(`service.${service}`));
  return t('services.noEstimate', { names: new Intl.ListFormat(language.tag, { type: 'conjunction' }).format(names) });
}
