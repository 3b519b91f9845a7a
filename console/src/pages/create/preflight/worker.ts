/** Works on a whole file beside the page, so that the page stays quick: one job for each worker. */
import { survey } from './file';
import { prepare } from './stored';
import type { Job, Prepared, Reply, Survey } from './types';

const reply = (message: Reply) => self.postMessage(message);

self.onmessage = (event: MessageEvent<Job>) => {
  work(event.data).then(
    (result) => reply({ kind: 'done', result }),
    (error: unknown) => reply({ kind: 'failed', message: error instanceof Error ? error.message : String(error) }),
  );
};

async function work(job: Job): Promise<Survey | Prepared> {
  const bytes = new Uint8Array(await job.file.arrayBuffer());
  const progress = (part: number) => reply({ kind: 'progress', part });
  if (job.kind === 'survey') return survey(bytes, job.limits, progress);
  return prepare(bytes, job.limits, job, progress);
}
