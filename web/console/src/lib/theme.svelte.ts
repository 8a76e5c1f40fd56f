// The theme: that of the system, light or dark. Not for the colours, which are in app.css.
import { recall, remember } from './storage';

export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

class ThemeState {
  choice = $state<Theme>(THEMES.find((t) => t === recall('theme')) ?? 'system');

  constructor() {
    this.apply();
  }

  choose(choice: Theme): void {
    this.choice = choice;
    remember('theme', choice);
    this.apply();
  }

  private apply(): void {
    const root = document.documentElement;
    if (this.choice === 'system') delete root.dataset.theme;
    else root.dataset.theme = this.choice;
  }
}

export const theme = new ThemeState();
