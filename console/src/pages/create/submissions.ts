/**
 * Submissions whose outcome is not known yet, kept in the browser: through reloads, and for every tab of it. The first
 * tab that begins one gives it its Idempotency-Key and its file; what the others write later does not count.
 */

export interface Submission {
  /** The account, what is submitted and how it is called: the same submission in every tab. */
  id: string;
  accountId: string;
  keyId: string;
  idempotencyKey: string;
  name: string;
  endpoint: string;
  metadata: Record<string, string>;
  fileId: string | null;
  /** When its create call was first made, in Unix milliseconds; null: not yet, so that nothing can have come of it. */
  sentAt: number | null;
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

/** The submission as it was begun first, here or in another tab. */
export function begin(fresh: Submission): Promise<Submission> {
  return within<Submission>('readwrite', (store, give) => {
    const found = store.get(fresh.id);
    found.onsuccess = () => {
      const kept = (found.result as Submission | undefined) ?? fresh;
      store.put(kept);
      give(kept);
    };
  });
}

/** The submission with what `change` makes of it; null when it is no longer kept. */
export function amend(id: string, change: (kept: Submission) => Submission): Promise<Submission | null> {
  return within<Submission | null>('readwrite', (store, give) => {
    give(null);
    const found = store.get(id);
    found.onsuccess = () => {
      if (found.result === undefined) return;
      const changed = change(found.result as Submission);
      store.put(changed);
      give(changed);
    };
  });
}

export function forget(id: string): Promise<void> {
  return within<void>('readwrite', (store) => store.delete(id));
}

export function listSubmissions(accountId: string): Promise<Submission[]> {
  return within<Submission[]>('readonly', (store, give) => {
    const found = store.getAll();
    found.onsuccess = () => give((found.result as Submission[]).filter((kept) => kept.accountId === accountId));
  });
}
