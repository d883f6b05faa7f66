// A field that is as high as its text. It measures itself: not every browser knows `field-sizing`, and a height that is off by a
// fraction of a pixel makes WebKit show a scrollbar.

import { useImperativeHandle, useLayoutEffect, useRef, type ComponentProps } from 'react';

export function GrowingTextarea({ ref, ...props }: ComponentProps<'textarea'>) {
  const field = useRef<HTMLTextAreaElement>(null);
  useImperativeHandle<HTMLTextAreaElement | null, HTMLTextAreaElement | null>(ref, () => field.current);
  useLayoutEffect(() => {
    const { current } = field;
    if (current === null) return;
    current.style.height = 'auto';
    const borders = current.offsetHeight - current.clientHeight;
    current.style.height = `${current.scrollHeight + borders}px`;
  }, [props.value]);
  return <textarea rows={1} dir="auto" {...props} ref={field} />;
}
