/**
 * Submissions, kept in the browser through reloads and for every tab of it until their outcome is known, and a day longer
 * for tabs that do not know it yet. The first tab that begins one gives it its Idempotency-Key and its file; what the
 * others write later does not count.
 */
import type { Schemas } from '../../api/client';

export interface Submission {
  /** The account, what is submitted and how it is called: the same submission in every tab. */
  id: string;
  accountId: string;
  idempotencyKey: string;
  name: string;
  endpoint: Schemas['BatchSubmission']['endpoint'];
  metadata: Record<string, string>;
  /** The file that was chosen, and the one of the requests as they are stored: the same, or the batch's own copy. */
  sourceId: string;
  fileId: string | null;
  /** What the check found, which must still hold. */
  checked: Schemas['CheckFound'];
  /** When its create call was first made, in Unix milliseconds; null: not yet, so that nothing can have come of it. */
  sentAt: number | null;
  /** What it made, and when that was learnt. */
  made: { batchId: string; at: number } | null;
}

const STORE = 'submissions';
let opened: Promise<IDBDatabase> | null = null;

function open(): Promise<IDBDatabase> {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open('ebbtide', 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: 'id' });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('The browser keeps nothing for this page'));
  });
  return opened;
}

async function within<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore, give: (value: T) => void) => void): Promise<T> {
  const database = await open();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(STORE, mode);
    let given: T;
    work(transaction.objectStore(STORE), (value) => {
      given = value;
    });
    transaction.oncomplete = () => resolve(given);
    transaction.onabort = () => reject(transaction.error ?? new Error('The browser could not keep the submission'));
  });
}

/** The submission as it was begun first, here or in another tab; one that had made its batch before `since` is over. */
export function begin(fresh: Submission, since: number): Promise<Submission> {
  return within<Submission>('readwrite', (store, give) => {
    const found = store.get(fresh.id);
    found.onsuccess = () => {
      const before = found.result as Submission | undefined;
      const kept = before === undefined || (before.made !== null && before.made.at < since) ? fresh : before;
      store.put(kept);
      give(kept);
    };
  });
}

/** The submission with what `change` makes of it; null when it is no longer kept. */
export function amend(known: Submission, change: (kept: Submission) => Submission): Promise<Submission | null> {
  return within<Submission | null>('readwrite', (store, give) => {
    give(null);
    whereKept(store, known, (kept) => {
      const changed = change(kept);
      store.put(changed);
      give(changed);
    });
  });
}

export function forget(known: Submission): Promise<void> {
  return within<void>('readwrite', (store) => whereKept(store, known, () => store.delete(known.id)));
}

/** Do `work` while no other tab of this browser is at the same submission. Browsers have locks on secure pages only. */
export async function alone(id: string, work: () => Promise<string>): Promise<string> {
  return 'locks' in navigator ? navigator.locks.request(id, work) : work();
}

/** Whether a tab of this browser is at it. */
export async function isUnderWay(id: string): Promise<boolean> {
  if (!('locks' in navigator)) return false;
  const { held = [] } = await navigator.locks.query();
  return held.some(({ name }) => name === id);
}

/** Its id may stand for a later submission of the same: that one is left alone. */
function whereKept(store: IDBObjectStore, known: Submission, work: (kept: Submission) => void): void {
  const found = store.get(known.id);
  found.onsuccess = () => {
    const kept = found.result as Submission | undefined;
    if (kept?.idempotencyKey === known.idempotencyKey) work(kept);
  };
}

const REMEMBERED_MS = 24 * 3_600_000;

/** Those of the account; what was made long ago is forgotten. */
export function listSubmissions(accountId: string): Promise<Submission[]> {
  return within<Submission[]>('readwrite', (store, give) => {
    const found = store.getAll();
    found.onsuccess = () => {
      const all = found.result as Submission[];
      for (const { id, made } of all) if (made !== null && Date.now() - made.at > REMEMBERED_MS) store.delete(id);
      give(all.filter((kept) => kept.accountId === accountId));
    };
  });
}
