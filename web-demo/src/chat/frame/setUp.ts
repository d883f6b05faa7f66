// What a page does before its first rendering.

import '../../theme.css';
import './chat.css';
import { setUpLanguage } from '../../i18n';
import { setUpTheme } from '../../i18n/theme';
import { findMemory } from '../memories/memories';
import { setUpChatId } from '../server/chatId';
import { loadTools } from '../server/useTools';
import { preloadMarkdown } from '../text/Text';

export function setUp() {
  setUpTheme();
  setUpLanguage();
  setUpChatId();
  preloadMarkdown();
  void loadTools();
  void findMemory();
}
