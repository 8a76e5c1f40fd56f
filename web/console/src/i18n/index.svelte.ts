// The language of the console: chosen by the browser, then by the user. Not for the texts, which are in the dictionaries.
import { recall, remember } from '../lib/storage';
import { fill, type Language, LANGUAGES, preferred } from './choose';
import { en } from './en';
import { enAccounts } from './en-accounts';
import { enCosts } from './en-costs';
import { enErrors } from './en-errors';
import { enManage } from './en-manage';
import { enRoles } from './en-roles';
import { enServices } from './en-services';
import { enSetup } from './en-setup';
import { zh } from './zh';
import { zhAccounts } from './zh-accounts';
import { zhCosts } from './zh-costs';
import { zhErrors } from './zh-errors';
import { zhManage } from './zh-manage';
import { zhRoles } from './zh-roles';
import { zhServices } from './zh-services';
import { zhSetup } from './zh-setup';

export { type Language, LANGUAGES };
export type Key =
  | keyof typeof en | keyof typeof enAccounts | keyof typeof enCosts | keyof typeof enErrors | keyof typeof enManage
  | keyof typeof enRoles | keyof typeof enServices | keyof typeof enSetup;
export type Words = Record<Key, string>;

export const dictionaries: Record<Language, Words> = {
  en: { ...en, ...enAccounts, ...enCosts, ...enErrors, ...enManage, ...enRoles, ...enServices, ...enSetup },
  zh: { ...zh, ...zhAccounts, ...zhCosts, ...zhErrors, ...zhManage, ...zhRoles, ...zhServices, ...zhSetup },
};

class LanguageState {
  now = $state<Language>(LANGUAGES.find((l) => l === recall('language')) ?? preferred(navigator.languages ?? []));

  constructor() {
    this.apply();
  }

  choose(language: Language): void {
    this.now = language;
    remember('language', language);
    this.apply();
  }

  get tag(): string {
    return this.now === 'zh' ? 'zh-CN' : 'en';
  }

  private apply(): void {
    document.documentElement.lang = this.tag;
  }
}

export const language = new LanguageState();

/** Returns the text of a key in the current language. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return fill(dictionaries[language.now][key], values);
}
