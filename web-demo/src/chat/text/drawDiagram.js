// Runs in the frame of a diagram (see Diagram.tsx), after Mermaid. The frame has an origin of its own: nothing in it reaches the page,
// what the browser keeps for the page, or any server. It receives a text and colours, and sends the height of its drawing.

const { mermaid } = globalThis;
const tell = (message) => {
  parent.postMessage(message, '*');
};
const tellHeight = () => {
  tell({ height: Math.ceil(document.body.getBoundingClientRect().height) });
};
const resizes = new ResizeObserver(tellHeight);

const draw = async ({ text, colorScheme, themeVariables }) => {
  resizes.disconnect();
  document.documentElement.style.colorScheme = colorScheme;
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: 'strict',
    suppressErrorRendering: true,
    htmlLabels: false,
    theme: 'base',
    themeVariables,
  });
  try {
    const { svg } = await mermaid.render('diagram', text);
    document.body.innerHTML = svg;
    // A frame that is hidden gets no reports of sizes.
    tellHeight();
    resizes.observe(document.body);
  } catch {
    tell({ hasFailed: true });
  }
};

// One after the other, because Mermaid measures in the document.
let drawing = Promise.resolve();
addEventListener('message', ({ source, data }) => {
  if (source === parent) drawing = drawing.then(() => draw(data));
});
tell({ isReady: true });
