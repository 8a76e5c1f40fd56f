// Unsaved changes of roles that a log-in has to come between: a session that ends by itself takes the form away. They last
// until the page is loaded anew. Not for changes that the person gave up.
import type { RoleFields } from '../lib/types';

export const drafts = new Map<string, RoleFields>();
