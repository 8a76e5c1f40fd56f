// The tool permissions of the configuration, which can be changed at run time. Not for showing them.
import { admin } from '../lib/api';
import { Action, Resource } from '../lib/resource.svelte';
import type { Settings, ToolPolicy } from '../lib/types';

export const POLICIES: readonly ToolPolicy[] = ['allow', 'ask', 'never'];
const PATTERNS = 'tools.policy';
const CHANGED = 'tools.changed_definitions';

/** Returns the policy of each pattern, sorted by pattern. */
export function patternsOf(settings: Settings | null): [string, ToolPolicy][] {
  const patterns = (settings?.settings['tools']?.['policy'] ?? {}) as Record<string, ToolPolicy>;
  return Object.entries(patterns).sort(([a], [b]) => (a < b ? -1 : 1));
}

export class Policies {
  readonly config = new Resource(admin.config);
  readonly saving = new Action();
  readonly patterns = $derived(patternsOf(this.config.data));
  /** The policy of tools with a changed definition. */
  readonly changed = $derived((this.config.data?.settings['tools']?.['changed_definitions'] ?? 'ask') as ToolPolicy);
  /** True if an environment variable sets the permissions. */
  readonly isFixed = $derived([PATTERNS, CHANGED].some((key) => this.config.data?.sources[key] === 'environment'));

  /** Sets the policy of a pattern; null removes it. Concurrent changes of other patterns stay. */
  set(pattern: string, policy: ToolPolicy | null): Promise<boolean> {
    return this.save(async () => {
      const { [pattern]: _, ...others } = Object.fromEntries(patternsOf(await admin.config()));
      await admin.change({ [PATTERNS]: policy === null ? others : { ...others, [pattern]: policy } });
    });
  }

  setChanged(policy: ToolPolicy): Promise<boolean> {
    return this.save(() => admin.change({ [CHANGED]: policy }));
  }

  private async save(work: () => Promise<unknown>): Promise<boolean> {
    const saved = await this.saving.run(work);
    await this.config.load();
    return saved;
  }
}
