// A diagram in the language of Mermaid. A model has written it, so it is drawn in a frame with an origin of its own, which may load
// nothing. The frame's page has Mermaid in it (see vite.config.ts), so that comes with the first diagram. The text is shown until the
// diagram is drawn, and if it cannot be drawn.

import { Code, Workflow } from 'lucide-react';
import { createContext, useContext, useEffect, useRef, useState, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import page from 'virtual:diagram';
import { isRecord } from '../record/isRecord';
import { IconButton } from '../ui/IconButton';
import { CodeBlock } from './CodeBlock';

/** `true` in a text that is still being written. A diagram without its end would be another one. */
export const IsGrowing = createContext(false);

type Drawing = { state: 'pending' } | { state: 'drawn'; height: number } | { state: 'failed' };

interface Props {
  text: string;
  /** The text as code. */
  children: ReactNode;
}

export function Diagram({ text, children }: Props) {
  const { t } = useTranslation();
  const isGrowing = useContext(IsGrowing);
  const [drawing, setDrawing] = useState<Drawing>({ state: 'pending' });
  const [wantsText, setWantsText] = useState(false);
  const isShown = drawing.state === 'drawn' && !isGrowing && !wantsText;
  const action = drawing.state === 'drawn' && (
    <IconButton
      label={t(wantsText ? 'diagram.draw' : 'diagram.text')}
      onClick={() => {
        setWantsText(!wantsText);
      }}
    >
      {wantsText ? <Workflow /> : <Code />}
    </IconButton>
  );
  return (
    <CodeBlock
      language="mermaid"
      actions={action}
      isHidden={isShown}
      drawing={
        <>
          {drawing.state === 'failed' && (
            <p className="px-4 pb-3 text-sm text-muted">{t('diagram.failed')}</p>
          )}
          {!isGrowing && (
            // Mermaid measures what it draws, so the frame keeps its width while the text is shown.
            <div className={`px-4 ${isShown ? 'pb-3.5' : 'invisible h-0 overflow-hidden'}`}>
              <Frame
                text={text}
                height={drawing.state === 'drawn' ? drawing.height : 0}
                onChange={setDrawing}
              />
            </div>
          )}
        </>
      }
    >
      {children}
    </CodeBlock>
  );
}

/** The colours of the page, by Mermaid's names. */
function look() {
  const root = document.documentElement;
  const style = getComputedStyle(root);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const isDark = root.dataset['theme'] === 'dark';
  return {
    colorScheme: isDark ? 'dark' : 'light',
    themeVariables: {
      darkMode: isDark,
      background: colour('sunken'),
      edgeLabelBackground: colour('sunken'),
      primaryColor: colour('accent-soft'),
      primaryBorderColor: colour('accent'),
      primaryTextColor: colour('ink'),
      secondaryColor: colour('wait-soft'),
      tertiaryColor: colour('raised'),
      lineColor: colour('muted'),
      noteBkgColor: colour('wait-soft'),
      noteTextColor: colour('ink'),
      noteBorderColor: colour('wait'),
      fontFamily: style.fontFamily,
    },
  };
}

interface FrameProps {
  text: string;
  height: number;
  onChange: (drawing: Drawing) => void;
}

function Frame({ text, height, onChange }: FrameProps) {
  const { t } = useTranslation();
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    const draw = () => {
      // Its origin has no name that could be given here.
      frame.current?.contentWindow?.postMessage({ text, ...look() }, '*');
    };
    const onMessage = ({ source, data }: MessageEvent<unknown>) => {
      if (source === null || source !== frame.current?.contentWindow || !isRecord(data)) return;
      if (data['isReady'] === true) draw();
      else if (data['hasFailed'] === true) onChange({ state: 'failed' });
      else if (typeof data['height'] === 'number') onChange({ state: 'drawn', height: data['height'] });
    };
    const themes = new MutationObserver(draw);
    addEventListener('message', onMessage);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    draw();
    return () => {
      removeEventListener('message', onMessage);
      themes.disconnect();
    };
  }, [text, onChange]);
  return (
    <iframe
      ref={frame}
      title={t('diagram.label')}
      sandbox="allow-scripts"
      src={page}
      style={{ height }}
      className="block w-full"
    />
  );
}
