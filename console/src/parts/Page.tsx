/** A page's frame: its title (also the tab's), what it is for, its actions; and the sections in it. */
import { Title } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';

import css from './parts.module.css';

/** What the tab is called. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Ebbtide`;
  }, [title]);
}

export function Page(props: { title: string; lead?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  useTitle(props.title);
  return (
    <div className={css.page}>
      <header className={css.header}>
        <div>
          <Title order={1}>{props.title}</Title>
          {props.lead !== undefined && <p className={css.lead}>{props.lead}</p>}
        </div>
        {props.actions}
      </header>
      {props.children}
    </div>
  );
}

export function Section(props: { title: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <section className={css.section} aria-label={props.title}>
      <div className={css.sectionHead}>
        <Title order={2}>{props.title}</Title>
        {props.aside}
      </div>
      {props.children}
    </section>
  );
}

/** Names and values side by side; null values are left out. */
export function Facts(props: { facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className={css.facts} style={{ margin: 0 }}>
      {props.facts
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt className={css.factName}>{name}</dt>
            <dd className={css.factValue} style={{ margin: 0 }}>
              {value}
            </dd>
          </div>
        ))}
    </dl>
  );
}
