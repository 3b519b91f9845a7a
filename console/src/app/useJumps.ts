/** The keyboard everywhere: `/` to the search field, `g` and a letter to a page, `?` for the list of these. */
import { useEffect, useRef } from 'react';
import { useNavigate } from 'react-router';

import type { Part } from './nav';

const TYPING = 'input, textarea, select, [contenteditable="true"], [role="dialog"] *';
const PATIENCE_MS = 5_000;

export function useJumps(parts: readonly Part[], onHelp: () => void): void {
  const navigate = useNavigate();
  const leader = useRef(0);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if ((event.target as HTMLElement).closest(TYPING) !== null) return;
      const led = leader.current > 0 && event.timeStamp - leader.current < PATIENCE_MS;
      leader.current = 0;
      if (led) {
        const place = parts.flatMap((part) => part.places).find((one) => one.key === event.key);
        if (place !== undefined) void navigate(place.to);
      } else if (event.key === 'g') leader.current = event.timeStamp;
      else if (event.key === '?') onHelp();
      else if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('[data-search]');
        if (field !== null) {
          event.preventDefault();
          field.focus();
          field.select();
        }
      }
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  }, [navigate, parts, onHelp]);
}
