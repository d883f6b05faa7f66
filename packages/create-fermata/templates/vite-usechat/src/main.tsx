import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Chat } from './components/Chat';
import './index.css';

// A chat is at /?chat=<id>. The page without an id begins a new one.
const shown = new URLSearchParams(location.search).get('chat');
const id = shown ?? crypto.randomUUID();

const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no element with the id "root".');
createRoot(root).render(
  <StrictMode>
    <Chat id={id} isNew={shown === null} chatPath="/?chat=" />
  </StrictMode>,
);
