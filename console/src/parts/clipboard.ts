/** Putting text on the clipboard, also on pages that are served over plain HTTP, where browsers offer no clipboard. */

/** Whether it is there now. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // There is none on this page, or it is not allowed here.
    return copySelected(text);
  }
}

/** By the command that copies what is selected; where the page's focus was it is again. */
function copySelected(text: string): boolean {
  const before = document.activeElement;
  const field = document.createElement('textarea');
  field.value = text;
  field.style.position = 'fixed';
  field.style.opacity = '0';
  // A dialog lets nothing outside of it have the focus.
  (before?.closest('[role="dialog"]') ?? document.body).append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}
