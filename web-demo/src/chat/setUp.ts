// What a page does before its first rendering.

import '../theme.css';
import './chat.css';
import { setUpLanguage } from '../i18n';
import { setUpTheme } from '../i18n/theme';
import { setUpChatId } from './chatId';
import { findMemory } from './memories/memories';
import { preloadMarkdown } from './Text';
import { loadTools } from './useTools';

export function setUp() {
  setUpTheme();
  setUpLanguage();
  setUpChatId();
  preloadMarkdown();
  void loadTools();
  void findMemory();
}
