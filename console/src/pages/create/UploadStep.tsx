/** Step 1: a file from this computer, or one that is stored already; what it holds, or what is wrong with it. */
import { Button, Progress, VisuallyHidden } from '@mantine/core';
import { IconFileUpload } from '@tabler/icons-react';
import { type DragEvent, type ReactNode, useState } from 'react';

import { ApiError } from '../../api/client';
import { bytes, count } from '../../parts/format';
import { Facts } from '../../parts/Page';
import css from '../../parts/parts.module.css';
import { Note } from '../../parts/states';
import own from './create.module.css';
import type { Doing } from './load';
import type { FileLimits } from './preflight/types';
import { ProblemsView } from './Problems';
import { type Read, TARGET_WORDS } from './wire';

const DOING_WORDS = { reading: 'Reading the file …', storing: 'Nothing is wrong with it. Storing the file …' };

export function UploadStep(props: {
  limits: FileLimits;
  read: Read | null;
  busy: boolean;
  doing: Doing;
  error: Error | null;
  onFile: (file: File) => void;
  onAgain: () => void;
  onNext: () => void;
  children: ReactNode;
}) {
  const { read } = props;
  return (
    <div>
      <Drop limits={props.limits} onFile={props.onFile} />
      <div style={{ marginTop: 16 }} aria-live="polite">
        {props.busy && (
          <div>
            <div className={css.sub}>{DOING_WORDS[props.doing.what]}</div>
            <Progress value={props.doing.part * 100} animated={props.doing.part === 1} size="sm" aria-label={`How much of the file is ${props.doing.what === 'reading' ? 'read' : 'stored'}`} />
          </div>
        )}
        {props.error !== null && (
          <Note tone="bad" role="alert">
            <div className={own.noteRow}>
              <span>{props.error.message}</span>
              {props.error instanceof ApiError && (
                <Button size="xs" variant="default" onClick={props.onAgain}>
                  Try again
                </Button>
              )}
            </div>
          </Note>
        )}
        {!props.busy && read !== null && <Found read={read} onNext={props.onNext} />}
      </div>
      {props.children}
    </div>
  );
}

function Drop(props: { limits: FileLimits; onFile: (file: File) => void }) {
  const [over, setOver] = useState(false);
  const take = (files: FileList | null) => {
    const file = files?.[0];
    if (file !== undefined) props.onFile(file);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files);
  };
  return (
    <label className={own.drop} data-over={over} onDragOver={(event) => (event.preventDefault(), setOver(true))} onDragLeave={() => setOver(false)} onDrop={drop}>
      <IconFileUpload size={28} stroke={1.5} aria-hidden />
      <div className={own.dropTitle}>Choose a JSONL file, or drop it here</div>
      <div className={css.sub}>
        One request a line: custom_id and body; url and method may be left out. Up to {count(props.limits.requests)} requests and{' '}
        {bytes(props.limits.fileBytes)}.
      </div>
      <VisuallyHidden>The file of requests</VisuallyHidden>
      <input
        type="file"
        className={own.dropInput}
        accept=".jsonl,.ndjson,.json,.txt,application/jsonl"
        aria-label="The file of requests"
        onChange={(event) => {
          take(event.currentTarget.files);
          event.currentTarget.value = '';
        }}
      />
    </label>
  );
}

function Found({ read, onNext }: { read: Read; onNext: () => void }) {
  const { source, survey } = read;
  if (survey.problems.total > 0) return <ProblemsView problems={survey.problems} filename={source.filename} />;
  const models = survey.models.map(([name, requests]) => `${name === '' ? 'none named' : name} (${count(requests)})`);
  return (
    <div className={own.panel}>
      <Facts
        facts={[
          ['File', source.filename],
          ['Size', bytes(source.blob.size)],
          ['Requests', count(survey.requests)],
          ['Type', survey.target === null ? 'To be chosen: no line says' : TARGET_WORDS[survey.target]],
          ['Models', models.slice(0, 5).join(', ') + (models.length > 5 ? ` and ${models.length - 5} more` : '')],
        ]}
      />
      <div className={own.foot} style={{ marginTop: 18 }}>
        <span className={css.sub}>The file is stored; nothing has run, and nothing was billed.</span>
        <Button onClick={onNext}>Configure</Button>
      </div>
    </div>
  );
}
