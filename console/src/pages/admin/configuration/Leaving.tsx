/** Asks before a page is left, closed or loaded anew with changes that are not saved. */
import { useEffect } from 'react';
import { useBlocker } from 'react-router';

import { Confirm } from '../../../parts/Confirm';

export function Leaving({ unsaved }: { unsaved: boolean }) {
  const blocker = useBlocker(({ currentLocation, nextLocation }) => unsaved && currentLocation.pathname !== nextLocation.pathname);
  useEffect(() => {
    if (!unsaved) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', ask);
    return () => window.removeEventListener('beforeunload', ask);
  }, [unsaved]);
  return (
    <Confirm
      ask={blocker.state === 'blocked' ? { title: 'Leave without saving?', children: 'What you changed here is not in force yet, and is lost when you leave.', action: 'Leave', danger: true } : null}
      busy={false}
      error={null}
      onClose={() => blocker.reset?.()}
      onConfirm={() => blocker.proceed?.()}
    />
  );
}
