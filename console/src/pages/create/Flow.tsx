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
import { useDraft } from './draft';
import { useBeginning, useCheck, useDeleteFile, useFiles, useForget, useKeyUsed, useOutcomes, useReadFile, useSubmit } from './load';
import { OpenSubmissionsView } from './OpenSubmissions';
import { Stepper } from './Stepper';
import { isStale, storedSource, UnknownOutcome } from './submit';
import { UploadedFilesView } from './UploadedFiles';
import { UploadStep } from './UploadStep';
import { type Capabilities, type Checked, type Choices, limitsOf, type Read, type StoredFile, usableModels, whyChoose, withUsable } from './wire';

export function Flow({ capabilities }: { capabilities: Capabilities }) {
  const [place, setPlace] = usePlace();
  const session = useSignedIn();
  const { choices, setChoices, restored } = useDraft({ accountId: session.account_id, from: place.from, file: place.file });
  const limits = limitsOf(capabilities);
  const read = useReadFile(limits);
  const check = useCheck(capabilities);
  const found = read.data ?? null;
  const step = stepOf(place.step, found, check.data);
  const take = (find: Parameters<typeof read.mutate>[0]) => {
    const before = found === null ? '' : nameOf(found.source.filename);
    check.reset();
    read.mutate(find, {
      onSuccess: ({ source }) => {
        setPlace({ file: source.fileId });
        setChoices((chosen) => (chosen.name === '' || chosen.name === before ? { ...chosen, name: nameOf(source.filename) } : chosen));
      },
    });
  };
  const use = (file: Pick<StoredFile, 'id' | 'filename'>) => take(() => storedSource(file));
  const begun = useBegun(place, restored ? null : setChoices, use);
  const change = (choices: Choices) => {
    check.reset();
    setChoices(choices);
  };
  return (
    <>
      <Stepper step={step} />
      {step < 2 && <Submissions />}
      {step === 0 && (
        <UploadStep limits={limits} read={found} busy={read.isPending} doing={read.doing} error={read.error} onFile={(file) => take(async () => ({ blob: file, filename: file.name, fileId: null }))} onAgain={() => read.variables !== undefined && take(read.variables)} onNext={() => setPlace({ step: 1 })}>
          <Beside begun={begun} onUse={use} />
        </UploadStep>
      )}
      {step > 0 && found !== null && <Rest capabilities={capabilities} read={found} check={check} choices={choices} onChange={change} step={step} onStep={(to) => setPlace({ step: to })} />}
    </>
  );
}

/** The furthest step up to the wanted one for which all is there. */
function stepOf(wanted: number, found: Read | null, checked: Checked | undefined): number {
  if (found === null || found.source.fileId === null) return 0;
  return checked === undefined ? Math.min(wanted, 1) : wanted;
}

interface Place {
  /** The batch that is copied. */
  from: string | null;
  file: string | null;
  step: number;
}

/** Where one is, in the address: the browser's own Back leads a step back, and a reload finds the file again. */
function usePlace(): [Place, (to: { step: number } | { file: string | null }) => void] {
  const [params, setParams] = useSearchParams();
  const place = { from: params.get('from'), file: params.get('file'), step: Math.max(0, STEP_WORDS.indexOf(params.get('step') ?? '')) };
  const setPlace = (to: { step: number } | { file: string | null }) => {
    const [name, value] = 'step' in to ? ['step', STEP_WORDS[to.step]] : ['file', to.file];
    const change = (before: URLSearchParams) => {
      const after = new URLSearchParams(before);
      if (value) after.set(name as string, value);
      else after.delete(name as string);
      return after;
    };
    setParams(change, { replace: name === 'file' });
  };
  return [place, setPlace];
}

const STEP_WORDS = ['', 'configure', 'confirm'];

function nameOf(filename: string): string {
  return filename.replace(/\.(jsonl|ndjson|json|txt)$/i, '');
}

/** Begin with a batch's settings, unless they are known already, and its file, where the address named one at first. */
function useBegun(place: Place, setChoices: ((choices: Choices) => void) | null, use: (file: StoredFile) => void) {
  const [{ from, file }] = useState(place);
  const begun = useBeginning(from, file);
  const { data } = begun;
  useEffect(() => {
    if (data === undefined) return;
    setChoices?.(data.choices);
    if (data.file !== null) use(data.file);
    // Once for each beginning, whatever is chosen afterwards.
  }, [data]);
  return begun;
}

function Beside(props: { begun: ReturnType<typeof useBeginning>; onUse: (file: StoredFile) => void }) {
  const files = useFiles();
  const remove = useDeleteFile();
  const [doomed, setDoomed] = useState<StoredFile | null>(null);
  const close = () => {
    setDoomed(null);
    remove.reset();
  };
  const { data, error } = props.begun;
  return (
    <>
      <div className={own.notes} style={{ marginTop: 16 }}>
        {error !== null && <Note tone="bad" role="alert">{error.message}</Note>}
        {data?.file === null && <Note tone="warn" role="status">The file is no longer stored: choose it again. What was chosen for the batch is kept.</Note>}
      </div>
      <Section title="Uploaded files">
        <Loaded query={files} rows={3}>{({ pages }) => <UploadedFilesView files={pages.flatMap((page) => page.data)} more={files.hasNextPage ? () => void files.fetchNextPage() : null} busy={files.isFetchingNextPage} onUse={props.onUse} onDelete={setDoomed} />}</Loaded>
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
  check: ReturnType<typeof useCheck>;
  choices: Choices;
  onChange: (choices: Choices) => void;
  step: number;
  onStep: (step: number) => void;
}

function Rest(props: RestProps) {
  const { capabilities, read, check } = props;
  const session = useSignedIn();
  const navigate = useNavigate();
  const key = useKeyUsed();
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
