/**
 * What is chosen for a batch in the making, kept in this tab beside the file and the batch it is of: a reload, signing in
 * again and the way back from another page find it as it was.
 */
import { useEffect, useState } from 'react';

import { type Choices, NO_CHOICES } from './wire';

/** Whose draft it is, and of what. */
export interface DraftOf {
  accountId: string;
  from: string | null;
  file: string | null;
}

const KEPT = 'ebbtide-draft';

function read({ accountId, from, file }: DraftOf): Choices | null {
  const text = sessionStorage.getItem(KEPT);
  if (text === null || file === null) return null;
  const kept = JSON.parse(text) as DraftOf & { choices: Choices };
  return kept.accountId === accountId && kept.from === from && kept.file === file ? kept.choices : null;
}

/** The choices, and whether those of before were found when the page was opened. */
export function useDraft({ accountId, from, file }: DraftOf) {
  const [found] = useState(() => read({ accountId, from, file }));
  const [choices, setChoices] = useState(found ?? NO_CHOICES);
  useEffect(() => {
    if (file !== null && choices !== NO_CHOICES) sessionStorage.setItem(KEPT, JSON.stringify({ accountId, from, file, choices }));
  }, [accountId, from, file, choices]);
  return { choices, setChoices, restored: found !== null };
}
