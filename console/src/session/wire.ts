/** Who is signed in, and what that lets them see. */
import type { Schemas } from '../api/client';

export type Session = Schemas['SessionObject'];
export type Capabilities = Schemas['BatchCapabilities'];

export function isAdmin(session: Session): boolean {
  return session.role === 'admin';
}
