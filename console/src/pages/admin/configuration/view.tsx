/** Every setting in its group: what it does, what is in force and from where, and a field made from its type and bounds. */
import { Anchor, MultiSelect, NumberInput, Select, Switch, TextInput } from '@mantine/core';

import { Section } from '../../../parts/Page';
import css from '../../../parts/parts.module.css';
import { Note } from '../../../parts/states';
import { Time } from '../../../parts/Time';
import admin from '../admin.module.css';
import { type Draft, type Group, type Setting, SOURCES, type Value, wordsOf } from './wire';

export interface SettingCommands {
  choose: (setting: Setting, value: Value) => void;
  reset: (setting: Setting) => void;
}

export function SettingsView(props: { groups: readonly Group[]; draft: Draft; commands: SettingCommands }) {
  return (
    <>
      {props.groups.map((group) => (
        <Section key={group.name} title={group.name} aside={<span className={css.sub}>{group.settings.length}</span>}>
          <div className={admin.settings}>
            {group.settings.map((setting) => (
              <SettingRow key={setting.name} setting={setting} draft={props.draft} commands={props.commands} />
            ))}
          </div>
        </Section>
      ))}
    </>
  );
}

function SettingRow(props: { setting: Setting; draft: Draft; commands: SettingCommands }) {
  const { setting, draft, commands } = props;
  const changed = setting.name in draft;
  return (
    <div className={admin.setting}>
      <div>
        <div className={admin.settingName}>{setting.name}</div>
        <p className={css.sub} style={{ margin: '3px 0 0', fontSize: 13 }}>
          {setting.description}
        </p>
        {setting.ignored !== null && (
          <div style={{ marginTop: 8 }}>
            <Note tone="warn">What is stored is not in force: {setting.ignored}</Note>
          </div>
        )}
      </div>
      <div>
        <Field setting={setting} value={changed ? (draft[setting.name] as Value) : setting.value} onChange={(value) => commands.choose(setting, value)} />
        <div className={css.sub} style={{ marginTop: 5 }}>
          {changed ? <strong style={{ color: 'var(--accent)' }}>Not saved yet</strong> : <Source setting={setting} />}
          {changed && !setting.secret && <> · in force {wordsOf(setting, setting.value)}</>}
          {!setting.secret && (changed || setting.source !== 'default') && <> · default {wordsOf(setting, setting.default)}</>}
          {setting.source === 'stored' && !changed && (
            <>
              {' · '}
              <Anchor component="button" type="button" fz="xs" onClick={() => commands.reset(setting)} aria-label={`Reset ${setting.name}`}>
                Reset
              </Anchor>
            </>
          )}
        </div>
      </div>
    </div>
  );
}

function Source({ setting }: { setting: Setting }) {
  return (
    <>
      {SOURCES[setting.source]}
      {setting.updated_at !== null && (
        <>
          {' '}
          <span title={setting.updated_by ?? undefined}>
            <Time at={setting.updated_at} ago />
          </span>
        </>
      )}
    </>
  );
}

function Field(props: { setting: Setting; value: Value; onChange: (value: Value) => void }) {
  const { setting, value, onChange } = props;
  const label = { 'aria-label': setting.name };
  if (setting.type === 'boolean') {
    return <Switch {...label} checked={value === true} label={value === true ? 'On' : 'Off'} onChange={(event) => onChange(event.currentTarget.checked)} />;
  }
  if (setting.choices !== null && setting.several) {
    const chosen = String(value ?? '').split(',').filter((one) => one !== '');
    return <MultiSelect {...label} data={[...setting.choices]} value={chosen} onChange={(next) => onChange(next.join(','))} />;
  }
  if (setting.choices !== null) {
    return <Select {...label} data={[...setting.choices]} value={String(value)} allowDeselect={false} onChange={onChange} />;
  }
  if (setting.type === 'integer') {
    return (
      <NumberInput
        {...label}
        description={setting.bounds}
        inputWrapperOrder={['input', 'description']}
        {...(setting.minimum === null ? {} : { min: setting.minimum })}
        {...(setting.maximum === null ? {} : { max: setting.maximum })}
        clampBehavior="none"
        allowDecimal={false}
        thousandSeparator=","
        suffix={setting.unit === null ? '' : ` ${setting.unit}`}
        value={typeof value === 'number' ? value : ''}
        onChange={(next) => typeof next === 'number' && onChange(next)}
      />
    );
  }
  return (
    <TextInput
      {...label}
      description={setting.bounds}
      inputWrapperOrder={['input', 'description']}
      placeholder={setting.secret && setting.is_set ? 'Set; type to replace it' : 'Nothing'}
      value={String(value ?? '')}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
