// Keeps what one message does wrong away from the others: a part of an unforeseen form must not take the page
// with it.

import { Component, type ReactNode } from 'react';

interface Props {
  /** The replacement to show. */
  instead: ReactNode;
  /** Another value tries again. */
  attempt: unknown;
  children: ReactNode;
}

export class Contained extends Component<Props, { hasFailed: boolean }> {
  override state: { hasFailed: boolean } = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override componentDidUpdate(before: Props) {
    if (this.state.hasFailed && before.attempt !== this.props.attempt) this.setState({ hasFailed: false });
  }

  override render() {
    return this.state.hasFailed ? this.props.instead : this.props.children;
  }
}
