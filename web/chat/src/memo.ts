// A component that renders again only when its props change.

import { type ComponentChild, createElement, type FunctionComponent, Component } from "preact";

export function memo<P extends object>(inner: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const before = this.props as Record<string, unknown>, after = next as Record<string, unknown>;
      return Object.keys(after).some((key) => after[key] !== before[key]);
    }
    override render(): ComponentChild { return createElement(inner, this.props as P); }
  }
  return Memo as unknown as FunctionComponent<P>;
}
