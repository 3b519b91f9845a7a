/** /admin/models: models, their routes and batch work; an address with #model leads to that one. */
import { useState } from 'react';
import { useLocation } from 'react-router';

import { Confirm } from '../../../parts/Confirm';
import { FilterBar } from '../../../parts/FilterBar';
import { Facts, Page, Section } from '../../../parts/Page';
import { Empty, Loaded, Note } from '../../../parts/states';
import { useUrlState } from '../../../parts/useUrlState';
import admin from '../admin.module.css';
import { useBatchConcurrency, useBatchPermission, useBatchWork, useModels, useRouteChange } from './load';
import { type CapCommand, ModelCard, Work } from './view';
import { choiceOf, joined, type ModelRoute } from './wire';

export function Component() {
  const url = useUrlState();
  const models = useModels();
  const work = useBatchWork();
  const cap = useBatchConcurrency();
  const change = useRouteChange();
  const weigh = useRouteChange();
  const permission = useBatchPermission();
  const [doomed, setDoomed] = useState<ModelRoute | null>(null);
  const hash = useLocation().hash.slice(1);
  const search = url.get('search').toLowerCase();
  const capCommand: CapCommand = (model, value) => cap.mutateAsync({ model, cap: value });
  const enable = (route: ModelRoute, enabled: boolean) => change.mutate({ route: route.route, change: { enabled: enabled ? null : false } }, { onSuccess: close });
  const close = () => {
    setDoomed(null);
    change.reset();
  };
  const refused = permission.error ?? (doomed === null ? change.error : null);
  return (
    <Page title="Models and routes" lead="As configured in the models file, with how their routes fare and what you chose about them. Choices are in force everywhere within ten seconds.">
      <FilterBar url={url} search="Search the models" />
      {refused !== null && (
        <Note tone="bad" role="alert">
          {refused.message}
        </Note>
      )}
      <Loaded query={models} rows={6}>
        {(list) => {
          const { states, orphans } = joined(list.data, work.data?.data ?? []);
          const shown = states.filter(({ model }) => [model.id, ...model.aliases].some((name) => name.toLowerCase().includes(search)));
          return (
            <>
              {shown.length === 0 && <Empty title="No model fits">Look for another part of its name.</Empty>}
              {shown.map((state) => (
                <ModelCard
                  key={state.model.id}
                  state={state}
                  target={[state.model.id, encodeURIComponent(state.model.id)].includes(hash)}
                  cap={capCommand}
                  routes={{
                    enable: (route, enabled) => (enabled ? enable(route, true) : setDoomed(route)),
                    weigh: (route, weight) => weigh.mutateAsync({ route: route.route, change: { weight } }),
                    permit: (route, chosen) => permission.mutate({ route: route.route, allowed: choiceOf(chosen) }),
                  }}
                />
              ))}
              {orphans.map((one) => (
                <section key={one.model_id} className={admin.model} aria-label={one.model_id}>
                  <div className={admin.modelHead}>
                    <h2 className={admin.modelName}>{one.model_id}</h2>
                    <span>Not configured any more; its batch requests wait</span>
                  </div>
                  <Work work={one} cap={capCommand} />
                </section>
              ))}
              {Object.keys(list.auto).length > 0 && (
                <Section title="What “auto” stands for">
                  <Facts facts={Object.entries(list.auto).map(([name, ids]) => [name, ids.join(', ')] as const)} />
                </Section>
              )}
            </>
          );
        }}
      </Loaded>
      <Confirm
        ask={
          doomed === null
            ? null
            : {
                title: `Switch ${doomed.route.route_id} off?`,
                children: `No new call of anyone’s for ${doomed.route.model_id} goes to this route. What runs there still finishes.`,
                action: 'Switch it off',
                danger: true,
              }
        }
        busy={change.isPending}
        error={change.error}
        onClose={close}
        onConfirm={() => doomed !== null && enable(doomed, false)}
      />
    </Page>
  );
}
