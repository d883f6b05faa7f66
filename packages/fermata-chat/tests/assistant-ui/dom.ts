// A document for React, and nothing else of a browser: requests and streams stay Node's own.

import { Window } from 'happy-dom';

const window = new Window({ url: 'http://localhost/' });

Object.assign(globalThis, {
  window,
  navigator: window.navigator,
  document: window.document,
  HTMLElement: window.HTMLElement,
  HTMLIFrameElement: window.HTMLIFrameElement,
  Node: window.Node,
  IS_REACT_ACT_ENVIRONMENT: false, // Nothing is flushed by hand: the page renders when it likes.
});
