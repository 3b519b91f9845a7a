/** Step 2: what the batch is called, and what is chosen for every request of it. All else stays as the file has it. */
import { Button, NumberInput, SegmentedControl, Select, Textarea, TextInput } from '@mantine/core';
import type { FormEvent } from 'react';

import { Note } from '../../parts/states';
import own from './create.module.css';
import type { Target } from './preflight/types';
import { type BatchModel, type Choices, NAME_LENGTH, TARGET_WORDS } from './wire';

export interface Configured {
  choices: Choices;
  /** Null while it is still to be chosen. */
  target: Target | null;
  /** The type is the file's, so that nothing can be chosen. */
  targetGiven: boolean;
  models: readonly BatchModel[];
  /** Why the file's model will not do; null where it will. */
  why: string | null;
}

export function ConfigureStep(props: Configured & { busy: boolean; error: Error | null; onChange: (change: Partial<Choices>) => void; onBack: () => void; onCheck: () => void }) {
  const { choices, target, onChange } = props;
  const ready = target !== null && choices.name.trim() !== '' && (props.why === null || choices.model !== '');
  const check = (event: FormEvent) => {
    event.preventDefault();
    if (ready) props.onCheck();
  };
  return (
    <form onSubmit={check} style={{ maxWidth: 820 }}>
      <div className={own.form}>
        <TextInput label="Name" required withAsterisk={false} maxLength={NAME_LENGTH} value={choices.name} onChange={(event) => onChange({ name: event.currentTarget.value })} />
        <TypeField {...props} />
        <Textarea className={own.whole} label="Description" description="Optional" autosize minRows={2} maxLength={NAME_LENGTH} value={choices.description} onChange={(event) => onChange({ description: event.currentTarget.value })} />
        {target !== null && <ModelField {...props} />}
        {target === 'chat' && (
          <>
            <NumberInput label="temperature" description="For every request; empty keeps the file’s" min={0} max={2} step={0.1} value={choices.temperature} onChange={(value) => onChange({ temperature: String(value) })} />
            <NumberInput label="max_tokens" description="For every request; empty keeps the file’s" min={1} allowDecimal={false} value={choices.maxTokens} onChange={(value) => onChange({ maxTokens: String(value) })} />
          </>
        )}
      </div>
      {props.error !== null && (
        <div style={{ marginTop: 16 }}>
          <Note tone="bad" role="alert">
            {props.error.message}
          </Note>
        </div>
      )}
      <div className={own.foot}>
        <Button variant="default" onClick={props.onBack}>
          Back
        </Button>
        <Button type="submit" loading={props.busy} disabled={!ready}>
          Check every line
        </Button>
      </div>
    </form>
  );
}

function TypeField(props: Configured & { onChange: (change: Partial<Choices>) => void }) {
  if (props.targetGiven) return <TextInput label="Type, as the file’s lines say" value={props.target === null ? '' : TARGET_WORDS[props.target]} readOnly />;
  const data = [{ value: '', label: 'Not chosen' }, ...Object.entries(TARGET_WORDS).map(([value, label]) => ({ value, label }))];
  return (
    <div>
      <div id="batch-type" style={{ fontSize: 13, fontWeight: 500, marginBottom: 4 }}>
        Type: no line says, so choose it
      </div>
      <SegmentedControl aria-labelledby="batch-type" data={data} value={props.target ?? ''} onChange={(value) => props.onChange({ target: value === '' ? null : (value as Target), model: '' })} />
    </div>
  );
}

function ModelField(props: Configured & { onChange: (change: Partial<Choices>) => void }) {
  const { models, why, choices } = props;
  const known = models.map((model) => ({ value: model.id, label: model.live ? model.id : `${model.id} (no server is up: it will wait)` }));
  const data = why === null ? [{ value: '', label: 'The file’s model' }, ...known] : known;
  if (models.length === 0) return <Note tone="warn">No model that you may use can run batches of this type.</Note>;
  return (
    <div className={own.whole}>
      <Select
        label="Model"
        description={why ?? 'For every request'}
        placeholder="Choose one for every request"
        data={data}
        value={why !== null && choices.model === '' ? null : choices.model}
        onChange={(model) => props.onChange({ model: model ?? '' })}
        searchable
        allowDeselect={false}
      />
    </div>
  );
}
