// Unsaved changes of roles while the user has to log in again: an expired session removes the form. They last until the
// page is reloaded. Not for discarded changes.
import type { RoleFields } from '../lib/types';

export const drafts = new Map<string, RoleFields>();
