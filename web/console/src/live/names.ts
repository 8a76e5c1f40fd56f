// Names of spans in the language of the console; unknown names are shown as sent by the server.
import { type Key, t } from '../i18n/index.svelte';
import { LANES } from './layout';

export function spanName(name: string): string {
  return LANES.some((known) => known === name) ? t(`span.${name}` as Key) : name;
}
