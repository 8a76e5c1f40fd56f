// Names of spans in the language of the console; one that is not known is shown as the server wrote it.
import { type Key, t } from '../i18n/index.svelte';
import { LANES } from './layout';

export function spanName(name: string): string {
  return LANES.some((known) => known === name) ? t(`span.${name}` as Key) : name;
}
