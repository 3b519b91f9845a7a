/** What became of the submissions that this browser was not told the outcome of. */
import { Anchor, Button, Group } from '@mantine/core';
import { Link } from 'react-router';

import { Note } from '../../parts/states';
import own from './create.module.css';
import type { Outcome } from './load';
import type { Submission } from './submissions';

export function OpenSubmissionsView(props: { outcomes: readonly Outcome[]; busy: boolean; onAgain: () => void; onForget: (forgotten: { kept: Submission; made: boolean }) => void }) {
  const { outcomes, onAgain, onForget } = props;
  if (outcomes.length === 0) return null;
  return (
    <div className={own.notes}>
      {outcomes.map((outcome) => (
        <Note key={outcome.kept.id} tone={outcome.state === 'made' ? 'good' : 'warn'} role="status">
          <div className={own.noteRow}>
            <span>{words(outcome)}</span>
            <Group gap="xs">
              {outcome.batchId !== null && (
                <Anchor component={Link} to={`/batches/${outcome.batchId}`} fz="inherit" underline="always">
                  Open the batch
                </Anchor>
              )}
              {outcome.state === 'open' && (
                <Button size="xs" variant="default" loading={props.busy} onClick={onAgain}>
                  Find out again
                </Button>
              )}
              {outcome.state === 'asks' && (
                <Anchor component={Link} to="/batches" fz="inherit" underline="always">
                  Look at your batches
                </Anchor>
              )}
              {(outcome.state === 'unsent' || outcome.state === 'asks') && (
                <Button size="xs" variant="default" onClick={() => onForget({ kept: outcome.kept, made: outcome.state === 'asks' })}>
                  {outcome.state === 'asks' ? 'I have looked: forget it' : 'Forget it'}
                </Button>
              )}
            </Group>
          </div>
        </Note>
      ))}
    </div>
  );
}

function words({ kept, state, error }: Outcome): string {
  const name = `“${kept.name}”`;
  if (state === 'made') return `The submission of ${name} was interrupted; it made its batch.`;
  if (state === 'unsent') return `The submission of ${name} was interrupted before anything was made. Choose its file again to submit it.`;
  if (state === 'under_way') return `${name} is being submitted in another tab.`;
  if (state === 'refused') return `The submission of ${name} was refused, so that no batch was made: ${error?.message ?? ''}`;
  if (state === 'open') return `What became of the submission of ${name} is not known yet: ${error?.message ?? ''}`;
  return `What became of the submission of ${name} cannot be known any more. Submitting it again can make and bill a second batch.`;
}
