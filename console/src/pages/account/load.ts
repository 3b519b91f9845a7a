/** Changing one's own password, and ending one's sessions. */
import { useMutation } from '@tanstack/react-query';

import { body, client } from '../../api/client';
import { leave } from '../../session/load';

export interface PasswordChange {
  current: string;
  new: string;
}

export function useChangePassword() {
  return useMutation({ mutationFn: (change: PasswordChange) => body(client.PUT('/user/password', { body: change })) });
}

/** Ends every session of the account, this one too. */
export function useSignOutEverywhere() {
  return useMutation({ mutationFn: () => body(client.DELETE('/sessions')), onSuccess: leave });
}
