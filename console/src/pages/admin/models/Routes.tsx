/** A model's routes: health, weight, permission for batch work, and the switch. */
import { SegmentedControl, Switch } from '@mantine/core';

import { count } from '../../../parts/format';
import css from '../../../parts/parts.module.css';
import { Status } from '../../../parts/Status';
import admin from '../admin.module.css';
import { EditNumber } from '../EditNumber';
import { healthOf, type ModelRoute, type Permission, permissionOf } from './wire';

export interface RouteCommands {
  enable: (route: ModelRoute, enabled: boolean) => void;
  weigh: (route: ModelRoute, weight: number | null) => Promise<unknown>;
  permit: (route: ModelRoute, permission: Permission) => void;
}

export function Routes(props: { routes: readonly ModelRoute[]; commands: RouteCommands }) {
  return (
    <div className={admin.routes} role="list" aria-label="Routes">
      {props.routes.map((route) => (
        <RouteRow key={route.route.route_id} route={route} commands={props.commands} />
      ))}
    </div>
  );
}

function RouteRow(props: { route: ModelRoute; commands: RouteCommands }) {
  const { route: whole, commands } = props;
  const { route } = whole;
  return (
    <div className={admin.route} role="listitem" aria-label={`Route ${route.route_id}`}>
      <div>
        <div style={{ fontWeight: 500 }}>
          {route.route_id}
          {whole.reserve && <span className={css.sub}> · reserve</span>}
        </div>
        <div className={css.sub} style={{ overflowWrap: 'anywhere' }}>
          {route.kind}
          {route.host !== null && ` · ${route.host}`}
        </div>
      </div>
      <div>
        <Status {...healthOf(whole)} />
        <div className={css.sub}>{inFlight(whole)}</div>
      </div>
      <div>
        <div className={css.factName}>Weight</div>
        <EditNumber
          label={`Weight of ${route.route_id}`}
          shown={String(route.weight)}
          value={route.weight_choice}
          empty={String(route.weight_default)}
          help={`Its share of the calls. Empty: ${route.weight_default}, as configured.`}
          decimals={3}
          onSave={(weight) => commands.weigh(whole, weight)}
        />
      </div>
      <div>
        <div className={css.factName}>Batch work</div>
        {route.model_type === 'embedding' ? <span className={css.sub}>always, as embeddings</span> : <BatchPermission route={whole} onPermit={(permission) => commands.permit(whole, permission)} />}
      </div>
      <Switch
        checked={route.enabled}
        label={route.enabled ? 'On' : 'Off'}
        aria-label={`Route ${route.route_id} takes calls`}
        onChange={(event) => commands.enable(whole, event.currentTarget.checked)}
      />
    </div>
  );
}

function inFlight(route: ModelRoute): string {
  const limit = route.max_concurrency === null ? '' : ` of ${count(route.max_concurrency)}`;
  return `${count(route.health?.in_flight ?? 0)}${limit} in flight`;
}

function BatchPermission(props: { route: ModelRoute; onPermit: (permission: Permission) => void }) {
  const { route } = props.route;
  const byDefault = route.batch_allowed_default ? 'Auto: yes' : 'Auto: no';
  return (
    <SegmentedControl
      size="xs"
      aria-label={`Batch work on ${route.route_id}`}
      data={[
        { value: 'default', label: byDefault },
        { value: 'allow', label: 'Yes' },
        { value: 'forbid', label: 'No' },
      ]}
      value={permissionOf(route.batch_allowed_choice)}
      onChange={(value) => props.onPermit(value as Permission)}
    />
  );
}
