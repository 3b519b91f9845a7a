/** /quickstart: snippets that run as they stand, but for the key. */
import { Page } from '../../parts/Page';
import { Empty, Loaded } from '../../parts/states';
import { useUrlState } from '../../parts/useUrlState';
import { useModels } from './load';
import { QuickstartView } from './view';

export function Component() {
  const url = useUrlState();
  const models = useModels();
  return (
    <Page title="Quickstart" lead="Filled with this gateway’s address and the model you choose.">
      <Loaded query={models}>
        {(found) => {
          const model = found.includes(url.get('model')) ? url.get('model') : (found.find((name) => !/embed/i.test(name)) ?? found[0]);
          if (model === undefined) return <Empty title="There is no model for you">An administrator adds models, and says who may use them.</Empty>;
          return (
            <QuickstartView
              models={found}
              model={model}
              task={url.get('task') === 'batch' ? 'batch' : 'ask'}
              url={window.location.origin}
              onModel={(name) => url.set({ model: name })}
              onTask={(task) => url.set({ task })}
            />
          );
        }}
      </Loaded>
    </Page>
  );
}
