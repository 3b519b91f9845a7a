/** Which of the three steps is shown. A new step has the focus, so that it is read and left by keyboard from its beginning. */
import { useEffect, useRef } from 'react';

import own from './create.module.css';

const STEPS = ['Upload data', 'Configure', 'Check and confirm'];

export function Stepper({ step }: { step: number }) {
  const current = useRef<HTMLLIElement>(null);
  const shown = useRef(step);
  useEffect(() => {
    if (shown.current === step) return;
    shown.current = step;
    current.current?.focus();
  }, [step]);
  return (
    <ol className={own.stepper} aria-label="Steps">
      {STEPS.map((name, at) => (
        <li key={name} className={own.stepMark} tabIndex={-1} ref={at === step ? current : undefined} aria-current={at === step ? 'step' : undefined} data-done={at < step}>
          {at + 1}. {name}
        </li>
      ))}
    </ol>
  );
}
