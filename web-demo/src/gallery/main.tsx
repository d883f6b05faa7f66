// The page of the cards: /gallery. `/gallery#plan` leads to one of them, and `?answer=refuse` has every answer refused.

import i18next from 'i18next';
import { createRoot } from 'react-dom/client';
import '../theme.css';
import '../chat/frame/chat.css';
import { setUpLanguage } from '../i18n';
import { setUpTheme } from '../i18n/theme';
import { Gallery } from './Gallery';
import { texts } from './texts';

setUpTheme();
setUpLanguage();
i18next.addResourceBundle('en', 'gallery', texts.en);
i18next.addResourceBundle('zh', 'gallery', texts.zh);

const root = document.getElementById('root');
if (root !== null) createRoot(root).render(<Gallery />);
