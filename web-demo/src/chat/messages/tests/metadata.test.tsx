// The line of facts under an answer.

import { expect, it } from 'vitest';
import { render, screen } from '@testing-library/react';
import { setUpPage } from '../../tests/page';
import { MetadataLine } from '../MessageView';

setUpPage();

it('says that an answer ended at the limit of steps, and nothing of other answers', () => {
  const { rerender } = render(<MetadataLine metadata={{ model: 'demo', ending: 'step_limit' }} />);
  expect(screen.getByText(/^demo · stopped at the step limit$/)).toBeTruthy();
  rerender(<MetadataLine metadata={{ model: 'demo', ending: 'finished' }} />);
  expect(screen.getByText('demo')).toBeTruthy();
});

it('counts the tokens of the answer, and not those of everything that the model was sent', () => {
  const usage = { inputTokens: 2900, outputTokens: 77, totalTokens: 2977 };
  const { rerender } = render(<MetadataLine metadata={{ model: 'demo', usage }} />);
  expect(screen.getByText('demo · 77 tokens')).toBeTruthy();
  rerender(<MetadataLine metadata={{ model: 'demo', usage: { totalTokens: 2977 } }} />);
  expect(screen.getByText('demo')).toBeTruthy();
});
