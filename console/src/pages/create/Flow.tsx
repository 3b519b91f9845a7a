/** The three steps, joined: which one is shown, and what is known so far. */
import { useEffect, useState } from 'react';
import { useNavigate, useSearchParams } from 'react-router';

import { type Ask, Confirm } from '../../parts/Confirm';
import { Section } from '../../parts/Page';
import { Loaded, Note } from '../../parts/states';
import { useSignedIn } from '../../session/load';
import { ConfigureStep } from './ConfigureStep';
import { ConfirmStep } from './ConfirmStep';
import own from './create.module.css';
import { useCheck, useCopied, useDeleteFile, useFiles, useForget, useKeyUsed, useOutcomes, useReadFile, useSubmit } from './load';
import { OpenSubmissionsView } from './OpenSubmissions';
import { isStale, storedSource, UnknownOutcome } from './submit';
import { UploadedFilesView } from './UploadedFiles';
import { UploadStep } from './UploadStep';
import { type Capabilities, type Choices, limitsOf, NO_CHOICES, type Read, type StoredFile, usableModels, whyChoose, withUsable } from './wire';

const STEPS = ['Upload data', 'Configure', 'Check and confirm'];

export function Flow({ capabilities }: { capabilities: Capabilities }) {
  const [step, setStep] = useState(0);
  const [choices, setChoices] = useState<Choices>(NO_CHOICES);
  const limits = limitsOf(capabilities);
  const read = useReadFile(limits);
  const found = read.data ?? null;
  const take = (find: Parameters<typeof read.mutate>[0]) => read.mutate(find, { onSuccess: ({ source }) => setChoices((before) => ({ ...before, name: before.name || nameOf(source.filename) })) });
  const use = (file: Pick<StoredFile, 'id' | 'filename'>) => take(() => storedSource(file));
  const copied = useCopy(setChoices, use);
  return (
    <>
      <ol className={own.stepper} aria-label="Steps">
        {STEPS.map((name, at) => (
          <li key={name} className={own.stepMark} aria-current={at === step ? 'step' : undefined} data-done={at < step}>
            {at + 1}. {name}
          </li>
        ))}
      </ol>
      {step === 0 && (
        <UploadStep limits={limits} read={found} busy={read.isPending} part={read.part} error={read.error} onFile={(file) => take(async () => ({ blob: file, filename: file.name, fileId: null }))} onAgain={() => read.variables !== undefined && take(read.variables)} onNext={() => setStep(1)}>
          <Beside copied={copied} onUse={use} />
        </UploadStep>
      )}
      {step > 0 && found !== null && <Rest capabilities={capabilities} read={found} choices={choices} onChange={setChoices} step={step} onStep={setStep} />}
    </>
  );
}

function nameOf(filename: string): string {
  return filename.replace(/\.(jsonl|ndjson|json|txt)$/i, '');
}

/** Begin with a batch's settings and its file, where the address names one. */
function useCopy(setChoices: (choices: Choices) => void, use: (file: StoredFile) => void) {
  const [params] = useSearchParams();
  const copied = useCopied(params.get('from'));
  const { data } = copied;
  useEffect(() => {
    if (data === undefined) return;
    setChoices(data.choices);
    if (data.file !== null) use(data.file);
    // Once for each batch that is copied, whatever is chosen afterwards.
  }, [data]);
  return copied;
}

function Beside(props: { copied: ReturnType<typeof useCopied>; onUse: (file: StoredFile) => void }) {
  const files = useFiles();
  const remove = useDeleteFile();
  const [doomed, setDoomed] = useState<StoredFile | null>(null);
  const close = () => {
    setDoomed(null);
    remove.reset();
  };
  const { data, error } = props.copied;
  return (
    <>
      <div className={own.notes} style={{ marginTop: 16 }}>
        {error !== null && <Note tone="bad" role="alert">{error.message}</Note>}
        {data?.file === null && <Note tone="warn" role="status">The batch’s file is no longer stored: choose it again. Its settings are kept.</Note>}
      </div>
      <Submissions />
      <Section title="Uploaded files">
        <Loaded query={files} rows={3}>{(page) => <UploadedFilesView files={page.data} onUse={props.onUse} onDelete={setDoomed} />}</Loaded>
      </Section>
      <Confirm ask={doomed === null ? null : deleteAsk(doomed)} busy={remove.isPending} error={remove.error} onClose={close} onConfirm={() => doomed !== null && remove.mutate(doomed.id, { onSuccess: close })} />
    </>
  );
}

function deleteAsk(file: StoredFile): Ask {
  return { title: `Delete ${file.filename}?`, children: 'It is removed for good. A batch that was made of it goes on.', action: 'Delete the file', danger: true };
}

function Submissions() {
  const session = useSignedIn();
  const outcomes = useOutcomes(session.account_id);
  const forget = useForget();
  return <OpenSubmissionsView outcomes={outcomes.data ?? []} busy={outcomes.isFetching} onAgain={() => void outcomes.refetch()} onForget={(forgotten) => forget.mutate(forgotten)} />;
}

interface RestProps {
  capabilities: Capabilities;
  read: Read;
  choices: Choices;
  onChange: (choices: Choices) => void;
  step: number;
  onStep: (step: number) => void;
}

function Rest(props: RestProps) {
  const { capabilities, read } = props;
  const session = useSignedIn();
  const navigate = useNavigate();
  const key = useKeyUsed();
  const check = useCheck(capabilities);
  const submit = useSubmit(session.account_id);
  const forget = useForget();
  const target = read.survey.target ?? props.choices.target;
  const models = target === null ? [] : usableModels(capabilities, target);
  const choices = withUsable(props.choices, models);
  const inspect = (then: () => void) => target !== null && check.mutate({ read, choices, target }, { onSuccess: then });
  const back = (step: number) => {
    submit.reset();
    props.onStep(step);
  };
  const send = () => check.data !== undefined && submit.mutate(check.data, { onSuccess: (id) => void navigate(`/batches/${id}`) });
  const unknown = submit.error instanceof UnknownOutcome ? submit.error : null;
  if (props.step === 1) {
    return (
      <ConfigureStep
        choices={choices}
        target={target}
        targetGiven={read.survey.target !== null}
        models={models}
        why={whyChoose(read.survey, models)}
        busy={check.isPending}
        error={check.error}
        onChange={(change) => props.onChange({ ...choices, ...change })}
        onBack={() => back(0)}
        onCheck={() => inspect(() => props.onStep(2))}
      />
    );
  }
  if (check.data === undefined) return null;
  return (
    <>
      <ConfirmStep
        checked={check.data}
        capabilities={capabilities}
        keyUsed={key.data}
        busy={submit.isPending || check.isPending}
        error={check.error ?? key.error ?? (unknown === null ? submit.error : null)}
        stale={isStale(submit.error)}
        onBack={() => back(1)}
        onCheck={() => inspect(() => submit.reset())}
        onSubmit={send}
      />
      <Confirm
        ask={unknown === null ? null : UNKNOWN}
        busy={forget.isPending}
        error={forget.error}
        onClose={() => submit.reset()}
        onConfirm={() => unknown !== null && forget.mutate({ kept: unknown.kept, made: true }, { onSuccess: send })}
      />
    </>
  );
}

const UNKNOWN: Ask = {
  title: 'Was this submitted before?',
  children:
    'The same file with the same settings was submitted here, and no answer ever came. Too much time has passed to be sure whether it made a batch. Look at your batches first: submitting again makes a new submission, which can create and bill a second batch.',
  action: 'Submit again',
  keep: 'Do not submit',
  danger: true,
};
