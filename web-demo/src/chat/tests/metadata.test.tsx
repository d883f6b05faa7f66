// The line of facts under an answer.

import { expect, it } from 'vitest';
import { render, screen } from '@testing-library/react';
import { MetadataLine } from '../MessageView';
import { setUpPage } from './page';

setUpPage();

it('says that an answer ended at the limit of steps, and nothing of other answers', () => {
  const { rerender } = render(<MetadataLine metadata={{ model: 'demo', stopped: 'step_limit' }} />);
  expect(screen.getByText(/^demo · ended because it had as many steps as it may have$/)).toBeTruthy();
  rerender(<MetadataLine metadata={{ model: 'demo' }} />);
  expect(screen.getByText('demo')).toBeTruthy();
});
