/** /webhook: one address that is told when batches end. */
import { useState } from 'react';

import { Confirm } from '../../parts/Confirm';
import { nextOf, Pager } from '../../parts/DataTable';
import { Page, Section } from '../../parts/Page';
import { SecretOnce } from '../../parts/SecretOnce';
import { Empty, Loaded, Note } from '../../parts/states';
import { useUrlState } from '../../parts/useUrlState';
import { useCapabilities } from '../../session/load';
import { useDeliveries, useRemoveWebhook, useSetWebhook, useWebhook } from './load';
import { DeliveriesView, Standing, WebhookForm } from './view';
import type { Webhook } from './wire';

const ROTATE = {
  title: 'Make a new signing secret?',
  children: 'The present one signs nothing from then on: put the new one in place where events are verified.',
  action: 'Make a new secret',
};
const REMOVE = {
  title: 'Remove the webhook?',
  children: 'Events that were still to be sent are removed with it.',
  action: 'Remove it',
  danger: true,
};

export function Component() {
  const webhook = useWebhook();
  const capabilities = useCapabilities();
  const may = capabilities.data?.role_may_submit === true;
  return (
    <Page title="Webhook" lead="One address of yours gets a short, signed event when one of your batches ends.">
      {capabilities.data !== undefined && !may && (
        <div style={{ marginBottom: 16 }}>
          <Note tone="warn">Changing it takes the role {capabilities.data.min_role}. You can still remove it.</Note>
        </div>
      )}
      <Loaded query={webhook} rows={2}>
        {(found) => <Shown webhook={found} mayChange={may} />}
      </Loaded>
    </Page>
  );
}

function Shown({ webhook, mayChange }: { webhook: Webhook | null; mayChange: boolean }) {
  const save = useSetWebhook();
  const rotate = useSetWebhook();
  const remove = useRemoveWebhook();
  const [asked, setAsked] = useState<typeof ROTATE | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const command = asked === ROTATE ? rotate : remove;
  const close = () => setAsked(null);
  const tell = (changed: Webhook) => {
    close();
    setSecret(changed.secret ?? null);
  };
  const confirm = () =>
    asked === ROTATE ? rotate.mutate({ rotate_secret: true }, { onSuccess: tell }) : remove.mutate(undefined, { onSuccess: close });
  return (
    <>
      <WebhookForm key={webhook?.url ?? ''} webhook={webhook} mayChange={mayChange} busy={save.isPending} error={save.error} onSave={(url) => save.mutate({ url }, { onSuccess: tell })} />
      {webhook !== null && (
        <>
          <Standing webhook={webhook} mayChange={mayChange} onEnable={(enabled) => save.mutate({ enabled })} onRotate={() => setAsked(ROTATE)} onRemove={() => setAsked(REMOVE)} />
          <Deliveries />
        </>
      )}
      <Confirm ask={asked} busy={command.isPending} error={command.error} onClose={close} onConfirm={confirm} />
      <SecretOnce title="The signing secret" secret={secret} onClose={() => setSecret(null)}>
        Copy it now: it is shown this once. Events are verified with it, as Standard Webhooks describes.
      </SecretOnce>
    </>
  );
}

function Deliveries() {
  const url = useUrlState();
  const deliveries = useDeliveries(url.after, true);
  return (
    <Section title="Recent deliveries">
      <Loaded query={deliveries}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title="Nothing was sent yet">The next batch that ends makes the first event.</Empty>
          ) : (
            <>
              <DeliveriesView deliveries={page.data} />
              <Pager url={url} shown={page.data.length} order="newest first" next={nextOf(page)} />
            </>
          )
        }
      </Loaded>
    </Section>
  );
}
