// The inbox: the calls of all chats and owners that wait for the person, and earlier decisions.

import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import '../theme.css';
import '../chat/frame/chat.css';
import { loadTools } from '../chat/server/useTools';
import { setUpLanguage } from '../i18n';
import { setUpTheme } from '../i18n/theme';
import { InboxPage } from './InboxPage';

setUpTheme();
setUpLanguage();
void loadTools();

const root = document.getElementById('root');
if (root)
  createRoot(root).render(
    <StrictMode>
      <InboxPage />
    </StrictMode>,
  );
