import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Assistant } from './components/Assistant';
import './index.css';

const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no element with the id "root".');
createRoot(root).render(
  <StrictMode>
    <Assistant />
  </StrictMode>,
);
